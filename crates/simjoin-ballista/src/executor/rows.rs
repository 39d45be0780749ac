//! The service that gives rows between stages and of results.

use std::path::PathBuf;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::scheduler::Action as Fetch;
use ballista_executor::flight_service::BallistaFlightService;
use tonic::{Request, Response, Status, Streaming};

use super::shuffle_files::check_fetch;
use super::tasks::plain_name;

/// Ballista's service, for the folders of statements alone, and for files that are as their tasks
/// wrote them: it takes the name of a statement for a part of a path, and trusts what it reads.
#[derive(Clone)]
pub(super) struct CheckedFlightService {
    service: BallistaFlightService,
    work_dir: PathBuf,
}

impl CheckedFlightService {
    pub(super) fn new(work_dir: String) -> Self {
        Self { service: BallistaFlightService::new(work_dir.clone()), work_dir: work_dir.into() }
    }

    /// Refuses a request for rows of something that is no statement, or of a file that has changed.
    async fn check(&self, request: &[u8]) -> Result<(), Status> {
        let wrong = |e: &dyn std::fmt::Display| Status::invalid_argument(e.to_string());
        let fetch = decode_protobuf(request).map_err(|e| wrong(&e))?;
        let Fetch::FetchPartition { job_id, .. } = &fetch;
        plain_name(job_id).map_err(|e| wrong(&e))?;
        let checked = check_fetch(&self.work_dir, fetch).await;
        checked.map_err(|e| Status::data_loss(e.strip_backtrace()))
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Ballista = BallistaFlightService;

#[tonic::async_trait]
impl FlightService for CheckedFlightService {
    type DoActionStream = <Ballista as FlightService>::DoActionStream;
    type DoExchangeStream = <Ballista as FlightService>::DoExchangeStream;
    type DoGetStream = <Ballista as FlightService>::DoGetStream;
    type DoPutStream = <Ballista as FlightService>::DoPutStream;
    type HandshakeStream = <Ballista as FlightService>::HandshakeStream;
    type ListActionsStream = <Ballista as FlightService>::ListActionsStream;
    type ListFlightsStream = <Ballista as FlightService>::ListFlightsStream;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.check(&request.get_ref().ticket).await?;
        self.service.do_get(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.check(&request.get_ref().body).await?;
        self.service.do_action(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.service.get_schema(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.service.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.service.poll_flight_info(request).await
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.service.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.service.list_flights(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.service.list_actions(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.service.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        self.service.do_exchange(request).await
    }
}
