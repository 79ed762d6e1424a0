//! What the cluster tests share: servers, shards, a proxy between them, and a client that sees command tags.
//!
//! A test names what it needs, and everything ends with it:
//!
//! ```ignore
//! let coordinator = Cluster::start();
//! let shards = Shards::start(2);
//! shards.attach(&coordinator, "");
//! let mut client = coordinator.simple();
//! assert_eq!(client.run("SELECT 1").tag(), "SELECT 1");
//! ```
//!
//! A server that logged a crash, an assertion or a leak fails its test when it is dropped.

// Each test file is a crate of its own and uses its share of this.
#![allow(dead_code, unused_imports)]

mod cluster;
mod forward;
pub mod ids;
mod install;
mod log;
mod pooler;
mod process;
mod proxy;
mod setup;
mod shards;
mod simple;
mod wait;
mod wire;
mod workload;

pub use cluster::Cluster;
pub use install::{
    bin_dir, has_extension, long, major, need_extension, shard_bin_dir, shard_majors, skip,
};
pub use log::suspicious;
pub use pooler::PgBouncer;
pub use process::process_signal;
pub use proxy::{Commit, Event, How, Proxy, Traffic};
pub use setup::Setup;
pub use shards::{create_server, Shards};
pub use simple::{Fields, Reply, Simple, Statement};
pub use wait::{wait_at_most, wait_until, with_growing_timeout};
pub use wire::Side;
pub use workload::Workload;
