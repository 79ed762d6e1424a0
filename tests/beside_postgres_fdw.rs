//! postgres_fdw loaded into a backend that uses shard_fdw already: two users of libpq in one process.

mod common;

use common::*;

#[test]
fn both_wrappers_work_in_one_backend() {
    if !need_extension("postgres_fdw") {
        return;
    }
    let coordinator = Cluster::start();
    let shard = Cluster::start();
    shard.sql(
        "CREATE TABLE t (id int PRIMARY KEY, note text);
         CREATE VIEW slow AS SELECT id FROM t, pg_sleep(300)",
    );
    let mut client = coordinator.simple();
    client
        .run(&format!(
            "CREATE EXTENSION shard_fdw; {}
             CREATE FOREIGN TABLE ours (id int, note text) SERVER s OPTIONS (schema_name 'public', table_name 't');
             CREATE FOREIGN TABLE our_slow (id int) SERVER s OPTIONS (schema_name 'public', table_name 'slow')",
            create_server("s", shard.port(), "")
        ))
        .expect_ok();
    let insert = "INSERT INTO ours SELECT i, 'ours' FROM generate_series(1, 1500) AS i";
    assert_eq!(client.run(insert).tag(), "INSERT 0 1500");

    // Only now the other library comes in.
    client
        .run(&format!(
            "CREATE EXTENSION postgres_fdw;
             CREATE SERVER p FOREIGN DATA WRAPPER postgres_fdw
                 OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', batch_size '100');
             CREATE USER MAPPING FOR CURRENT_USER SERVER p OPTIONS (user 'postgres');
             CREATE FOREIGN TABLE theirs (id int, note text) SERVER p OPTIONS (schema_name 'public', table_name 't');
             CREATE FOREIGN TABLE their_slow (id int) SERVER p OPTIONS (schema_name 'public', table_name 'slow')",
            shard.port()
        ))
        .expect_ok();
    let check = |client: &mut Simple, base: u32| {
        let write = format!(
            "BEGIN;
             INSERT INTO ours SELECT i, 'ours' FROM generate_series({base}, {base} + 9) AS i;
             INSERT INTO theirs SELECT i, 'theirs' FROM generate_series({base} + 10, {base} + 19) AS i;
             COMMIT"
        );
        assert_eq!(client.run(&write).tag(), "COMMIT");
        let read = format!(
            "SELECT count(*) FROM ours JOIN theirs USING (id, note) WHERE id >= {base} AND id < {base} + 20"
        );
        assert_eq!(client.value(&read), "20");
        let refused = format!("INSERT INTO theirs VALUES ({base}, '')");
        assert_eq!(client.run(&refused).expect_error().sqlstate(), "23505");
        let refused = refused.replace("theirs", "ours");
        assert_eq!(client.run(&refused).expect_error().sqlstate(), "23505");
    };
    check(&mut client, 2000);

    for (round, table) in (1..).zip(["their_slow", "our_slow", "their_slow"]) {
        client.send(&format!("SELECT * FROM {table}"));
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        wait_until("the sleep on the shard", || shard.value(sleeping) == "1");
        client.cancel();
        assert_eq!(client.receive().expect_error().sqlstate(), "57014");
        wait_until("its end", || shard.value(sleeping) == "0");
        check(&mut client, 2000 + 100 * round);
    }
    let timeout = "SET statement_timeout = '500ms'; SELECT * FROM their_slow";
    assert_eq!(client.run(timeout).expect_error().sqlstate(), "57014");
    client.run("RESET statement_timeout").expect_ok();
    check(&mut client, 3000);
}
