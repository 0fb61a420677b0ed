//! The embedded migrations, and the refusal of a database that a newer program wrote.

use sqlx::migrate::{MigrateError, Migrator};

use super::{Store, StoreError};

static SQLITE: Migrator = sqlx::migrate!("../migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("../migrations/postgres");

impl Store {
    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        let result = match self {
            Self::Sqlite { writer, .. } => SQLITE.run(writer).await,
            Self::Postgres(pool) => POSTGRES.run(pool).await,
        };
        result.map_err(|error| match error {
            MigrateError::VersionMissing(version) => StoreError::NewerDatabase(version),
            other => StoreError::Migrate(other),
        })
    }
}
