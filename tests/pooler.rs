//! Shards behind a pooler that gives its server connections to another client after each transaction.

mod common;

use common::*;
use std::time::Duration;

/// Settings under which values have another text form than the one we rely on.
const ODD: &str = "ALTER ROLE postgres SET intervalstyle = 'sql_standard';
    ALTER ROLE postgres SET extra_float_digits = 0;
    ALTER ROLE postgres SET bytea_output = 'escape';
    ALTER ROLE postgres SET search_path = 'elsewhere'";

fn odd_shard() -> Cluster {
    let shard = Cluster::start();
    shard.sql(ODD);
    shard
}

fn coordinator_of(pooler: &PgBouncer) -> Cluster {
    let coordinator = Cluster::start();
    coordinator.sql(&format!(
        "CREATE EXTENSION shard_fdw; {}",
        create_server("pooled", pooler.port(), "session_settings 'work_mem=77kB'")
    ));
    coordinator
}

#[test]
fn three_sessions_share_two_server_connections() {
    let shard = odd_shard();
    let pooler = PgBouncer::start(&shard, 2);
    let coordinator = coordinator_of(&pooler);
    let threads: Vec<_> = (1..=3)
        .map(|number| {
            let mut client = coordinator.simple();
            let table = format!("t{number}");
            let workload = Workload::new(&shard, &mut client, "pooled", &table);
            std::thread::spawn(move || {
                for _ in 0..2 {
                    workload.run(&mut client);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a session");
    }
}

#[test]
fn a_session_that_meets_a_new_server_connection_reads_the_same_values() {
    let shard = odd_shard();
    let pooler = PgBouncer::start(&shard, 2);
    let coordinator = coordinator_of(&pooler);
    let [mut first, mut second, mut third] = [(); 3].map(|()| coordinator.simple());
    let workload = Workload::new(&shard, &mut first, "pooled", "t");
    shard.sql("CREATE VIEW public.limits AS SELECT current_setting('work_mem') AS work_mem");
    let limits =
        "CREATE FOREIGN TABLE limits (work_mem text) SERVER pooled OPTIONS (schema_name 'public')";
    first.run(limits).expect_ok();
    let insert = format!("INSERT INTO t {}", Workload::rows(1, 20));
    first.run(&insert).expect_ok();
    // Idle by now. The next transaction takes its server connection, and another one is made.
    second.run("BEGIN").expect_ok();
    workload.check(&mut second, 1, 20);
    workload.check(&mut first, 1, 20);
    third.run("BEGIN").expect_ok();
    workload.check(&mut third, 1, 20);
    assert_eq!(third.value("SELECT work_mem FROM limits"), "77kB");

    // Both are taken: whoever comes now has to wait, and then gets that of somebody else.
    let insert = format!("INSERT INTO t {}", Workload::rows(21, 30));
    first.send(&insert);
    assert!(!first.answers_within(Duration::from_millis(200)));
    second.run("COMMIT").expect_ok();
    assert_eq!(first.receive().tag(), "INSERT 0 10");
    third.run("ROLLBACK").expect_ok();
    for client in [&mut third, &mut second, &mut first] {
        workload.check(client, 1, 30);
    }
    // Other clients of the pooler still have the role's settings.
    let mut other = Simple::connect(pooler.port(), "postgres", "postgres").expect("connect");
    let mut read = || {
        let values = "SELECT interval '-1 day -2 hours', 0.1::float8 + 0.2::float8, current_setting('search_path')";
        other.run(values).lines()
    };
    assert_eq!(read(), ["-1 2:00:00|0.3|elsewhere"]);
}
