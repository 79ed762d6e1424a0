//! Reading foreign tables: which conditions the shard gets, plans, scans.

mod deparse;
#[cfg(test)]
mod sample;
mod ship;
