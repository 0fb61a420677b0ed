//! The accept loop on a real socket: clients that dawdle, and a stop that ends.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use server::listen::{Bounds, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const BOUNDS: Bounds = Bounds {
    connections: 2,
    headers: Duration::from_millis(300),
    drain: Duration::from_millis(700),
};
/// Nothing here takes longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sleep = |time: Duration| {
        move || async move {
            tokio::time::sleep(time).await;
            "slept"
        }
    };
    let router = Router::new()
        .route("/peer", get(|peer: ConnectInfo<SocketAddr>| async move { peer.0.ip().to_string() }))
        .route("/nap", get(sleep(Duration::from_millis(200))))
        .route("/coma", get(sleep(Duration::from_hours(1))));
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(async move {
        serve(listener, router, BOUNDS, async { drop(stopped.await) }).await;
    });
    Running { address, stop, served }
}

/// Sends this and reads until the server closes.
async fn talk(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
    // A reset is a closed connection too.
    drop(read.await.expect("the server closes the connection"));
    String::from_utf8(answer).unwrap()
}

fn ask(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: tidemark\r\nconnection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_cut_off() {
    let running = start().await;
    let begun = Instant::now();
    for text in ["", "GET /peer HT", "GET /peer HTTP/1.1\r\nhost: tide"] {
        let answer = talk(running.address, text).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{text:?}: {answer}");
    }
    assert!(BOUNDS.headers * 3 <= begun.elapsed() + Duration::from_millis(50));
    let answer = talk(running.address, &ask("/peer")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("127.0.0.1"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_cap_wait() {
    let running = start().await;
    let begun = Instant::now();
    let mut idle = Vec::new();
    for _ in 0..BOUNDS.connections {
        idle.push(TcpStream::connect(running.address).await.unwrap());
    }
    // Answered once the idle ones have been cut off.
    let answer = talk(running.address, &ask("/peer")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(BOUNDS.headers <= begun.elapsed() + Duration::from_millis(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_requests_finish_after_the_stop() {
    let running = start().await;
    let nap = tokio::spawn(async move { talk(running.address, &ask("/nap")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.stop.send(()).unwrap();
    let answer = nap.await.unwrap();
    assert!(answer.ends_with("slept"), "{answer}");
    tokio::time::timeout(PATIENCE, running.served).await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_does_not_wait_for_ever() {
    let running = start().await;
    let coma = TcpStream::connect(running.address).await.unwrap();
    let (_read, mut write) = coma.into_split();
    write.write_all(ask("/coma").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    running.stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, running.served).await.unwrap().unwrap();
    assert!(BOUNDS.drain <= begun.elapsed());
}
