//! What the store promises, on either database.

use server::short_id;
use server::store::{NewScenario, Store, StoreError};
use sqlx::{Executor, Row};

use crate::harness::Site;

fn new(digest: [u8; 32], document: &str) -> NewScenario {
    NewScenario {
        digest,
        document: document.to_owned(),
        view: None,
        engine_version: "0.0.0".to_owned(),
        engine_predictions: 7,
        created_at_ms: 1,
    }
}

/// Two digests that begin alike get ids of different length, and keep their own documents.
pub(crate) async fn clash(store: &Store) {
    let (mut one, mut other) = ([7; 32], [7; 32]);
    one[31] = 1;
    other[31] = 2;
    let (first, is_new) = store.save_scenario(&new(one, "1")).await.unwrap();
    assert!(is_new);
    let (second, is_new) = store.save_scenario(&new(other, "2")).await.unwrap();
    assert!(is_new);
    assert_eq!(first.id.len(), short_id::SHORTEST);
    assert_eq!(second.id.len(), short_id::SHORTEST + 1);
    for (id, document) in [(&first.id, "1"), (&second.id, "2")] {
        assert_eq!(store.scenario(id).await.unwrap().unwrap().document, document);
    }
    let (again, is_new) = store.save_scenario(&new(other, "2")).await.unwrap();
    assert!(!is_new);
    assert_eq!(again, second);
    assert_eq!(store.scenario("00000000000").await.unwrap(), None);
}

/// Many writers at once: nobody fails, and one content is new once.
pub(crate) async fn concurrent(store: &Store) {
    let save = |number: u8| {
        let store = store.clone();
        tokio::spawn(async move {
            let digest = short_id::digest(&[number / 8]);
            store.save_scenario(&new(digest, "{}")).await.unwrap()
        })
    };
    let tasks: Vec<_> = (0..64).map(save).collect();
    let mut n_new = 0;
    for task in tasks {
        n_new += u32::from(task.await.unwrap().1);
    }
    assert_eq!(n_new, 8);
}

/// A database that a newer program migrated is refused, with its number.
pub(crate) async fn newer(site: &Site<'_>) {
    let url = site.url().await;
    let store = Store::connect(&url).await.unwrap();
    let copy = "insert into _sqlx_migrations
        (version, description, installed_on, success, checksum, execution_time)
        select 9999, 'from the future', installed_on, success, checksum, execution_time
        from _sqlx_migrations where version = 1";
    match &store {
        Store::Sqlite { writer, .. } => drop(writer.execute(copy).await.unwrap()),
        Store::Postgres(pool) => drop(pool.execute(copy).await.unwrap()),
    }
    if let Store::Sqlite { reader, .. } = &store {
        let mode = reader.fetch_one("pragma journal_mode").await.unwrap();
        assert_eq!(mode.get::<String, _>(0), "wal");
        assert!(reader.execute("delete from scenario").await.is_err(), "a reader can write");
    }
    store.close().await;
    let refused = Store::connect(&url).await.unwrap_err();
    assert!(matches!(refused, StoreError::NewerDatabase(9999)), "{refused}");
    assert!(refused.to_string().contains("9999"));
}
