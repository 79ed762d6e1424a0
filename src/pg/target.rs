//! A foreign table with its options and its names on the shard.

use crate::model::error::Result;
use crate::model::option::{ColumnOptions, TableOptions};
use crate::model::table::{RemoteColumn, RemoteTable};
use crate::pg::catalog::{self, Relation, Server};
use pgrx::pg_sys::Oid;

/// What the catalogs say of a foreign table.
#[derive(Debug, Clone)]
pub struct Target {
    pub relation: Relation,
    pub server: Server,
    pub options: TableOptions,
    pub remote: RemoteTable,
    /// Numbers of the columns with the option `key`, in the order of the table.
    pub key: Vec<i16>,
}

impl Target {
    /// Looks up a foreign table that the caller has locked.
    pub fn of(relid: Oid) -> Result<Target> {
        let relation = catalog::relation(relid)?;
        let table = catalog::foreign_table(relid)?;
        let server = catalog::server(table.server)?;
        let options = TableOptions::new(&table.options, &server.options)?;
        let mut key = Vec::new();
        let columns = relation
            .columns
            .iter()
            .map(|column| {
                let options = ColumnOptions::new(&column.options)?;
                if options.key {
                    key.push(column.attnum);
                }
                Ok(RemoteColumn {
                    attnum: column.attnum,
                    name: options.column_name.unwrap_or_else(|| column.name.clone()),
                    generated: column.generated != 0,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let remote = RemoteTable {
            schema: options
                .schema_name
                .clone()
                .unwrap_or_else(|| relation.schema.clone()),
            name: options
                .table_name
                .clone()
                .unwrap_or_else(|| relation.name.clone()),
            columns,
        };
        Ok(Target {
            relation,
            server,
            options,
            remote,
            key,
        })
    }
}
