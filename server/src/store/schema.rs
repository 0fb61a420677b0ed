//! The shape of the open database, for the test that both databases agree.

use super::{Store, StoreError};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
pub struct Column {
    /// Its table.
    pub table_name: String,
    /// Its name.
    pub name: String,
    /// `text` or `integer`.
    pub kind: String,
    /// 1 when it may be null.
    pub nullable: i64,
    /// 1 when it is the primary key, or part of it.
    pub primary_key: i64,
}

const SQLITE: &str = r#"
select t.name as table_name, c.name as name, lower(c.type) as kind,
       case when c."notnull" = 0 then 1 else 0 end as nullable,
       case when c.pk > 0 then 1 else 0 end as primary_key
from sqlite_schema t join pragma_table_info(t.name) c
where t.type = 'table' and t.name not like 'sqlite_%' and t.name not like '_sqlx_%'
order by 1, 2"#;

const POSTGRES: &str = r"
select c.table_name::text, c.column_name::text as name,
       case c.data_type when 'bigint' then 'integer' else c.data_type::text end as kind,
       case when c.is_nullable = 'YES' then 1 else 0 end::bigint as nullable,
       case when exists (
           select 1 from information_schema.key_column_usage k
           join information_schema.table_constraints p using (constraint_schema, constraint_name)
           where p.constraint_type = 'PRIMARY KEY'
             and k.table_schema = c.table_schema
             and k.table_name = c.table_name and k.column_name = c.column_name
       ) then 1 else 0 end::bigint as primary_key
from information_schema.columns c
where c.table_schema = current_schema() and c.table_name not like '\_sqlx\_%'
order by 1, 2";

impl Store {
    /// All columns of all tables, sorted.
    ///
    /// # Errors
    ///
    /// The database's error.
    pub async fn columns(&self) -> Result<Vec<Column>, StoreError> {
        let mut columns: Vec<Column> = match self {
            Self::Sqlite { reader, .. } => sqlx::query_as(SQLITE).fetch_all(reader).await?,
            Self::Postgres(pool) => sqlx::query_as(POSTGRES).fetch_all(pool).await?,
        };
        // The two databases collate differently.
        columns.sort();
        Ok(columns)
    }
}
