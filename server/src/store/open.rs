//! Opening a database: pools and their settings, then the migrations.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::{Store, StoreError};

/// How long a request may wait for a connection.
const ACQUIRE: Duration = Duration::from_secs(5);
const READERS: u32 = 4;
const POSTGRES_CONNECTIONS: u32 = 8;

impl Store {
    /// Opens the SQLite file of this path, creating file and folder as needed, and migrates it.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or was written by a newer program.
    pub async fn sqlite(file: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| StoreError::Folder(folder.display().to_string(), error))?;
        }
        Self::sqlite_with(SqliteConnectOptions::new().filename(file)).await
    }

    /// Opens the database of this address (`postgres://…` or `sqlite://…`) and migrates it.
    ///
    /// # Errors
    ///
    /// When the address is wrong, nobody answers, or a newer program wrote the database.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        if url.starts_with("sqlite:") {
            return Self::sqlite_with(SqliteConnectOptions::from_str(url)?).await;
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::Address);
        }
        let options = PgConnectOptions::from_str(url)?.application_name("tidemark");
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(ACQUIRE)
            .connect_with(options)
            .await?;
        let store = Self::Postgres(pool);
        store.migrate().await?;
        Ok(store)
    }

    async fn sqlite_with(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .foreign_keys(true)
            .busy_timeout(ACQUIRE);
        // Entering write-ahead mode needs the file for itself, which no busy timeout covers: the
        // one writer does it, and migrates, before any reader opens.
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE)
            .connect_with(options.clone().optimize_on_close(true, None))
            .await?;
        let reader = reader(options).await?;
        let store = Self::Sqlite { writer, reader };
        store.migrate().await?;
        Ok(store)
    }
}

/// Connections that refuse to write. They are not opened read-only: the last connection to close
/// must be able to clean up the write-ahead log.
async fn reader(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| {
            Box::pin(async move { connection.execute("pragma query_only = on").await.map(drop) })
        })
        .connect_with(options)
        .await
}
