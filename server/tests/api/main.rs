//! The API in process, on both databases. A case is data: a request and what its answer holds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod harness;
mod postgres;
mod socket;
mod store;

use harness::{Server, Site};
use server::store::Store;

/// Every case and every property of the store, on one database.
async fn suite(site: &mut Site<'_>) {
    cases::open(&Server::open(site).await).await;
    cases::sharing(&Server::open(site).await).await;
    cases::token(&Server::with_token(site).await).await;
    cases::closed(&Server::closed(site).await).await;
    cases::rates(&Server::slow(site).await).await;
    store::clash(&site.store().await).await;
    store::concurrent(&site.store().await).await;
    store::newer(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite() {
    suite(&mut Site::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let cluster = postgres::Cluster::start().await;
    let mut site = Site::postgres(&cluster);
    suite(&mut site).await;

    let (postgres, sqlite) = (site.store().await, Site::sqlite().store().await);
    schemas_agree(&postgres, &sqlite).await;
}

/// Tables, columns, nullability and primary keys.
async fn schemas_agree(one: &Store, other: &Store) {
    let columns = one.columns().await.unwrap();
    assert!(!columns.is_empty());
    assert_eq!(columns, other.columns().await.unwrap());
}
