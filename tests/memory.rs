//! How much memory does the backend take while it loads many partitions in one statement?

mod common;

use common::{create_server, long, Cluster, Setup, Simple};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const PARTITIONS: u64 = 256;

/// What the foreign load may take beyond the local one, in kB.
const ALLOWANCE: u64 = 400 * 1024;

/// Samples a process's private memory until it is asked for the peak.
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sampler {
    fn start(pid: i32) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut peak = 0;
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.max(rss_anon(pid));
                std::thread::sleep(Duration::from_millis(50));
            }
            peak.max(rss_anon(pid))
        });
        Sampler { stop, thread }
    }

    fn peak(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("sampling ends")
    }
}

/// `RssAnon` of a process, in kB.
fn rss_anon(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running backend");
    status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .expect("RssAnon in kB")
}

/// Makes a table with local or foreign partitions.
fn partitions(main: &mut Simple, table: &str, leaf: impl Fn(u64) -> String) {
    main.run(&format!(
        "CREATE TABLE {table} (id bigint, t text, n int, at timestamptz) PARTITION BY HASH (id)"
    ))
    .expect_ok();
    for number in 0..PARTITIONS {
        main.run(&leaf(number)).expect_ok();
    }
}

/// Loads the table in a session of its own, and returns the peak in kB.
fn load(coordinator: &Cluster, table: &str, rows: u64) -> u64 {
    let mut client = coordinator.simple();
    client.set_limit(Duration::from_secs(1800));
    let sampler = Sampler::start(client.pid());
    let reply = client.run(&format!(
        "INSERT INTO {table} SELECT g, 'row ' || g, g % 1000, timestamptz '2024-01-01' + g * interval '1 s' \
         FROM generate_series(1::bigint, {rows}) g"
    ));
    let peak = sampler.peak();
    assert_eq!(reply.tag(), format!("INSERT 0 {rows}"));
    peak
}

#[test]
fn a_load_into_many_partitions_takes_bounded_memory() {
    let rows = if long() { 10_000_000 } else { 300_000 };
    let coordinator = Setup::new().start();
    let shard = Setup::new().start();
    let mut main = coordinator.simple();
    main.run("CREATE EXTENSION shard_fdw").expect_ok();
    main.run(&create_server("far", shard.port(), ""))
        .expect_ok();
    let mut remote = shard.simple();
    for number in 0..PARTITIONS {
        remote
            .run(&format!(
                "CREATE TABLE p{number} (id bigint, t text, n int, at timestamptz)"
            ))
            .expect_ok();
    }
    partitions(&mut main, "near", |number| {
        format!(
            "CREATE TABLE near{number} PARTITION OF near \
             FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        )
    });
    partitions(&mut main, "afar", |number| {
        format!(
            "CREATE FOREIGN TABLE afar{number} PARTITION OF afar \
             FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number}) \
             SERVER far OPTIONS (schema_name 'public', table_name 'p{number}')"
        )
    });
    let local = load(&coordinator, "near", rows);
    main.run("TRUNCATE near").expect_ok();
    let foreign = load(&coordinator, "afar", rows);
    println!("{rows} rows, {PARTITIONS} partitions: peak {local} kB local, {foreign} kB foreign");
    assert!(
        foreign <= local + ALLOWANCE,
        "{foreign} kB for foreign partitions, {local} kB for local ones"
    );
}
