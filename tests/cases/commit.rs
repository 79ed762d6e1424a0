//! Ends of transactions: what is kept when a shard refuses, is gone, or cannot take part.

use crate::site::Site;

/// P02: a shard that refuses at the end must not leave the other one with its half.
#[test]
fn p02_a_refused_commit_keeps_nothing() {
    let mut site = Site::new();
    site.partitioned(
        "payment",
        "k int, nr int, cents int",
        ", UNIQUE (nr) DEFERRABLE INITIALLY DEFERRED",
    );
    site.south
        .run("INSERT INTO payment_2 VALUES (2, 8, 0)")
        .expect_ok();
    let error = site
        .main
        .run("INSERT INTO payment VALUES (1, 7, -500), (2, 8, 500)")
        .expect_error();
    assert_eq!(
        (error.sqlstate(), error.constraint()),
        ("23505", "payment_2_nr_key")
    );

    site.north
        .run("INSERT INTO payment_1 VALUES (1, 9, 0)")
        .expect_ok();
    site.tag("BEGIN");
    site.tag("INSERT INTO payment VALUES (2, 10, 500)");
    site.tag("INSERT INTO payment VALUES (1, 9, -500)");
    assert_eq!(site.fails("COMMIT"), "23505");
    assert_eq!(
        site.rows("SELECT tableoid::regclass, nr, cents FROM payment ORDER BY nr"),
        ["payment_2|8|0", "payment_1|9|0"]
    );
    // The session is as good as new.
    assert_eq!(
        site.tag("INSERT INTO payment VALUES (1, 11, -500), (2, 12, 500)"),
        "INSERT 0 2"
    );
}

/// P06: an EXCEPTION block catches the error of its own rows, and the rows of others stay.
#[test]
fn p06_a_block_catches_the_error_of_its_own_rows() {
    let mut site = Site::with("batch_size '1000'");
    site.table("word", "w text", ", PRIMARY KEY (w)");
    site.tag("CREATE TABLE diary (line text)");
    site.tag(
        "DO $$
        DECLARE round text;
        BEGIN
            FOREACH round IN ARRAY ARRAY['red', 'green', 'blue'] LOOP
                BEGIN
                    INSERT INTO word VALUES (round || '1'), ('common'), (round || '2');
                    INSERT INTO diary VALUES (round || ' kept');
                EXCEPTION WHEN unique_violation THEN
                    INSERT INTO diary VALUES (round || ' twice');
                END;
            END LOOP;
        END $$",
    );
    assert_eq!(
        site.rows("SELECT line FROM diary"),
        ["red kept", "green twice", "blue twice"]
    );
    assert_eq!(
        site.rows("SELECT w FROM word ORDER BY w"),
        ["common", "red1", "red2"]
    );
}

/// P40: a cached connection that has died is replaced if nothing depends on it; otherwise the transaction fails whole.
#[test]
fn p40_a_dead_connection_is_replaced_between_transactions() {
    let mut site = Site::new();
    site.table("tick", "n int", "");
    let kill = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                WHERE datname = 'north' AND application_name <> 'test'";
    site.tag("INSERT INTO tick VALUES (1)");
    assert_eq!(site.rows(kill), ["t"]);
    assert_eq!(site.tag("INSERT INTO tick VALUES (2)"), "INSERT 0 1");

    let lost = |state: String| assert_eq!(state, "08006");

    // Lost between two statements of a transaction.
    site.tag("BEGIN; INSERT INTO tick VALUES (3)");
    assert_eq!(site.rows(kill), ["t"]);
    lost(site.fails("INSERT INTO tick VALUES (4)"));
    assert_eq!(site.tag("COMMIT"), "ROLLBACK");

    // A savepoint does not bring back what was lost before it.
    site.tag("BEGIN; INSERT INTO tick VALUES (6); SAVEPOINT s");
    assert_eq!(site.rows(kill), ["t"]);
    lost(site.fails("INSERT INTO tick VALUES (7)"));
    site.tag("ROLLBACK TO s");
    lost(site.fails("INSERT INTO tick VALUES (8)"));
    assert_eq!(site.tag("COMMIT"), "ROLLBACK");

    // Not even if nothing touches it any more.
    site.tag("BEGIN; INSERT INTO tick VALUES (9); SAVEPOINT s");
    assert_eq!(site.rows(kill), ["t"]);
    site.tag("ROLLBACK TO s");
    lost(site.fails("COMMIT"));

    // Lost just before the end.
    site.tag("BEGIN; INSERT INTO tick VALUES (10)");
    assert_eq!(site.rows(kill), ["t"]);
    lost(site.fails("COMMIT"));

    assert_eq!(site.tag("INSERT INTO tick VALUES (5)"), "INSERT 0 1");
    assert_eq!(site.rows("SELECT n FROM tick ORDER BY n"), ["1", "2", "5"]);
}

/// P44: a transaction that has used a shard cannot be prepared, whatever it did there.
#[test]
fn p44_prepare_transaction_is_refused_after_remote_use() {
    let mut site = Site::new();
    site.table("wish", "n int", "");
    for (number, work) in [
        "INSERT INTO wish VALUES (1), (2)",
        "SELECT count(*) FROM wish",
        "INSERT INTO wish VALUES (3); SAVEPOINT s; ROLLBACK TO s",
        "SAVEPOINT s; INSERT INTO wish VALUES (4); ROLLBACK TO s",
    ]
    .iter()
    .enumerate()
    {
        site.tag(&format!("BEGIN; {work}"));
        assert_eq!(
            site.fails(&format!("PREPARE TRANSACTION 'x{number}'")),
            "0A000",
            "{work}"
        );
    }
    assert_eq!(site.rows("SELECT count(*) FROM pg_prepared_xacts"), ["0"]);
    assert_eq!(site.rows("SELECT count(*) FROM wish"), ["0"]);
    // Without remote use nothing is in the way.
    site.tag("BEGIN; CREATE TABLE local ()");
    assert_eq!(site.tag("PREPARE TRANSACTION 'y'"), "PREPARE TRANSACTION");
    site.tag("COMMIT PREPARED 'y'");
}

/// P38: two sessions that write two shards in opposite order: one of them gives up, and nothing is mixed.
#[test]
fn p38_opposite_orders_end_with_one_winner() {
    let mut site = Site::new();
    site.partitioned("lamp", "k int, colour text", "");
    site.tag("INSERT INTO lamp VALUES (1, 'off'), (2, 'off')");
    let mut other = site.cluster.simple();
    site.tag("BEGIN");
    other.run("BEGIN").expect_ok();
    site.tag("UPDATE lamp SET colour = 'red' WHERE k = 1");
    other
        .run("UPDATE lamp SET colour = 'blue' WHERE k = 2")
        .expect_ok();
    other.send("UPDATE lamp SET colour = 'blue' WHERE k = 1");
    // The cycle: no server sees all of it, so only the timeout ends it.
    site.tag("SET LOCAL statement_timeout = '2s'");
    assert_eq!(
        site.fails("UPDATE lamp SET colour = 'red' WHERE k = 2"),
        "57014"
    );
    assert_eq!(site.tag("ROLLBACK"), "ROLLBACK");
    assert_eq!(other.receive().tag(), "UPDATE 1");
    assert_eq!(other.run("COMMIT").tag(), "COMMIT");
    assert_eq!(site.rows("SELECT DISTINCT colour FROM lamp"), ["blue"]);
}

/// P42: the shard's transaction is repeatable read, so a concurrent change shows as 40001; with `isolation 'match'` it
/// is read committed, as here.
#[test]
fn p42_isolation_of_the_shard_is_documented_or_matched() {
    let mut site = Site::new();
    site.table("stock", "nr int, pieces int", ", PRIMARY KEY (nr)");
    site.tag("INSERT INTO stock VALUES (1, 10)");
    let read = "SELECT pieces FROM stock";
    site.tag("BEGIN");
    assert_eq!(site.rows(read), ["10"]);
    site.north
        .run("UPDATE stock SET pieces = pieces + 50")
        .expect_ok();
    assert_eq!(site.rows(read), ["10"]);
    let error = site
        .main
        .run("UPDATE stock SET pieces = pieces + 1 WHERE nr = 1")
        .expect_error();
    assert_eq!(error.sqlstate(), "40001");
    assert!(error.context().contains("stock"), "{error:?}");
    assert_eq!(site.tag("COMMIT"), "ROLLBACK");
    assert_eq!(site.rows(read), ["60"]);

    site.tag("ALTER SERVER north OPTIONS (ADD isolation 'match')");
    site.tag("BEGIN");
    assert_eq!(site.rows(read), ["60"]);
    site.north
        .run("UPDATE stock SET pieces = pieces + 50")
        .expect_ok();
    assert_eq!(site.rows(read), ["110"]);
    site.tag("UPDATE stock SET pieces = pieces + 1 WHERE nr = 1");
    assert_eq!(site.tag("COMMIT"), "COMMIT");
    assert_eq!(site.rows(read), ["111"]);
}
