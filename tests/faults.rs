//! Loads that are hit at random moments: a backend dies here or on a shard, or the line is cut. What is left?
//!
//! Twelve rounds, and with LONG=1 a hundred, besides those in which the local backend is killed by signal 9. `SEED=n`
//! repeats the moments that were drawn.

mod common;

use common::*;
use std::time::{Duration, Instant};

/// Longest time that a statement may take, whatever happens to it.
const WATCHDOG: Duration = Duration::from_secs(35);
/// Rows of a load, a quarter of them in each leaf.
const ROWS: u64 = 12_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    KillShard,
    TerminateShard,
    CutLine,
    TerminateLocal,
    KillLocal,
}

const FAULTS: [Fault; 4] = [
    Fault::KillShard,
    Fault::TerminateShard,
    Fault::CutLine,
    Fault::TerminateLocal,
];

/// The statements of a load.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Load {
    Insert,
    Copy,
    Transaction,
}

const LOADS: [Load; 3] = [Load::Insert, Load::Copy, Load::Transaction];

/// How its rows travel. For each there is a table of that name over the same tables of the shards.
const TRANSPORTS: [&str; 3] = ["insert", "copy", "auto"];

struct Scene {
    coordinator: Cluster,
    shards: Shards,
    proxies: [Proxy; 2],
    client: Simple,
    dice: u64,
}

impl Scene {
    fn new() -> Scene {
        let coordinator = Cluster::start();
        let mut shards = Shards::start(2);
        for shard in shards.iter_mut() {
            shard.expect_kills();
        }
        let proxies = [Proxy::to(shards[0].port()), Proxy::to(shards[1].port())];
        for proxy in &proxies {
            proxy.set_delay(Duration::from_millis(2));
        }
        // So that COPY takes over early, and many chunks are under way.
        let mut script = "CREATE EXTENSION shard_fdw; \
             ALTER DATABASE postgres SET shard_fdw.copy_rows = 1;"
            .to_string();
        for (number, proxy) in proxies.iter().enumerate() {
            script.push_str(&create_server(
                &format!("s{number}"),
                proxy.port(),
                "batch_size '300', batch_bytes '8kB'",
            ));
        }
        for k in 0..4 {
            let shard = k % 2;
            shards[shard].sql(&format!("CREATE TABLE t{k} (round int, k int, n int)"));
        }
        for transport in TRANSPORTS {
            script.push_str(&format!(
                "CREATE TABLE \"{transport}\" (round int, k int, n int) PARTITION BY LIST (k);"
            ));
            for k in 0..4 {
                script.push_str(&format!(
                    "CREATE FOREIGN TABLE {transport}{k} PARTITION OF \"{transport}\" FOR VALUES IN ({k}) \
                     SERVER s{} OPTIONS (schema_name 'public', table_name 't{k}', transport '{transport}');",
                    k % 2
                ));
            }
        }
        coordinator.sql(&script);
        let client = coordinator.simple();
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        Scene {
            coordinator,
            shards,
            proxies,
            client,
            dice: seed.unwrap_or(2024),
        }
    }

    /// A number below `limit` that looks random.
    fn below(&mut self, limit: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % limit
    }

    /// Runs a load and waits for its end, for as long as the watchdog allows.
    fn load(client: &mut Simple, round: u64, load: Load, transport: &str) -> Reply {
        client.set_limit(WATCHDOG);
        let query = |from: u64, to: u64| {
            format!("INSERT INTO \"{transport}\" SELECT {round}, g % 4, g FROM generate_series({from}, {to}) g")
        };
        match load {
            Load::Insert => client.run(&query(1, ROWS)),
            Load::Copy => {
                let data: String = (1..=ROWS)
                    .map(|n| format!("{round}\t{}\t{n}\n", n % 4))
                    .collect();
                client.copy_in(&format!("COPY \"{transport}\" FROM STDIN"), data.as_bytes())
            }
            Load::Transaction => {
                let third = ROWS / 3;
                client.run(&format!(
                    "BEGIN; {}; SAVEPOINT a; {}; ROLLBACK TO a; {}; SAVEPOINT b; {}; COMMIT",
                    query(1, third),
                    query(1, 50),
                    query(third + 1, 2 * third),
                    query(2 * third + 1, ROWS)
                ))
            }
        }
    }

    /// Kills by signal 9, or terminates, what serves us on a shard. False: there was nothing to hit.
    fn hit_shard(&self, shard: usize, kill: bool) -> bool {
        let Ok(mut admin) = Simple::connect(self.shards[shard].port(), "postgres", "postgres")
        else {
            return false;
        };
        let serving = "SELECT pid FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
        let pids = admin.run(serving).lines();
        for pid in &pids {
            if kill {
                process_signal(pid.parse().expect("a pid"), libc::SIGKILL);
            } else {
                admin.run(&format!("SELECT pg_terminate_backend({pid})"));
            }
        }
        !pids.is_empty()
    }

    /// Rows of a round on a shard, once every transaction of ours has ended there.
    fn rows(&self, shard: usize, round: u64) -> u64 {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            assert!(Instant::now() < end, "shard {shard} does not come to rest");
            std::thread::sleep(Duration::from_millis(5));
            // The shard may be restarting itself.
            let Ok(mut admin) = Simple::connect(self.shards[shard].port(), "postgres", "postgres")
            else {
                continue;
            };
            let busy = admin.run(
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE application_name = 'shard_fdw' AND state IS DISTINCT FROM 'idle'",
            );
            if busy.error.is_some() || busy.value() != "0" {
                continue;
            }
            let leaves = [shard, shard + 2].map(|k| {
                let count = admin.run(&format!("SELECT count(*) FROM t{k} WHERE round = {round}"));
                count.value().parse::<u64>().expect("a number")
            });
            return leaves.iter().sum();
        }
    }

    /// Whether a COMMIT may have reached a shard since the last `reset`, and whether its answer came back.
    fn commits(&self) -> [Commit; 2] {
        [0, 1].map(|shard| {
            let proxy = &self.proxies[shard];
            let mut connections: Vec<usize> = proxy.events().iter().map(|e| e.connection).collect();
            connections.sort_unstable();
            connections.dedup();
            let all = connections.into_iter().map(|number| proxy.commit(number));
            all.fold(Commit::NotSent, |so_far, commit| match commit {
                Commit::NotSent => so_far,
                _ => commit,
            })
        })
    }

    /// Waits until the coordinator has begun to commit, or for some time.
    fn wait_for_the_end(&self, limit: Duration) {
        let begin = Instant::now();
        let ending = |proxy: &Proxy| {
            let queries = proxy.queries();
            queries
                .iter()
                .any(|query| query.starts_with("SET CONSTRAINTS"))
        };
        while begin.elapsed() < limit && !self.proxies.iter().any(ending) {
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// One load with one fault at some moment of its time.
    fn round(&mut self, round: u64, fault: Fault) {
        let transport = TRANSPORTS[(round % 3) as usize];
        let load = LOADS[self.below(3) as usize];
        let usual = self.usual(load, transport);
        for proxy in &self.proxies {
            proxy.reset();
        }
        let shard = self.below(2) as usize;
        let part = self.below(1100);
        // The end of a load is short, and worth being met more often than that.
        let at_end = self.below(3) == 0;
        let moment = match at_end {
            true => Duration::from_micros(part * 10),
            false => usual.mul_f64(part as f64 / 1000.0),
        };
        let how = [How::Reset, How::Close][self.below(2) as usize];
        let pid = self.client.pid();
        let what = format!(
            "round {round}: {fault:?} on shard {shard}, {part}, {at_end}, {load:?}, {transport}"
        );

        let mut client = std::mem::replace(&mut self.client, self.coordinator.simple());
        let begin = Instant::now();
        let loading = std::thread::spawn(move || {
            let reply = Scene::load(&mut client, round, load, transport);
            (client, reply, begin.elapsed())
        });
        if at_end {
            self.wait_for_the_end(usual * 3);
        }
        std::thread::sleep(moment);
        match fault {
            Fault::KillShard | Fault::TerminateShard => {
                // The coordinator may not have connected yet.
                while !self.hit_shard(shard, fault == Fault::KillShard) && !loading.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Fault::CutLine => self.proxies[shard].cut_all(how),
            Fault::TerminateLocal => {
                let terminate = format!("SELECT pg_terminate_backend({pid})");
                self.client.run(&terminate).expect_ok();
            }
            Fault::KillLocal => self.coordinator.kill_backend(pid),
        }
        let (client, reply, took) = loading.join().unwrap_or_else(|_| panic!("{what}"));
        assert!(took < WATCHDOG, "{what}: {took:?}");

        if fault == Fault::KillLocal {
            // Every session of the coordinator is gone with that one.
            let end = Instant::now() + Duration::from_secs(30);
            while Simple::connect(self.coordinator.port(), "postgres", "postgres").is_err() {
                assert!(
                    Instant::now() < end,
                    "{what}: the coordinator does not come back"
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            self.client = self.coordinator.simple();
        } else if reply.status == '-' || fault == Fault::TerminateLocal {
            // The load may have been over before.
            self.client = self.coordinator.simple();
        } else {
            self.client = client;
        }
        if reply.status == 'E' {
            self.client.run("ROLLBACK").expect_ok();
        }
        let rows = [self.rows(0, round), self.rows(1, round)];
        let commits = self.commits();
        self.judge(&what, &reply, rows, commits, fault);
    }

    fn judge(&self, what: &str, reply: &Reply, rows: [u64; 2], commits: [Commit; 2], fault: Fault) {
        let state = format!(
            "{what}: rows {rows:?}, commits {commits:?}, {:?}",
            reply.error
        );
        let share = ROWS / 2;
        for (rows, commit) in rows.iter().zip(commits) {
            match commit {
                Commit::NotSent | Commit::Refused => assert_eq!(*rows, 0, "{state}"),
                Commit::Committed => assert_eq!(*rows, share, "{state}"),
                Commit::Unanswered => assert!([0, share].contains(rows), "{state}"),
            }
        }
        let Some(error) = &reply.error else {
            assert_eq!(rows, [share; 2], "{state}");
            return;
        };
        let sent = commits.iter().any(|commit| *commit != Commit::NotSent);
        if !sent {
            assert_eq!(rows, [0; 2], "{state}");
        }
        // A client whose backend was killed is told nothing.
        let told = error.severity() != "LOST" && fault != Fault::KillLocal;
        if sent && told {
            assert_eq!(error.sqlstate(), "08007", "{state}");
        }
        if error.sqlstate() == "08007" {
            check_detail(&state, error.detail(), rows);
        }
    }

    /// How long a load takes when nothing happens to it.
    fn usual(&mut self, load: Load, transport: &str) -> Duration {
        let round = 1_000_000;
        let begin = Instant::now();
        Scene::load(&mut self.client, round, load, transport).expect_ok();
        begin.elapsed()
    }
}

/// What the error says of each server must be so.
fn check_detail(state: &str, detail: &str, rows: [u64; 2]) {
    for (shard, rows) in rows.into_iter().enumerate() {
        let name = format!("Server \"s{shard}\": ");
        let said = detail
            .lines()
            .find_map(|line| line.strip_prefix(&name))
            .unwrap_or_else(|| panic!("nothing about s{shard}: {state}"));
        if said.starts_with("committed") {
            assert_eq!(rows, ROWS / 2, "{state}");
        } else if said.starts_with("rolled back") {
            assert_eq!(rows, 0, "{state}");
        } else {
            assert!(said.starts_with("unknown"), "{state}");
        }
    }
}

#[test]
fn faults_at_random_moments_of_a_load() {
    let mut scene = Scene::new();
    let rounds = if long() { 100 } else { 12 };
    for round in 0..rounds {
        let fault = FAULTS[round % FAULTS.len()];
        scene.round(round as u64, fault);
    }
    // All is well afterwards.
    for (round, load) in (2_000_000..).zip(LOADS) {
        for (transport, times) in TRANSPORTS.into_iter().zip(1..) {
            Scene::load(&mut scene.client, round, load, transport).expect_ok();
            let rows = [scene.rows(0, round), scene.rows(1, round)];
            assert_eq!(rows, [times * ROWS / 2; 2]);
        }
    }
}

#[test]
fn the_local_backend_is_killed_at_random_moments_of_a_load() {
    let mut scene = Scene::new();
    scene.coordinator.expect_kills();
    let rounds = if long() { 12 } else { 3 };
    for round in 0..rounds {
        scene.round(round, Fault::KillLocal);
    }
}
