//! The backend's API in safe clothes: the only room beside `fdw/` and `pq/` with raw pointers.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "walking a node or tuple of core takes many reads under one and the same contract"
)]

pub mod backend;
pub mod batch;
pub mod calls;
pub mod catalog;
pub mod error_data;
pub mod explain;
pub mod expr;
pub mod extension;
pub mod fd;
pub mod guc;
pub mod here;
pub mod input;
pub mod invalidation;
pub mod keyhash;
pub mod list;
pub mod locale;
pub mod memory;
pub mod name;
pub mod param;
pub mod pending;
pub mod raise;
pub mod rowset;
pub mod slot;
pub mod store;
pub mod target;
pub mod tuple;
pub mod typio;
pub mod value;
pub mod varlena;
pub mod version;
pub mod wait;
pub mod walk;
pub mod xact;
