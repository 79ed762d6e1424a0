#![forbid(unsafe_code)]
//! Pure Rust, free of PostgreSQL symbols, so that `cargo test --lib` can reach all of it.

pub mod adjust;
pub mod application_name;
pub mod array;
pub mod change;
pub mod copy;
pub mod depth;
pub mod error;
pub mod expr;
pub mod import;
pub mod insert;
pub mod levels;
pub mod locale;
pub mod lock_timeout;
pub mod option;
pub mod range;
pub mod socket;
pub mod sql;
pub mod statement;
pub mod table;
pub mod text;
pub mod tuples;
pub mod wire;
