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

/// A pooler lets COPY through, in both formats and beside the statements of the extended protocol.
#[test]
fn sessions_share_server_connections_for_copy() {
    let shard = odd_shard();
    let pooler = PgBouncer::start(&shard, 2);
    let coordinator = coordinator_of(&pooler);
    let threads: Vec<_> = (1..=3)
        .map(|number| {
            let mut client = coordinator.simple();
            let table = format!("t{number}");
            let workload = Workload::new(&shard, &mut client, "pooled", &table);
            // Without the array, in binary.
            let plain = format!(
                "ALTER FOREIGN TABLE {table} OPTIONS (ADD batch_bytes '1kB'); SET shard_fdw.copy_rows = 1;
                 CREATE FOREIGN TABLE plain{number} (id int, n numeric, f float8, span interval, raw bytea, note text)
                     SERVER pooled OPTIONS (schema_name 'public', table_name '{table}', transport 'copy', batch_bytes '1kB')"
            );
            client.run(&plain).expect_ok();
            std::thread::spawn(move || {
                for _ in 0..3 {
                    let rows = Workload::rows(1, 500);
                    let insert = format!("INSERT INTO {table} {rows}");
                    assert_eq!(client.run(&insert).tag(), "INSERT 0 500");
                    workload.check(&mut client, 1, 500);
                    let failing = format!("INSERT INTO {table} SELECT r.* FROM ({}) r ORDER BY id DESC", Workload::rows(400, 900));
                    assert_eq!(client.run(&failing).expect_error().sqlstate(), "23505");
                    workload.check(&mut client, 1, 500);
                    let both = format!(
                        "BEGIN; DELETE FROM {table}; INSERT INTO plain{number} SELECT id, n, f, span, raw, note FROM ({rows}) r;
                         SAVEPOINT a; DELETE FROM {table}; ROLLBACK TO a; UPDATE {table} SET tags = ARRAY['a,b', NULL, id::text]; COMMIT"
                    );
                    client.run(&both).expect_ok();
                    workload.check(&mut client, 1, 500);
                    client.run(&format!("TRUNCATE {table}")).expect_ok();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a session");
    }
}
