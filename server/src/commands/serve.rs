//! `tidemark serve`: the page and the API.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use simulator::catalog::Catalog;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::auth::{TokenHash, Writes};
use crate::cli::Serve;
use crate::listen::{self, Bounds};
use crate::rate::{Client, Rate};
use crate::state::{ApiSettings, App};
use crate::store::Store;

/// Name of the SQLite file in the data folder.
const DATABASE: &str = "tidemark.db";
/// How often the tables of the rate limits are cleared.
const SWEEP: Duration = Duration::from_mins(1);
/// How long threads that still compute may go on after everything else has stopped.
const LAST_THREADS: Duration = Duration::from_secs(2);
const SHARE_RATE: Rate = Rate { burst: 30, refill: Duration::from_secs(2) };
const SIMULATE_RATE: Rate = Rate { burst: 100, refill: Duration::from_millis(50) };

pub(super) fn run(args: &Serve) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
    // The address goes to standard output, so that a script can read it; the log does not.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    runtime.shutdown_timeout(LAST_THREADS);
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(args: &Serve) -> anyhow::Result<()> {
    let settings = settings(args)?;
    let store = match &args.database_url {
        Some(url) => Store::connect(url).await,
        None => Store::sqlite(&args.data.join(DATABASE)).await,
    };
    let store = store.context("the database cannot be opened")?;
    let app = App::new(store.clone(), Catalog::builtin(), &settings)?;
    let address = SocketAddr::new(args.bind, args.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{address} cannot be listened on"))?;
    let local = listener.local_addr()?;
    tracing::info!(%local, writes = ?settings.writes, "listening");
    writeln!(std::io::stdout(), "Tidemark: http://{local}")?;
    let sweep = tokio::spawn(sweep(app.clone()));
    listen::serve(listener, crate::router(app), Bounds::USUAL, listen::asked_to_end()).await;
    sweep.abort();
    store.close().await;
    Ok(())
}

fn settings(args: &Serve) -> anyhow::Result<ApiSettings> {
    let writes = match &args.token {
        Some(token) => Writes::Token(TokenHash::parse(token).context("--token is not a token")?),
        None if args.bind.is_loopback() => Writes::Open,
        None => Writes::Closed,
    };
    Ok(ApiSettings {
        writes,
        client: if args.behind_proxy { Client::BehindProxy } else { Client::Peer },
        share_rate: SHARE_RATE,
        simulate_rate: SIMULATE_RATE,
        now: Timestamp::now,
    })
}

async fn sweep(app: App) {
    let mut every = tokio::time::interval(SWEEP);
    loop {
        every.tick().await;
        app.sweep();
    }
}
