//! A foreign data wrapper for tables sharded over other PostgreSQL servers, with batched DML.
//!
//! Layers, each using only those to its right: `lib → fdw → {write, read, sequence} → remote → {pq, pg} → model`.

pgrx::pg_module_magic!();

mod fdw;
mod model;
mod pg;
mod pq;
mod read;
mod remote;
mod sequence;
mod write;

/// What pgrx's test harness asks of a crate.
#[cfg(test)]
pub mod pg_test {
    /// Nothing to prepare: tests that need a server start their own.
    pub fn setup(_options: Vec<&str>) {}

    /// Settings of the test cluster.
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec![]
    }
}
