#![deny(unsafe_code)]
//! Sessions on shards: connections, transactions, statements under way.

pub mod connect;
pub mod notice;
