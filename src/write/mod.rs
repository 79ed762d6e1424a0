#![forbid(unsafe_code)]
//! What a write statement does: whether rows are buffered, the buffers, and how they become statements.

pub mod assigned;
pub mod buffer;
pub mod change;
mod change_buffer;
pub mod columns;
pub mod direct;
pub mod insert;
mod kept;
pub mod policy;
pub mod rowwise;
mod shape;
pub mod single;
pub mod transport;
mod upsert;
mod waiting;
