//! `sql/migrate/from_postgres_fdw.sql`: the statements it prints turn a database of postgres_fdw into one of shard_fdw.

mod common;

use common::*;

const SCRIPT: &str = include_str!("../sql/migrate/from_postgres_fdw.sql");

/// A database with most of what can be said of a foreign table.
const BEFORE: &str = r#"
CREATE EXTENSION postgres_fdw;
CREATE ROLE keeper; CREATE ROLE reader; CREATE ROLE "Odd role";
GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO keeper WITH GRANT OPTION;
CREATE SCHEMA "Odd schema";
CREATE TYPE "Odd schema".mood AS ENUM ('fine', 'bad');
CREATE FUNCTION "Odd schema".note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
COMMENT ON SERVER near IS 'it''s near';
ALTER SERVER near OWNER TO keeper;
GRANT USAGE ON FOREIGN SERVER near TO reader, PUBLIC;
CREATE USER MAPPING FOR postgres SERVER near OPTIONS (user 'postgres', password 'top secret', sslkey '/some/key');
CREATE USER MAPPING FOR PUBLIC SERVER near OPTIONS (user 'anybody');

CREATE TABLE public.event (id bigint NOT NULL, at timestamptz NOT NULL DEFAULT '2020-01-01', body text COLLATE "C")
    PARTITION BY LIST (id);
CREATE TRIGGER everywhere BEFORE INSERT ON public.event FOR EACH ROW EXECUTE FUNCTION "Odd schema".note();
CREATE FOREIGN TABLE event_1 PARTITION OF event FOR VALUES IN (1, 2) SERVER near OPTIONS (table_name 'event');
CREATE FOREIGN TABLE event_2 (at timestamptz NOT NULL, gone int, body text OPTIONS (column_name 'body') COLLATE "C", id bigint NOT NULL)
    SERVER near OPTIONS (schema_name 'public', table_name 'event', batch_size '7');
ALTER FOREIGN TABLE event_2 DROP COLUMN gone;
ALTER TABLE event ATTACH PARTITION event_2 DEFAULT;
CREATE TRIGGER here AFTER UPDATE ON event_1 FOR EACH ROW WHEN (OLD.id > 5) EXECUTE FUNCTION "Odd schema".note();
ALTER FOREIGN TABLE event_1 DISABLE TRIGGER here;

CREATE SEQUENCE "Odd schema".numbers;
CREATE FOREIGN TABLE "Odd schema"."Odd table" (
    "Odd column" numeric(10, 2) OPTIONS (column_name 'it''s') NOT NULL,
    n int DEFAULT nextval('"Odd schema".numbers'),
    twice numeric GENERATED ALWAYS AS ("Odd column" * 2) STORED,
    feeling "Odd schema".mood[] DEFAULT ARRAY['fine']::"Odd schema".mood[],
    CONSTRAINT positive CHECK ("Odd column" > 0), CONSTRAINT later CHECK (n > 0) NOT VALID)
    SERVER near OPTIONS (table_name 'back\slash', updatable 'false', use_remote_estimate 'true');
ALTER SEQUENCE "Odd schema".numbers OWNED BY "Odd schema"."Odd table".n;
ALTER FOREIGN TABLE "Odd schema"."Odd table" ALTER COLUMN n SET STATISTICS 77;
ALTER FOREIGN TABLE "Odd schema"."Odd table" ALTER COLUMN n SET (n_distinct = 5);
ALTER FOREIGN TABLE "Odd schema"."Odd table" OWNER TO keeper;
REVOKE DELETE ON "Odd schema"."Odd table" FROM keeper;
GRANT SELECT, INSERT ON "Odd schema"."Odd table" TO reader WITH GRANT OPTION;
GRANT SELECT ON "Odd schema"."Odd table" TO "Odd role", PUBLIC;
GRANT UPDATE (n, feeling) ON "Odd schema"."Odd table" TO reader;
COMMENT ON FOREIGN TABLE "Odd schema"."Odd table" IS 'odd';
COMMENT ON COLUMN "Odd schema"."Odd table".n IS 'a number';
COMMENT ON CONSTRAINT positive ON "Odd schema"."Odd table" IS 'above zero';

CREATE TABLE grandparent (a int);
CREATE FOREIGN TABLE parent (b int) INHERITS (grandparent) SERVER near;
CREATE FOREIGN TABLE child_far (c int) INHERITS (parent) SERVER near;
CREATE TABLE child_here (d int) INHERITS (parent);

CREATE VIEW public.reads WITH (security_barrier = true) AS SELECT body FROM event_1 WHERE id > 0;
GRANT SELECT ON public.reads TO reader;
CREATE MATERIALIZED VIEW public.keeps AS SELECT 1 AS a FROM parent WITH NO DATA;
"#;

/// Everything about the tables named in BEFORE that the move must keep; wrapper, OIDs and physical order left out.
const FACTS: &str = r#"
SELECT 'server', srvname, srvowner::regrole::text, (SELECT string_agg(x::text, ',' ORDER BY x::text COLLATE "C") FROM unnest(srvacl) x), obj_description(oid, 'pg_foreign_server')
  FROM pg_foreign_server WHERE srvname = 'near'
UNION ALL
SELECT 'mapping', srvname, usename, array_to_string(array(SELECT o FROM unnest(umoptions) o WHERE o !~ 'password'), ','), NULL
  FROM pg_user_mappings WHERE srvname = 'near'
UNION ALL
SELECT 'table', c.oid::regclass::text, relowner::regrole::text,
       (SELECT string_agg(x::text, ',' ORDER BY x::text COLLATE "C") FROM unnest(relacl) x), obj_description(c.oid, 'pg_class')
  FROM pg_class c JOIN pg_foreign_table ON ftrelid = c.oid WHERE relname !~ '_old$'
UNION ALL
SELECT 'bound', c.oid::regclass::text, pg_get_expr(relpartbound, c.oid), ftoptions::text, srvname
  FROM pg_class c JOIN pg_foreign_table ON ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = ftserver WHERE relname !~ '_old$'
UNION ALL
SELECT 'column', attrelid::regclass || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attcollation, attgenerated),
       concat_ws(' ', pg_get_expr(adbin, adrelid), attfdwoptions, attstattarget,
       array(SELECT o FROM unnest(attoptions) o WHERE o !~ '^pg_attver')),
       concat_ws(' ', attacl, col_description(attrelid, attnum))
  FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
 WHERE relkind = 'f' AND relname !~ '_old$' AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'inherits', inhrelid::regclass::text, inhparent::regclass::text, NULL, NULL
  FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE relkind IN ('f', 'r')
UNION ALL
SELECT 'check', conrelid::regclass::text, conname, pg_get_constraintdef(o.oid), obj_description(o.oid, 'pg_constraint')
  FROM pg_constraint o JOIN pg_class c ON c.oid = conrelid WHERE relkind = 'f' AND contype = 'c' AND relname !~ '_old$'
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(g.oid), tgenabled::text
  FROM pg_trigger g JOIN pg_class c ON c.oid = tgrelid WHERE relkind = 'f' AND relname !~ '_old$'
UNION ALL
SELECT 'sequence', pg_get_serial_sequence('"Odd schema"."Odd table"', 'n'), NULL, NULL, NULL
UNION ALL
SELECT 'view', 'reads', pg_get_viewdef('reads'::regclass), reloptions::text, relacl::text FROM pg_class WHERE oid = 'reads'::regclass
ORDER BY 1, 2, 3
"#;

/// The wrapper of every server and foreign table.
const WRAPPERS: &str = "SELECT srvname, fdwname, count(ftrelid) FROM pg_foreign_server s \
    JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw LEFT JOIN pg_foreign_table ON ftserver = s.oid \
    GROUP BY 1, 2 ORDER BY 1";

fn print_script(cluster: &Cluster, options: &[&str]) -> String {
    let output = cluster.psql(options, SCRIPT);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run_script(cluster: &Cluster, script: &str) {
    let output = cluster.psql(&["-v", "ON_ERROR_STOP=1", "-q"], script);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}\n{script}");
}

#[test]
fn definitions_move_and_secrets_do_not() {
    if !need_extension("postgres_fdw") {
        return;
    }
    let cluster = Cluster::start();
    let server = format!(
        "CREATE EXTENSION postgres_fdw; CREATE SERVER near TYPE 'kind' VERSION '1.0' FOREIGN DATA WRAPPER postgres_fdw \
         OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', fetch_size '33');",
        cluster.port()
    );
    cluster.sql(&server);
    cluster.sql(&BEFORE.replace("CREATE EXTENSION postgres_fdw;", ""));
    if major() >= 18 {
        cluster.sql("ALTER SERVER near OPTIONS (ADD use_scram_passthrough 'true')");
    }
    let before = cluster.simple().run(FACTS).lines();
    let acl = "SELECT fdwacl::text FROM pg_foreign_data_wrapper WHERE fdwname = ";
    let wrapper_acl = cluster.value(&format!("{acl}'postgres_fdw'"));

    let script = print_script(&cluster, &[]);
    assert_eq!(
        cluster.simple().run(WRAPPERS).lines(),
        ["near|postgres_fdw|5"],
        "printing must not change anything"
    );
    assert!(!script.contains("top secret"), "{script}");
    assert!(
        script.contains(
            "-- Left out here, to be added by hand: password.\nCREATE USER MAPPING FOR postgres"
        ),
        "{script}"
    );
    assert!(
        script.contains(
            "-- Still uses the old table, change it by hand: materialized view public.keeps"
        ),
        "{script}"
    );
    assert_eq!(
        script.contains("-- use_scram_passthrough was left out"),
        major() >= 18
    );
    assert!(!script.contains("OPTIONS (use_scram_passthrough"));

    run_script(&cluster, &script);
    assert_eq!(
        cluster.simple().run(WRAPPERS).lines(),
        ["near|shard_fdw|5", "near_old|postgres_fdw|5"]
    );
    let after = cluster.simple().run(FACTS).lines();
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(new, old, "{script}");
    }
    assert_eq!(after.len(), before.len(), "{script}");
    assert_eq!(cluster.value(&format!("{acl}'shard_fdw'")), wrapper_acl);
    assert_eq!(
        cluster.value("SELECT srvtype || srvversion || srvoptions::text FROM pg_foreign_server WHERE srvname = 'near'"),
        format!(
            "kind1.0{{host=127.0.0.1,port={},dbname=postgres,fetch_size=33}}",
            cluster.port()
        )
    );

    // The end of the script, once what it named has been done by hand.
    cluster.sql("DROP MATERIALIZED VIEW keeps");
    let farewell: String = script
        .lines()
        .filter_map(|line| line.strip_prefix("-- DROP"))
        .map(|rest| format!("DROP{rest}\n"))
        .collect();
    run_script(&cluster, &farewell);
    assert_eq!(cluster.simple().run(WRAPPERS).lines(), ["near|shard_fdw|5"]);
}

#[test]
fn rows_are_where_they_were() {
    if !need_extension("postgres_fdw") {
        return;
    }
    let cluster = Cluster::start();
    let shards = Shards::start(2);
    shards.sql(
        "CREATE TABLE part (id bigint NOT NULL, body text); CREATE TABLE alone (remote_name int)",
    );
    for (number, shard) in shards.iter().enumerate() {
        cluster.sql(&format!(
            "CREATE EXTENSION IF NOT EXISTS postgres_fdw;\
             CREATE SERVER s{number} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');\
             CREATE USER MAPPING FOR postgres SERVER s{number} OPTIONS (user 'postgres');",
            shard.port()
        ));
    }
    cluster.sql(
        "CREATE TABLE whole (id bigint NOT NULL, body text) PARTITION BY HASH (id);\
         CREATE FOREIGN TABLE p0 PARTITION OF whole FOR VALUES WITH (MODULUS 2, REMAINDER 0)
             SERVER s0 OPTIONS (table_name 'part');\
         CREATE FOREIGN TABLE p1 PARTITION OF whole FOR VALUES WITH (MODULUS 2, REMAINDER 1)
             SERVER s1 OPTIONS (table_name 'part');\
         CREATE FOREIGN TABLE alone (local_name int OPTIONS (column_name 'remote_name')) SERVER s0;\
         CREATE VIEW reads AS SELECT local_name FROM alone;\
         INSERT INTO whole SELECT i, 'row ' || i FROM generate_series(1, 100) i;\
         INSERT INTO alone VALUES (1);",
    );
    let rows = "SELECT tableoid::regclass, * FROM whole ORDER BY id";
    let before = cluster.simple().run(rows).lines();
    assert_eq!(before.len(), 100);

    run_script(&cluster, &print_script(&cluster, &[]));
    assert_eq!(cluster.simple().run(rows).lines(), before);
    let mut client = cluster.simple();
    assert_eq!(
        client
            .run("INSERT INTO whole SELECT i, 'new' FROM generate_series(101, 200) i")
            .tag(),
        "INSERT 0 100"
    );
    assert_eq!(client.value("SELECT count(DISTINCT id) FROM whole"), "200");
    assert_eq!(
        client.run("INSERT INTO alone VALUES (2)").tag(),
        "INSERT 0 1"
    );
    assert_eq!(client.value("SELECT sum(local_name) FROM reads"), "3");
    let stored: i64 = shards
        .values("SELECT count(*) FROM part")
        .iter()
        .map(|count| count.parse::<i64>().unwrap())
        .sum();
    assert_eq!(stored, 200);
    // Reached through the new wrapper: the old tables see the same rows, under their new names.
    assert_eq!(
        client.value("SELECT count(*) FROM p0_old"),
        shards[0].value("SELECT count(*) FROM part")
    );
    assert_eq!(
        client.run(WRAPPERS).lines(),
        [
            "s0|shard_fdw|2",
            "s0_old|postgres_fdw|2",
            "s1|shard_fdw|1",
            "s1_old|postgres_fdw|1"
        ]
    );
}

#[test]
fn servers_and_suffix_are_chosen() {
    if !need_extension("postgres_fdw") {
        return;
    }
    let cluster = Cluster::start();
    cluster.sql(
        "CREATE EXTENSION postgres_fdw;\
         CREATE SERVER one FOREIGN DATA WRAPPER postgres_fdw; CREATE SERVER two FOREIGN DATA WRAPPER postgres_fdw;\
         CREATE FOREIGN TABLE t1 (a int) SERVER one; CREATE FOREIGN TABLE t2 (a int) SERVER two;",
    );
    let script = print_script(&cluster, &["-v", "servers=tw%", "-v", "suffix=_before"]);
    run_script(&cluster, &script);
    assert_eq!(
        cluster.simple().run(WRAPPERS).lines(),
        [
            "one|postgres_fdw|1",
            "two|shard_fdw|1",
            "two_before|postgres_fdw|1"
        ]
    );
    assert_eq!(
        cluster.value("SELECT srvname FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = 't2'::regclass"),
        "two"
    );
}

#[test]
fn only_a_superuser_gets_a_script() {
    if !need_extension("postgres_fdw") {
        return;
    }
    let cluster = Cluster::start();
    cluster.sql("CREATE ROLE plain LOGIN");
    let output = cluster.psql(&["-U", "plain", "-d", "postgres"], SCRIPT);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("only a superuser"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("CREATE SERVER"));
}
