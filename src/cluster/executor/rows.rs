//! The service that gives rows between stages and of results.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::scheduler::Action as Fetch;
use ballista_executor::flight_service::BallistaFlightService;
use tonic::{Request, Response, Status, Streaming};

use super::tasks::plain_name;

/// Ballista's service, for the folders of statements alone: it takes the name of a statement for a
/// part of a path.
#[derive(Clone)]
pub(super) struct Rows(BallistaFlightService);

impl Rows {
    pub(super) fn new(work_dir: String) -> Self {
        Self(BallistaFlightService::new(work_dir))
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Ballista = BallistaFlightService;

/// Refuses a request for rows of something that is no statement.
fn check(request: &[u8]) -> Result<(), Status> {
    let wrong = |e: &dyn std::fmt::Display| Status::invalid_argument(e.to_string());
    let Fetch::FetchPartition { job_id, .. } = decode_protobuf(request).map_err(|e| wrong(&e))?;
    plain_name(&job_id).map_err(|e| wrong(&e))
}

#[tonic::async_trait]
impl FlightService for Rows {
    type DoActionStream = <Ballista as FlightService>::DoActionStream;
    type DoExchangeStream = <Ballista as FlightService>::DoExchangeStream;
    type DoGetStream = <Ballista as FlightService>::DoGetStream;
    type DoPutStream = <Ballista as FlightService>::DoPutStream;
    type HandshakeStream = <Ballista as FlightService>::HandshakeStream;
    type ListActionsStream = <Ballista as FlightService>::ListActionsStream;
    type ListFlightsStream = <Ballista as FlightService>::ListFlightsStream;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        check(&request.get_ref().ticket)?;
        self.0.do_get(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        check(&request.get_ref().body)?;
        self.0.do_action(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.0.get_schema(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.0.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.0.poll_flight_info(request).await
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.0.list_flights(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.0.list_actions(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }
}
