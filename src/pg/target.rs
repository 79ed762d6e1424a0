//! A foreign table with its options and its names on the shard.

use crate::model::error::Result;
use crate::model::option::{ColumnOptions, TableOptions};
use crate::model::table::{RemoteColumn, RemoteTable};
use crate::pg::catalog::{self, Relation, Server};
use crate::pg::invalidation;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What the catalogs say of a foreign table.
#[derive(Debug, Clone)]
pub struct Target {
    pub relation: Relation,
    pub server: Server,
    pub options: TableOptions,
    pub remote: RemoteTable,
    /// Numbers of the columns with the option `key`, in the order of the table.
    pub key: Vec<i16>,
    /// Numbers of the columns with the option `remote_default`.
    pub remote_default: Vec<i16>,
    /// [`invalidation::table_generation`] of before it was looked up.
    pub generation: u64,
}

thread_local! {
    static KNOWN: RefCell<HashMap<Oid, Rc<Target>>> = RefCell::default();
}

/// So many are kept.
const MOST_KNOWN: usize = 10_000;

impl Target {
    /// The same as [`Target::of`], kept until something of it changes.
    pub fn known(relid: Oid) -> Result<Rc<Target>> {
        let generation = invalidation::table_generation(relid);
        let known = KNOWN.with_borrow(|known| {
            let known = known.get(&relid)?;
            (known.generation == generation).then(|| known.clone())
        });
        if let Some(target) = known {
            return Ok(target);
        }
        let target = Rc::new(Target::of(relid)?);
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(relid, target.clone());
        });
        Ok(target)
    }

    /// Looks up a foreign table that the caller has locked.
    pub fn of(relid: Oid) -> Result<Target> {
        let generation = invalidation::table_generation(relid);
        let relation = catalog::relation(relid)?;
        let table = catalog::foreign_table(relid)?;
        let server = catalog::server(table.server)?;
        let options = TableOptions::new(&table.options, &server.options)?;
        let mut key = Vec::new();
        let mut remote_default = Vec::new();
        let columns = relation
            .columns
            .iter()
            .map(|column| {
                let options = ColumnOptions::new(&column.options)?;
                if options.key {
                    key.push(column.attnum);
                }
                if options.remote_default {
                    remote_default.push(column.attnum);
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
            remote_default,
            generation,
        })
    }
}
