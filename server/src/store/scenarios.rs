//! Shared scenarios: stored under a short id that follows from their content.

use super::{Store, StoreError, on_both};
use crate::short_id;

/// A scenario to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewScenario {
    /// SHA-256 of what is stored.
    pub digest: [u8; 32],
    /// The document as canonical JSON.
    pub document: String,
    /// The page's view as canonical JSON.
    pub view: Option<String>,
    /// Version of the program.
    pub engine_version: String,
    /// Number of its prediction rules.
    pub engine_predictions: i64,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A stored scenario.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SavedRow {
    /// Its short id.
    pub id: String,
    /// The document as canonical JSON.
    pub document: String,
    /// The page's view as canonical JSON.
    pub view: Option<String>,
    /// Version of the program that stored it.
    pub engine_version: String,
    /// Number of that program's prediction rules.
    pub engine_predictions: i64,
    /// Milliseconds since 1970.
    pub created_at_ms: i64,
}

const INSERT: &str = "
insert into scenario (id, digest, document, view, engine_version, engine_predictions, created_at_ms)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict do nothing";

const BY_DIGEST: &str = "
select id, document, view, engine_version, engine_predictions, created_at_ms
from scenario where digest = $1";

const BY_ID: &str = "
select id, document, view, engine_version, engine_predictions, created_at_ms
from scenario where id = $1";

impl Store {
    /// Stores a scenario, or finds the one with the same content; true when it is new.
    ///
    /// # Errors
    ///
    /// The database's error.
    pub async fn save_scenario(&self, new: &NewScenario) -> Result<(SavedRow, bool), StoreError> {
        let digest = short_id::hex(&new.digest);
        if let Some(row) = self.by_digest(&digest).await? {
            return Ok((row, false));
        }
        // An id that another digest took already gets one character more.
        for id in short_id::candidates(&new.digest) {
            let inserted = self.insert(&id, &digest, new).await?;
            if let Some(row) = self.by_digest(&digest).await? {
                return Ok((row, inserted));
            }
        }
        // Unreachable in practice: the last candidate is the whole digest.
        Err(StoreError::Database(sqlx::Error::RowNotFound))
    }

    /// The scenario of this id.
    ///
    /// # Errors
    ///
    /// The database's error.
    pub async fn scenario(&self, id: &str) -> Result<Option<SavedRow>, StoreError> {
        let row = on_both!(self, reader, pool => sqlx::query_as(BY_ID).bind(id).fetch_optional(pool).await)?;
        Ok(row)
    }

    async fn by_digest(&self, digest: &str) -> Result<Option<SavedRow>, StoreError> {
        // The writer's connection sees its own insert at once, and so does any reader in
        // write-ahead mode once the statement has returned.
        let row = on_both!(self, reader, pool => {
            sqlx::query_as(BY_DIGEST).bind(digest).fetch_optional(pool).await
        })?;
        Ok(row)
    }

    /// One statement is its own transaction, and begins as a writing one: nothing to begin here.
    async fn insert(&self, id: &str, digest: &str, new: &NewScenario) -> Result<bool, StoreError> {
        let rows = on_both!(self, writer, pool => {
            sqlx::query(INSERT)
                .bind(id)
                .bind(digest)
                .bind(&new.document)
                .bind(&new.view)
                .bind(&new.engine_version)
                .bind(new.engine_predictions)
                .bind(new.created_at_ms)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        })?;
        Ok(0 < rows)
    }
}
