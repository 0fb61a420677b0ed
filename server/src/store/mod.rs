//! What the server keeps: SQLite in its data folder, or PostgreSQL. Knows SQL and rows, no HTTP.
//!
//! One SQL text serves both databases (see `migrations/README.md`); [`on_both`] runs the same
//! statement on whichever pool is open.

mod migrate;
mod open;
mod scenarios;
mod schema;

pub use scenarios::{NewScenario, SavedRow};
pub use schema::Column;

use sqlx::{PgPool, SqlitePool};

/// The database.
#[derive(Clone, Debug)]
pub enum Store {
    /// A file in write-ahead mode.
    Sqlite {
        /// The one connection that writes: writers queue here instead of failing on a lock.
        writer: SqlitePool,
        /// Connections that only read.
        reader: SqlitePool,
    },
    /// A server, shared by any number of instances of this program.
    Postgres(PgPool),
}

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database was written by a newer version of this program.
    #[error(
        "the database has migration {0}, which this version of tidemark does not know: \
         use the newer version that wrote it"
    )]
    NewerDatabase(i64),
    /// A migration failed, or an applied one was changed.
    #[error("the database could not be migrated")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// The address of the database is neither a PostgreSQL nor an SQLite address.
    #[error("the database's address must begin with postgres:// or sqlite://")]
    Address,
    /// The folder of the SQLite file cannot be made.
    #[error("the data folder {0} cannot be created")]
    Folder(String, #[source] std::io::Error),
    /// The database said no.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// Runs the same expression on the open database: `$pool` is the pool for `$role`.
macro_rules! on_both {
    ($store:expr, $role:ident, $pool:ident => $body:expr) => {
        match $store {
            $crate::store::Store::Sqlite { $role, .. } => {
                let $pool = $role;
                $body
            }
            $crate::store::Store::Postgres(pool) => {
                let $pool = pool;
                $body
            }
        }
    };
}
use on_both;

impl Store {
    /// Whether the database answers.
    ///
    /// # Errors
    ///
    /// The database's error.
    pub async fn ping(&self) -> Result<(), StoreError> {
        on_both!(self, reader, pool => sqlx::query("select 1").execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Waits for running statements and closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { writer, reader } => {
                reader.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
