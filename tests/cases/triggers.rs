//! Triggers here and on the shard.

use crate::site::Site;

/// P12: a BEFORE ROW trigger sees the rows inserted before its own.
#[test]
fn p12_a_before_row_trigger_sees_the_rows_before() {
    let mut site = Site::new();
    site.table("queue", "nr int, ahead bigint", "");
    site.tag(
        "CREATE FUNCTION ahead() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN SELECT count(*) INTO NEW.ahead FROM queue; RETURN NEW; END';
         CREATE TRIGGER ahead BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION ahead()",
    );
    let many = "INSERT INTO queue (nr) SELECT generate_series(10, 50, 10)";
    assert_eq!(site.tag(many), "INSERT 0 5");
    assert_eq!(
        site.copy("COPY queue (nr) FROM STDIN", "60\n70\n80\n")
            .tag(),
        "COPY 3"
    );
    assert_eq!(
        site.rows("SELECT array_agg(ahead ORDER BY nr) FROM queue"),
        ["{0,1,2,3,4,5,6,7}"]
    );
}

/// P14: a transition table that cannot hold the rows of a shard is refused, and nothing is stored.
#[test]
fn p14_a_transition_table_is_never_incomplete() {
    let mut site = Site::new();
    site.partitioned("sale", "k int, cents int", "");
    site.tag(
        "CREATE TABLE total (cents bigint);
         CREATE FUNCTION total() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO total SELECT sum(cents) FROM fresh; RETURN NULL; END';
         CREATE TRIGGER total AFTER INSERT ON sale REFERENCING NEW TABLE AS fresh \
         FOR EACH STATEMENT EXECUTE FUNCTION total()",
    );
    assert_eq!(
        site.fails("INSERT INTO sale VALUES (3, 5), (1, 6), (2, 7)"),
        "0A000"
    );
    let copy = site.copy("COPY sale FROM STDIN", "3\t5\n1\t6\n2\t7\n");
    assert_eq!(copy.expect_error().sqlstate(), "0A000");
    assert_eq!(site.rows("SELECT count(*) FROM sale"), ["0"]);
    assert_eq!(site.rows("SELECT count(*) FROM total"), ["0"]);
}

/// P16: RETURNING and AFTER ROW triggers get the row as the shard has stored it.
#[test]
fn p16_returned_rows_are_the_stored_ones() {
    let mut site = Site::new();
    site.table("label", "nr int, body text", "");
    site.north
        .run(
            "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN NEW.body := upper(NEW.body) || ''#''; RETURN NEW; END';
             CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON label FOR EACH ROW EXECUTE FUNCTION stamp()",
        )
        .expect_ok();
    site.tag(
        "CREATE TABLE diary (at serial, line text);
         CREATE FUNCTION diary() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO diary (line) VALUES (concat_ws('' '', TG_OP, NEW.nr, NEW.body)); RETURN NULL; END';
         CREATE TRIGGER diary AFTER INSERT OR UPDATE ON label FOR EACH ROW EXECUTE FUNCTION diary()",
    );
    assert_eq!(
        site.rows("INSERT INTO label VALUES (1, 'in'), (2, 'out') RETURNING nr, body"),
        ["1|IN#", "2|OUT#"]
    );
    assert_eq!(
        site.copy("COPY label FROM STDIN", "3\tup\n4\tdown\n").tag(),
        "COPY 2"
    );
    let update = "UPDATE label SET body = 'on' WHERE nr = 2 RETURNING body";
    assert_eq!(site.rows(update), ["ON#"]);
    assert_eq!(
        site.rows("SELECT line FROM diary ORDER BY at"),
        [
            "INSERT 1 IN#",
            "INSERT 2 OUT#",
            "INSERT 3 UP#",
            "INSERT 4 DOWN#",
            "UPDATE 2 ON#"
        ]
    );
}

/// P30: a trigger of the shard that relies on a search path: the error says where it comes from, and
/// `session_settings` gives it what it needs.
#[test]
fn p30_triggers_that_rely_on_a_search_path() {
    let mut site = Site::new();
    site.north
        .run(
            "CREATE SCHEMA depot;
             CREATE TABLE depot.box (nr int);
             CREATE TABLE depot.seen (nr int);
             CREATE FUNCTION depot.see() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN INSERT INTO seen VALUES (NEW.nr); RETURN NEW; END';
             CREATE TRIGGER see AFTER INSERT ON depot.box FOR EACH ROW EXECUTE FUNCTION depot.see();
             ALTER DATABASE north SET search_path = depot",
        )
        .expect_ok();
    site.tag("CREATE FOREIGN TABLE box (nr int) SERVER north OPTIONS (schema_name 'depot')");
    let error = site
        .main
        .run("INSERT INTO box VALUES (1), (2)")
        .expect_error();
    assert_eq!(error.sqlstate(), "42P01");
    for part in ["depot.see()", "north", "box"] {
        assert!(error.context().contains(part), "{error:?}");
    }
    assert_eq!(site.rows("SELECT count(*) FROM box"), ["0"]);

    site.tag(
        "ALTER SERVER north OPTIONS (ADD session_settings 'search_path=\"depot, pg_catalog\"')",
    );
    assert_eq!(site.tag("INSERT INTO box VALUES (3), (4)"), "INSERT 0 2");
    site.tag("ALTER SERVER north OPTIONS (DROP session_settings)");
    site.north
        .run("ALTER FUNCTION depot.see() SET search_path = depot")
        .expect_ok();
    assert_eq!(site.copy("COPY box FROM STDIN", "5\n6\n").tag(), "COPY 2");
    assert_eq!(
        site.north
            .run("SELECT nr FROM depot.seen ORDER BY nr")
            .lines(),
        ["3", "4", "5", "6"]
    );
}

/// P36: a shard that answers with much more than it is sent does not block the sender.
#[test]
fn p36_a_talkative_shard_does_not_stall_a_load() {
    let mut site = Site::with("batch_size '5000'");
    site.table("loud", "nr int, body text", "");
    site.north
        .run(
            "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN RAISE NOTICE ''%'', repeat(''!'', 1500); RETURN NEW; END';
             CREATE TRIGGER shout BEFORE INSERT ON loud FOR EACH ROW EXECUTE FUNCTION shout()",
        )
        .expect_ok();
    site.tag("SET client_min_messages = error");
    let load = "INSERT INTO loud SELECT g, repeat('x', 1500) FROM generate_series(1, 8000) g";
    assert_eq!(site.tag(load), "INSERT 0 8000");
    let data: String = (0..1000).map(|n| format!("{n}\ty\n")).collect();
    assert_eq!(site.copy("COPY loud FROM STDIN", &data).tag(), "COPY 1000");
    assert_eq!(site.rows("SELECT count(*) FROM loud"), ["9000"]);
}

/// P54: what a table sync or an apply worker does to a partitioned table: COPY under the role `replica`.
#[test]
fn p54_copy_as_a_table_sync_does_it() {
    let mut site = Site::new();
    site.partitioned("feed", "k int, n int", "");
    site.tag("SET session_replication_role = replica");
    let copy = site.copy("COPY feed FROM STDIN", "3\t1\n1\t2\n2\t3\n1\t4\n");
    assert_eq!(copy.tag(), "COPY 4");
    site.tag("RESET session_replication_role");
    assert_eq!(
        site.rows("SELECT tableoid::regclass, n FROM feed ORDER BY n"),
        ["feed_3|1", "feed_1|2", "feed_2|3", "feed_1|4"]
    );
    let error = site
        .main
        .run("CREATE PUBLICATION feed FOR TABLE feed_1")
        .expect_error();
    assert!(error.detail().contains("foreign tables"), "{error:?}");
}
