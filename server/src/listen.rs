//! The accept loop. `axum::serve` gives its connections no timer, so a client that never finishes
//! its headers would hold one for ever, and no bound on the drain, so a stop might never end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Bounds of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once; more of them wait.
    pub connections: usize,
    /// How long a request's headers may take, and how long a connection may idle.
    pub headers: Duration,
    /// How long open requests may go on after the stop.
    pub drain: Duration,
}

impl Bounds {
    /// What a server uses.
    pub const USUAL: Self = Self {
        connections: 1024,
        headers: Duration::from_secs(10),
        drain: Duration::from_secs(10),
    };
}

/// Serves until `stop` is ready, then lets open requests finish, for a bounded time.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    // HTTP/1 only: guessing the version would wait, without a timeout, for the first bytes.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.headers);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(bounds.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut stop => break,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let router = router.clone();
        let service = service_fn(move |request| call(router.clone(), peer, request));
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%peer, error = &*error, "the connection broke");
            }
        });
    }
    drop(listener);
    tracing::info!(connections = graceful.count(), "stopping");
    if tokio::time::timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Answers are small and complete: waiting to fill a packet only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%peer, %error, "TCP_NODELAY was refused");
            }
            Some((stream, peer, place))
        }
        Err(error) => {
            // Out of file descriptors, most likely: give others time to close.
            tracing::warn!(%error, "no connection was accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn call(
    router: Router,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    router.oneshot(request).await
}

/// Ready when the process is asked to end: SIGTERM, or Ctrl-C.
pub async fn asked_to_end() {
    let interrupt = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "Ctrl-C cannot be heard");
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(error) => {
                tracing::warn!(%error, "SIGTERM cannot be heard");
                std::future::pending::<()>().await;
            }
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
