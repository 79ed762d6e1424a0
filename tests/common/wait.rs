//! Waiting for what must come.

use std::time::{Duration, Instant};

/// Looks again and again until `done`; a test whose moment never comes fails.
#[track_caller]
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
