//! Waiting for what must come, and timeouts that must not come too early.

use super::forward::Shared;
use super::proxy;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

thread_local! {
    /// The proxies of this thread's test: they can tell why something does not come.
    static WITNESSES: RefCell<Vec<Weak<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Lets a proxy tell what it has seen, should something never come.
pub(super) fn add_witness(shared: &Arc<Shared>) {
    WITNESSES.with_borrow_mut(|witnesses| witnesses.push(Arc::downgrade(shared)));
}

/// Looks again and again until `done`; a test whose moment never comes fails, and shows what its proxies have seen.
#[track_caller]
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_at_most(Duration::from_secs(60), what, done);
}

/// The same with a limit of its own.
#[track_caller]
pub fn wait_at_most(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "never came: {what}{}", seen());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn seen() -> String {
    let witnesses = WITNESSES.with_borrow(Clone::clone);
    witnesses
        .iter()
        .filter_map(Weak::upgrade)
        .map(|shared| proxy::report(&shared))
        .collect()
}

/// Tries with longer and longer values of `statement_timeout`, until `attempt` says that the timeout came in the middle of
/// what it was meant for, and not before.
#[track_caller]
pub fn with_growing_timeout<S>(scene: &mut S, attempt: impl Fn(&mut S, &str) -> bool) {
    let timeouts = (0..7).map(|doublings| 500 << doublings);
    let mut timeouts = timeouts.map(|milliseconds| format!("{milliseconds}ms"));
    assert!(
        timeouts.any(|timeout| attempt(scene, &timeout)),
        "every timeout came too early"
    );
}
