#![deny(unsafe_code)]
//! Sessions with shards: connections, remote transactions, and what is under way.

pub mod autocommit;
pub mod budget;
pub mod cache;
mod certain;
pub mod connect;
pub mod constraints;
pub mod copyable;
pub mod cursor;
mod deadlock;
pub mod key;
#[cfg(feature = "pg_test")]
mod loopback;
pub mod memory;
pub mod notice;
pub mod pending;
mod queue;
pub mod relation;
mod rows;
pub mod session;
pub mod spare;
pub mod statement;
pub mod stats;
pub mod transaction;
pub mod tree;
pub mod usage;
