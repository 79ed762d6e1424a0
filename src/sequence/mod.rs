#![deny(unsafe_code)]
//! Sequences of shards, from which this backend draws values in ranges.

mod draw;
mod held;

pub use held::{current_value, discard, next_value, report, set_value, Report};
