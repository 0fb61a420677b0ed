//! What every handler can reach.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use simulator::catalog::Catalog;
use simulator::wire::{GpuProfile, ModelCard};
use tokio::sync::Semaphore;

use crate::auth::Writes;
use crate::error::ApiError;
use crate::fixed::FixedJson;
use crate::openapi;
use crate::rate::{Client, Limiter, Rate};
use crate::store::Store;

/// How long a request waits for a free worker.
const QUEUE: Duration = Duration::from_secs(5);

/// What may be chosen for the API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Who may store something.
    pub writes: Writes,
    /// Whose requests are counted together.
    pub client: Client,
    /// How often one client may store a scenario.
    pub share_rate: Rate,
    /// How often one client may simulate.
    pub simulate_rate: Rate,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// The handlers' state; cloning shares it.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) workers: Workers,
    pub(crate) writes: Writes,
    pub(crate) now: fn() -> Timestamp,
    pub(crate) share_limiter: Limiter,
    pub(crate) simulate_limiter: Limiter,
    pub(crate) models: FixedJson,
    pub(crate) gpus: FixedJson,
    pub(crate) openapi: FixedJson,
}

impl App {
    /// The state of a server with this database.
    ///
    /// # Errors
    ///
    /// When the catalog or the API's description cannot be written as JSON, which is a bug.
    pub fn new(
        store: Store,
        catalog: Catalog,
        settings: &ApiSettings,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            store,
            workers: Workers::new(),
            writes: settings.writes.clone(),
            now: settings.now,
            share_limiter: Limiter::new(settings.share_rate, settings.client),
            simulate_limiter: Limiter::new(settings.simulate_rate, settings.client),
            models: FixedJson::new(&Models { models: &catalog.models })?,
            gpus: FixedJson::new(&Gpus { gpus: &catalog.gpus })?,
            openapi: FixedJson::new(&openapi::document())?,
            catalog: Arc::new(catalog),
        })
    }

    /// Forgets clients that have not asked for a while.
    pub fn sweep(&self) {
        self.share_limiter.sweep();
        self.simulate_limiter.sweep();
    }
}

#[derive(serde::Serialize)]
struct Models<'a> {
    models: &'a [ModelCard],
}

#[derive(serde::Serialize)]
struct Gpus<'a> {
    gpus: &'a [GpuProfile],
}

/// Threads for work that computes: as many as there are cores, so that two simulations do not
/// stall every other request.
#[derive(Clone, Debug)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self(Arc::new(Semaphore::new(cores)))
    }

    /// Runs this on a thread of its own, when one is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let free = tokio::time::timeout(QUEUE, Arc::clone(&self.0).acquire_owned());
        let permit = match free.await {
            Ok(Ok(permit)) => permit,
            Ok(Err(closed)) => return Err(ApiError::internal(closed)),
            Err(_elapsed) => return Err(ApiError::overloaded()),
        };
        // The permit goes with the work: a client that leaves does not free the thread.
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(ApiError::internal)
    }
}
