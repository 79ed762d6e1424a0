#![forbid(unsafe_code)]
//! Reading foreign tables: which conditions the shard gets, plans, scans, import.

pub mod assign;
pub mod deparse;
pub mod import;
pub mod lock;
pub mod plan;
#[cfg(test)]
mod sample;
pub mod scan;
mod ship;
