//! The backend's API in safe clothes: the only room beside `fdw/` and `pq/` with raw pointers.

pub mod catalog;
pub mod extension;
pub mod fd;
pub mod guc;
pub mod raise;
pub mod version;
pub mod wait;
pub mod xact;
