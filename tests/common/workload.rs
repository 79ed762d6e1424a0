//! What every shard has to do, whatever its version and whatever stands in between.

use super::cluster::Cluster;
use super::simple::Simple;

const COLUMNS: &str =
    "id int NOT NULL, n numeric, f float8, span interval, raw bytea, note text, tags text[]";

/// A table on a shard, and its foreign table of the same name.
pub struct Workload {
    server: String,
    table: String,
}

impl Workload {
    /// Creates the table on the shard and, for an existing server, the foreign table.
    pub fn new(shard: &Cluster, client: &mut Simple, server: &str, table: &str) -> Workload {
        shard.sql(&format!(
            "CREATE TABLE public.{table} ({COLUMNS}, CONSTRAINT {table}_key PRIMARY KEY (id),
                CONSTRAINT {table}_n CHECK (n < 1000))"
        ));
        client
            .run(&format!(
                "CREATE FOREIGN TABLE {table} ({COLUMNS}) SERVER {server}
                     OPTIONS (schema_name 'public', batch_size '7', fetch_size '3')"
            ))
            .expect_ok();
        Workload {
            server: server.into(),
            table: table.into(),
        }
    }

    /// Runs all of it on an empty table, and leaves it empty.
    pub fn run(&self, client: &mut Simple) {
        self.load(client);
        self.read(client);
        self.change(client);
        self.nest(client);
        self.fail(client);
        let table = &self.table;
        assert_eq!(
            client.run(&format!("TRUNCATE {table}")).tag(),
            "TRUNCATE TABLE"
        );
        assert_eq!(self.ids(client), "");
    }

    /// Rows whose text depends on the settings of the session that writes or reads them.
    pub fn rows(from: u32, to: u32) -> String {
        format!(
            "SELECT i AS id, i / 7.0 AS n, i / 3.0::float8 AS f, make_interval(days => -i, hours => -i) AS span,
                decode(lpad(to_hex(i), 4, '0'), 'hex') AS raw, 'nr \\ ' || i AS note,
                ARRAY['a,b', NULL, i::text] AS tags
             FROM generate_series({from}, {to}) AS i"
        )
    }

    /// The rows from `from` to `to` must read as local ones do.
    #[track_caller]
    pub fn check(&self, client: &mut Simple, from: u32, to: u32) {
        let foreign = client.run(&format!(
            "SELECT * FROM {} WHERE id BETWEEN {from} AND {to} ORDER BY id",
            self.table
        ));
        let local = client.run(&format!("{} ORDER BY id", Workload::rows(from, to)));
        assert_eq!(foreign.lines(), local.lines());
    }

    #[track_caller]
    fn ids(&self, client: &mut Simple) -> String {
        let ids = format!(
            "SELECT string_agg(id::text, ',' ORDER BY id) FROM {}",
            self.table
        );
        client.value(&ids)
    }

    fn load(&self, client: &mut Simple) {
        let table = &self.table;
        let insert = format!("INSERT INTO {table} {}", Workload::rows(1, 25));
        assert_eq!(client.run(&insert).tag(), "INSERT 0 25");
        let data = client.run(&format!("COPY ({}) TO STDOUT", Workload::rows(26, 40)));
        let copied = client.copy_in(&format!("COPY {table} FROM STDIN"), &data.copied);
        assert_eq!(copied.tag(), "COPY 15");
        self.check(client, 1, 40);
    }

    fn read(&self, client: &mut Simple) {
        let table = &self.table;
        client
            .run(&format!(
                "SET plan_cache_mode = force_generic_plan;
                 PREPARE q_{table} (int, text, interval) AS
                     SELECT f FROM {table} WHERE id = $1 OR note = $2 OR span = $3 ORDER BY 1"
            ))
            .expect_ok();
        let execute = format!("EXECUTE q_{table} (1, 'nr \\ 3', '-6 days -6 hours')");
        let plan = client.run(&format!("EXPLAIN (VERBOSE, COSTS OFF) {execute}"));
        let plan = plan.lines().join("\n");
        assert!(plan.contains("$1") && plan.contains("$3"), "{plan}");
        assert_eq!(
            client.run(&execute).lines(),
            ["0.3333333333333333", "1", "2"]
        );
        client
            .run(&format!("DEALLOCATE q_{table}; RESET plan_cache_mode"))
            .expect_ok();

        client
            .run(&format!(
                "BEGIN; DECLARE c CURSOR FOR SELECT id FROM {table} ORDER BY id FOR UPDATE;
                 MOVE 4 FROM c"
            ))
            .expect_ok();
        assert_eq!(client.run("FETCH 2 FROM c").lines(), ["5", "6"]);
        client.run("COMMIT").expect_ok();
    }

    fn change(&self, client: &mut Simple) {
        let table = &self.table;
        let update = format!(
            "UPDATE {table} SET note = upper(note), span = span * 2 WHERE id <= 5 RETURNING id, note, span"
        );
        let changed = client.run(&update);
        assert_eq!(changed.tag(), "UPDATE 5");
        let mut lines = changed.lines();
        lines.sort();
        assert_eq!(lines[0], "1|NR \\ 1|-2 days -02:00:00");
        let local = client.run(&format!(
            "SELECT span * 2 FROM ({}) AS r ORDER BY id",
            Workload::rows(1, 5)
        ));
        let foreign = client.run(&format!(
            "SELECT span FROM {table} WHERE id <= 5 ORDER BY id"
        ));
        assert_eq!(foreign.lines(), local.lines());
        let delete = format!("DELETE FROM {table} WHERE id > 3");
        assert_eq!(client.run(&delete).tag(), "DELETE 37");
        assert_eq!(self.ids(client), "1,2,3");
    }

    fn nest(&self, client: &mut Simple) {
        let table = &self.table;
        client
            .run(&format!(
                "BEGIN;
                 INSERT INTO {table} (id) VALUES (101);
                 SAVEPOINT a; INSERT INTO {table} (id) VALUES (102), (103); DELETE FROM {table} WHERE id = 101;
                 ROLLBACK TO a;
                 SAVEPOINT b; INSERT INTO {table} (id) VALUES (104); RELEASE b;
                 SAVEPOINT c"
            ))
            .expect_ok();
        let duplicate = format!("INSERT INTO {table} (id) VALUES (105), (101)");
        assert_eq!(client.run(&duplicate).expect_error().sqlstate(), "23505");
        client
            .run(&format!(
                "ROLLBACK TO c; INSERT INTO {table} (id) VALUES (106); COMMIT"
            ))
            .expect_ok();
        assert_eq!(self.ids(client), "1,2,3,101,104,106");
        client
            .run(&format!(
                "BEGIN; DELETE FROM {table}; INSERT INTO {table} (id) VALUES (1); ROLLBACK;
                 DELETE FROM {table} WHERE id > 100"
            ))
            .expect_ok();
        assert_eq!(self.ids(client), "1,2,3");
    }

    /// Errors have all their fields, and leave nothing behind.
    fn fail(&self, client: &mut Simple) {
        let table = &self.table;
        let error = client
            .run(&format!(
                "INSERT INTO {table} (id) SELECT i FROM generate_series(20, 1, -1) AS i"
            ))
            .expect_error();
        assert_eq!(error.sqlstate(), "23505", "{error:?}");
        assert_eq!(error.severity(), "ERROR");
        assert_eq!(
            error.message(),
            format!("duplicate key value violates unique constraint \"{table}_key\"")
        );
        assert_eq!(error.detail(), "Key (id)=(3) already exists.");
        assert_eq!(
            (error.schema(), error.table(), error.constraint()),
            ("public", table.as_str(), format!("{table}_key").as_str())
        );
        let place = format!(
            "server \"{}\", foreign table \"{table}\", rows 15 to 20",
            self.server
        );
        assert!(error.context().contains(&place), "{error:?}");

        let error = client
            .run(&format!("UPDATE {table} SET n = 1000 + id WHERE id = 2"))
            .expect_error();
        assert_eq!(
            (error.sqlstate(), error.constraint()),
            ("23514", format!("{table}_n").as_str())
        );
        let error = client
            .run(&format!(
                "ALTER FOREIGN TABLE {table} ALTER id DROP NOT NULL;
                 INSERT INTO {table} (n) VALUES (0)"
            ))
            .expect_error();
        assert_eq!((error.sqlstate(), error.column()), ("23502", "id"));
        assert_eq!(self.ids(client), "1,2,3");
    }
}
