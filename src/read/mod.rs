#![forbid(unsafe_code)]
//! Reading foreign tables: which conditions the shard gets, plans, scans.

mod deparse;
pub mod plan;
#[cfg(test)]
mod sample;
pub mod scan;
mod ship;
