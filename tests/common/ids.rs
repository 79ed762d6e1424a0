//! Values of a sequence of a shard.

use super::{create_server, wait_until, Cluster, Proxy, Reply, Simple};
use std::collections::HashSet;

/// A coordinator whose server `s` is reached through the proxy, with sequence `ids` there and a local table `t` whose key
/// comes from it.
pub struct Scene {
    pub coordinator: Cluster,
    pub shard: Cluster,
    pub proxy: Proxy,
    pub client: Simple,
}

pub const NEXT: &str = "SELECT shard_fdw_nextval('s', 'ids')";

impl Scene {
    pub fn new() -> Scene {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        shard.sql("CREATE SEQUENCE ids");
        let proxy = Proxy::to(shard.port());
        proxy.let_cancels_pass();
        let mut client = coordinator.simple();
        let server = create_server("s", proxy.port(), "");
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {server}
                 CREATE TABLE t (id bigint PRIMARY KEY DEFAULT shard_fdw_nextval('s', 'ids'), v text)"
            ))
            .expect_ok();
        Scene {
            coordinator,
            shard,
            proxy,
            client,
        }
    }

    pub fn next(&mut self) -> i64 {
        number(&self.client.value(NEXT))
    }

    pub fn left(&mut self) -> String {
        let left = "SELECT cached_left FROM shard_fdw_sequences()";
        self.client.value(left)
    }

    pub fn set_range(&mut self, range: u32) {
        let set = format!("SET shard_fdw.sequence_range = {range}");
        self.client.run(&set).expect_ok();
    }

    /// The client's backend is in one of our waits.
    pub fn wait_until_waiting(&self) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Extension'",
            self.client.pid()
        );
        wait_until("the wait", || self.coordinator.value(&waiting) == "1");
    }
}

pub fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

/// All values up to the error that there are no more.
pub fn drain(client: &mut Simple, next: &str) -> Vec<i64> {
    let mut values = Vec::new();
    loop {
        let reply = client.run(next);
        if reply.error.is_some() {
            let error = reply.expect_error();
            assert_eq!(error.sqlstate(), "2200H", "{error:?}");
            return values;
        }
        values.push(number(&reply.value()));
    }
}

pub fn numbers(reply: &Reply) -> Vec<i64> {
    reply.lines().iter().map(|line| number(line)).collect()
}

#[track_caller]
pub fn expect_ascending(values: &[i64]) {
    for pair in values.windows(2) {
        assert!(pair[0] < pair[1], "{} and then {}", pair[0], pair[1]);
    }
}

#[track_caller]
pub fn expect_distinct(values: &[i64]) {
    let mut seen = HashSet::new();
    for value in values {
        assert!(seen.insert(value), "{value} came twice");
    }
}
