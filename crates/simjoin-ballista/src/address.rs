//! Where a scheduler is.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_datafusion_err};
use datafusion::prelude::SessionConfig;
use tonic::codegen::http::Uri;
use tonic::transport::Channel;

/// The port of a scheduler where none is given.
pub(crate) const DEFAULT_PORT: u16 = 50050;

/// The time that a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The address of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchedulerAddress {
    host: String,
    port: u16,
    url: String,
}

impl SchedulerAddress {
    /// Reads `host`, `host:port`, `http://host:port` or `df://host:port`; the port is 50050 where
    /// none is given.
    ///
    /// # Errors
    ///
    /// A configuration error for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            config_datafusion_err!(
                "'{text}' is no address of a scheduler; use HOST:PORT, such as localhost:50050"
            )
        };
        let authority = match text.trim().trim_end_matches('/').split_once("://") {
            None => text.trim(),
            Some(("http" | "df", authority)) => authority,
            Some(_) => return Err(wrong()),
        };
        let uri: Uri = authority.parse().map_err(|_| wrong())?;
        let parts = uri.into_parts();
        let (Some(authority), None | Some("" | "/")) =
            (parts.authority, parts.path_and_query.as_ref().map(|path| path.as_str()))
        else {
            return Err(wrong());
        };
        let port = match (authority.port(), authority.as_str().rsplit_once(':')) {
            (Some(port), _) => port.as_u16(),
            (None, Some((_, rest))) if !rest.ends_with(']') => return Err(wrong()),
            (None, _) => DEFAULT_PORT,
        };
        let host = authority.host().to_string();
        if host.is_empty() || port == 0 || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let url = format!("http://{host}:{port}");
        Ok(Self { host, port, url })
    }

    /// The host, in brackets where it is an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only processes of this machine can be meant.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// With its scheme.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connects to the scheduler.
    ///
    /// # Errors
    ///
    /// An execution error within five seconds when it cannot be reached.
    pub(crate) async fn connect(
        &self,
        config: &SessionConfig,
    ) -> Result<SchedulerGrpcClient<Channel>> {
        let bytes = config.ballista_config().grpc_client_max_message_size();
        Ok(SchedulerGrpcClient::new(self.channel(config).await?)
            .max_encoding_message_size(bytes)
            .max_decoding_message_size(bytes))
    }

    /// A connection to the scheduler.
    ///
    /// # Errors
    ///
    /// An execution error within five seconds when it cannot be reached.
    pub(crate) async fn channel(&self, config: &SessionConfig) -> Result<Channel> {
        let grpc = GrpcClientConfig::from(&config.ballista_config());
        let mut endpoint = create_grpc_client_endpoint(self.url.clone(), Some(&grpc))
            .map_err(|e| self.unreachable(&e))?
            .connect_timeout(CONNECT_PATIENCE);
        if let Some(customize) = config.ballista_override_create_grpc_client_endpoint() {
            endpoint =
                customize.configure_endpoint(endpoint).map_err(|e| self.unreachable(e.as_ref()))?;
        }
        endpoint.connect().await.map_err(|e| self.unreachable(&e))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> DataFusionError {
        // The outer errors say no more than that it did not work.
        let mut root = error;
        while let Some(source) = root.source() {
            root = source;
        }
        exec_datafusion_err!("cannot reach the scheduler at {self}: {root}")
    }
}

impl fmt::Display for SchedulerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_scheme_and_port() {
        for (text, url) in [
            ("localhost", "http://localhost:50050"),
            ("localhost:1234", "http://localhost:1234"),
            ("http://10.0.0.1:1234/", "http://10.0.0.1:1234"),
            ("df://scheduler", "http://scheduler:50050"),
            ("[::1]:1234", "http://[::1]:1234"),
            ("[::1]", "http://[::1]:50050"),
        ] {
            let address = SchedulerAddress::parse(text).unwrap();
            assert_eq!(address.url(), url, "{text}");
            assert_eq!(SchedulerAddress::parse(&address.to_string()).unwrap(), address);
        }
        for (text, is_loopback) in [
            ("localhost", true),
            ("127.1.2.3:7", true),
            ("[::1]:7", true),
            ("10.0.0.1", false),
            ("localhost.example.org", false),
        ] {
            let address = SchedulerAddress::parse(text).unwrap();
            assert_eq!(address.is_loopback(), is_loopback, "{text}");
        }
        for wrong in ["", "http://", "https://a:1", "a:b", "a:0", "a:99999", "a/b", "u@a:1", "a b"]
        {
            let error = SchedulerAddress::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{wrong}: {error}");
        }
    }

    #[tokio::test]
    async fn a_scheduler_that_is_not_there_is_an_error_that_says_so() {
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = SchedulerAddress::parse(&free.to_string()).unwrap();
        let error = address.connect(&SessionConfig::new_with_ballista()).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&format!("cannot reach the scheduler at {free}")), "{error}");
        assert!(error.contains("refused"), "{error}");
    }
}
