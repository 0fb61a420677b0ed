//! How often one client may ask for work.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::IntoResponse;
use governor::middleware::NoOpMiddleware;
use tower_governor::governor::{GovernorConfig, GovernorConfigBuilder};
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};

use crate::error::{ApiError, Code};

/// A burst, and how long one of it takes to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests at once.
    pub burst: u32,
    /// Time until one more is allowed.
    pub refill: Duration,
}

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The address of the connection.
    Peer,
    /// The last address in `X-Forwarded-For`: the one that our own proxy wrote. Those before it
    /// are whatever the client claims.
    BehindProxy,
}

impl KeyExtractor for Client {
    type Key = IpAddr;

    fn extract<T>(&self, request: &Request<T>) -> Result<IpAddr, GovernorError> {
        let forwarded = || {
            let last = request.headers().get_all("x-forwarded-for").iter().next_back()?;
            last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
        };
        let peer = || request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let address = match self {
            Self::Peer => peer(),
            Self::BehindProxy => forwarded().or_else(peer),
        };
        address.map(subscriber).ok_or(GovernorError::UnableToExtractKey)
    }
}

/// IPv6 hands out whole /64 networks, so one of them is one client.
fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Counts the requests of each client.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<GovernorConfig<Client, NoOpMiddleware>>);

impl Limiter {
    /// A limiter of this rate. A burst or refill of zero counts as the smallest there is.
    #[expect(clippy::missing_panics_doc, reason = "it does not")]
    pub fn new(rate: Rate, client: Client) -> Self {
        let config = GovernorConfigBuilder::default()
            .key_extractor(client)
            .burst_size(rate.burst.max(1))
            .period(rate.refill.max(Duration::from_nanos(1)))
            .finish()
            .expect("burst and period are above zero");
        Self(Arc::new(config))
    }

    /// The layer for a route.
    pub fn layer(&self) -> GovernorLayer<Client, NoOpMiddleware, Body> {
        GovernorLayer::new(Arc::clone(&self.0)).error_handler(|error| {
            let error = match error {
                GovernorError::TooManyRequests { wait_time, .. } => {
                    ApiError::rate_limited(wait_time.max(1))
                }
                GovernorError::UnableToExtractKey => {
                    ApiError::internal(anyhow::anyhow!("the client's address is not known"))
                }
                GovernorError::Other { .. } => ApiError::new(Code::Rejected),
            };
            error.into_response()
        })
    }

    /// Forgets clients whose burst is full again; the table would grow for ever.
    pub fn sweep(&self) {
        self.0.limiter().retain_recent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_forwarded_address_counts() {
        let ask = |client: Client, forwarded: &str| {
            let mut request = Request::builder();
            if !forwarded.is_empty() {
                request = request.header("x-forwarded-for", forwarded);
            }
            let mut request = request.body(()).unwrap();
            let peer = SocketAddr::from(([10, 0, 0, 1], 1));
            request.extensions_mut().insert(ConnectInfo(peer));
            client.extract(&request).unwrap().to_string()
        };
        for (client, forwarded, expected) in [
            (Client::Peer, "1.1.1.1", "10.0.0.1"),
            (Client::BehindProxy, "1.1.1.1, 2.2.2.2", "2.2.2.2"),
            (Client::BehindProxy, "1.1.1.1, nonsense", "10.0.0.1"),
            (Client::BehindProxy, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            (Client::BehindProxy, "", "10.0.0.1"),
        ] {
            assert_eq!(ask(client, forwarded), expected, "{client:?} {forwarded}");
        }
    }
}
