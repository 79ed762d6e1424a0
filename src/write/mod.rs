//! Writing to foreign tables.

pub mod rowwise;
