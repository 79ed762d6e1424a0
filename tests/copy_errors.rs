//! What a row that the shard refuses does to a statement that goes by COPY, and values in COPY's formats.

mod common;

use common::*;

const COLUMNS: &str =
    "id int, v text, n smallint, w int, span int4range, parent int, late int, note varchar(8)";
const CONSTRAINTS: &str = "PRIMARY KEY (id), CONSTRAINT n_small CHECK (n < 1000), CONSTRAINT w_there CHECK (w IS NOT NULL),
    CONSTRAINT apart EXCLUDE USING gist (span WITH &&), CONSTRAINT child FOREIGN KEY (parent) REFERENCES parents,
    CONSTRAINT late_once UNIQUE (late) DEFERRABLE INITIALLY DEFERRED";

/// The foreign table `t` and its local twin `l`.
struct Scene {
    client: Simple,
    shard: Cluster,
    _coordinator: Cluster,
}

impl Scene {
    /// `columns`: those of the foreign table.
    fn new(columns: &str, options: &str) -> Scene {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        let parents = "CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents VALUES (1)";
        shard.sql(&format!(
            "{parents}; CREATE TABLE t ({COLUMNS}, {CONSTRAINTS}); ALTER TABLE t ALTER v SET NOT NULL"
        ));
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "{parents}; CREATE TABLE l ({COLUMNS}, {CONSTRAINTS}); ALTER TABLE l ALTER v SET NOT NULL;
                 CREATE EXTENSION shard_fdw; SET shard_fdw.copy_rows = 1; {}
                 CREATE FOREIGN TABLE t ({columns}) SERVER far OPTIONS (schema_name 'public')",
                create_server("far", shard.port(), options)
            ))
            .expect_ok();
        Scene {
            client,
            shard,
            _coordinator: coordinator,
        }
    }

    fn remote_pid(&mut self) -> String {
        let pid = "SELECT remote_backend_pid FROM shard_fdw_connections()";
        self.client.value(pid)
    }
}

/// 300 rows, of which one has a value that is refused. Columns that must differ get the row's number.
fn rows(column: &str, value: &str, bad: u32) -> String {
    let columns = [
        ("id", "g"),
        ("v", "'v'"),
        ("n", "1"),
        ("w", "1"),
        ("span", "int4range(g, g + 1)"),
        ("parent", "1"),
        ("late", "g"),
        ("note", "'note'"),
    ];
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, usual)| match *name == column {
            true => format!("CASE g WHEN {bad} THEN {value} ELSE {usual} END"),
            false => (*usual).to_string(),
        })
        .collect();
    format!(
        "SELECT {} FROM generate_series(1, 300) g",
        columns.join(", ")
    )
}

/// Column, value, SQLSTATE, and whether the error is that of a row while it is read.
const BAD: [(&str, &str, &str, bool); 8] = [
    ("id", "1000", "23505", true),
    ("v", "NULL", "23502", true),
    ("n", "1001", "23514", true),
    ("w", "NULL", "23514", true),
    ("span", "int4range(900, 2000)", "23P01", true),
    ("note", "'much too long'", "22001", true),
    ("parent", "2", "23503", false),
    ("late", "1000", "23505", false),
];

fn compare_errors(columns: &str, transport: &str) {
    let options = format!("transport '{transport}', batch_size '10', batch_bytes '2kB'");
    let mut scene = Scene::new(columns, &options);
    let there = "(1000, 'v', 1, 1, '[1000,1001)', 1, 1000, '')";
    scene
        .client
        .run(&format!(
            "INSERT INTO t VALUES {there}; INSERT INTO l VALUES {there}"
        ))
        .expect_ok();
    let pid = scene.remote_pid();
    let has_own_length = columns.contains("note varchar(8)");
    for (column, value, sqlstate, of_row) in BAD {
        if column == "note" && has_own_length {
            continue;
        }
        // Chunks grow: their first and last rows are among these.
        let some = if transport == "copy" { 1..=25 } else { 10..=11 };
        for bad in some.chain([99, 150, 300]) {
            let what = format!("{column}, row {bad}, {transport}");
            let rows = rows(column, value, bad);
            let local = scene
                .client
                .run(&format!("INSERT INTO l {rows}"))
                .expect_error();
            let error = scene
                .client
                .run(&format!("INSERT INTO t {rows}"))
                .expect_error();
            assert_eq!(error.sqlstate(), sqlstate, "{what}: {error:?}");
            let fields = |e: &Fields| {
                [
                    e.sqlstate(),
                    e.message(),
                    e.detail(),
                    e.schema(),
                    e.table(),
                    e.column(),
                    e.constraint(),
                ]
                .map(|field| field.replace("\"l\"", "\"t\"").replace("l_pkey", "t_pkey"))
            };
            let mut expected = fields(&local);
            if expected[4] == "l" {
                expected[4] = "t".to_string();
            }
            assert_eq!(fields(&error), expected, "{what}");
            if of_row && transport == "copy" {
                let place = format!("server \"far\", foreign table \"t\", row {bad}\n");
                assert!(error.context().contains(&place), "{what}: {error:?}");
            }
        }
        // Caught, and the transaction goes on.
        let caught = format!(
            "DO $$ BEGIN
                 INSERT INTO t SELECT 2000, 'v', 1, 1, NULL, 1, NULL, '';
                 BEGIN INSERT INTO t {}; SET CONSTRAINTS ALL IMMEDIATE; PERFORM FROM t;
                 EXCEPTION WHEN SQLSTATE '{sqlstate}' THEN RAISE NOTICE 'caught'; END;
                 INSERT INTO t SELECT 2001, 'v', 1, 1, NULL, 1, NULL, '';
             END $$",
            rows(column, value, 123)
        );
        if column != "late" {
            let reply = scene.client.run(&caught).expect_ok();
            assert_eq!(reply.notices[0].message(), "caught");
            let ids = "SELECT string_agg(id::text, ',' ORDER BY id) FROM t";
            assert_eq!(scene.shard.value(ids), "1000,2000,2001", "{column}");
            scene
                .client
                .run("DELETE FROM t WHERE id >= 2000")
                .expect_ok();
        }
    }
    let load = format!("INSERT INTO t {}", rows("", "", 0));
    assert_eq!(scene.client.run(&load).tag(), "INSERT 0 300");
    assert_eq!(scene.remote_pid(), pid);
}

#[test]
fn errors_in_rows_of_binary_copy() {
    compare_errors(COLUMNS, "copy");
    compare_errors(COLUMNS, "auto");
}

#[test]
fn errors_in_rows_of_text_copy() {
    // With other types here than there, and numbers that the shard's type does not hold.
    let columns = COLUMNS
        .replace("n smallint", "n int")
        .replace("varchar(8)", "text");
    compare_errors(&columns, "copy");
    compare_errors(&columns, "auto");
    let options = "transport 'copy', batch_size '10', batch_bytes '1kB'";
    let mut scene = Scene::new(&columns, options);
    for bad in (1..=30).chain([299, 300]) {
        for (value, sqlstate) in [("70000", "22003"), ("-70000", "22003")] {
            let load = format!("INSERT INTO t {}", rows("n", value, bad));
            let error = scene.client.run(&load).expect_error();
            assert_eq!(error.sqlstate(), sqlstate, "{error:?}");
            assert!(
                error.context().contains(&format!("\"t\", row {bad}\n")),
                "{error:?}"
            );
        }
    }
}

/// A statement does not go on for long after an error, though its further rows go elsewhere.
#[test]
fn an_error_ends_a_statement_that_sends_to_other_shards() {
    let coordinator = Cluster::start();
    let shards = Shards::start(2);
    shards.attach(&coordinator, "batch_size '100', batch_bytes '4kB'");
    shards[0].sql("CREATE TABLE t0 (k int, n bigint CHECK (n <> 700))");
    shards[1].sql("CREATE TABLE t1 (k int, n bigint)");
    let mut client = coordinator.simple();
    client
        .run(
            "SET shard_fdw.copy_rows = 1; CREATE SEQUENCE counted CACHE 1;
             CREATE TABLE t (k int, n bigint) PARTITION BY LIST (k);
             CREATE FOREIGN TABLE t0 PARTITION OF t FOR VALUES IN (0) SERVER shard1 OPTIONS (schema_name 'public');
             CREATE FOREIGN TABLE t1 PARTITION OF t FOR VALUES IN (1) SERVER shard2 OPTIONS (schema_name 'public')",
        )
        .expect_ok();
    for transport in ["insert", "copy", "auto"] {
        for server in ["shard1", "shard2"] {
            let action = if transport == "insert" { "ADD" } else { "SET" };
            let option =
                format!("ALTER SERVER {server} OPTIONS ({action} transport '{transport}')");
            client.run(&option).expect_ok();
        }
        client.run("ALTER SEQUENCE counted RESTART").expect_ok();
        let load = "INSERT INTO t SELECT CASE WHEN n < 3000 THEN 0 ELSE 1 END, n
            FROM (SELECT nextval('counted') AS n FROM generate_series(1, 10000000)) s";
        let error = client.run(load).expect_error();
        assert_eq!(error.sqlstate(), "23514", "{transport}: {error:?}");
        assert!(error.context().contains("\"t0\""), "{error:?}");
        let counted: u64 = client
            .value("SELECT last_value FROM counted")
            .parse()
            .expect("a number");
        assert!(counted < 1_000_000, "{transport}: {counted} rows");
        println!("{transport}: {counted} rows");
        assert_eq!(shards[1].value("SELECT count(*) FROM t1"), "0");
    }
}

/// Texts that mean something to COPY's text format, and types that have no binary form we send.
#[test]
fn values_survive_the_text_format() {
    let coordinator = Cluster::start();
    let shard = Cluster::start();
    let types = "CREATE TYPE mood AS ENUM ('so so', 'a\\b', 'tab\t');
        CREATE TYPE pair AS (a int, b text); CREATE DOMAIN small AS int CHECK (VALUE < 1000);
        CREATE DOMAIN short AS varchar(5) NOT NULL";
    let own = "m mood, p pair, d small, s short, moods mood[], pairs pair[]";
    let columns = format!("id int, v text, tags text[], raw bytea, c name, {own}");
    let odd = [
        "",
        "\\N",
        "\\.",
        "\\",
        "\\\\",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "a\\tb",
        "\\n",
        "end\\",
        " x ",
        "\u{1}",
        "\u{7f}",
        "NULL",
        "\"",
        "'",
        "é€😀",
        "\u{b}\u{c}\u{8}",
    ];
    let mut client = coordinator.simple();
    let mut setup = format!("{types}; CREATE TABLE l ({columns});");
    for (number, text) in odd.iter().enumerate() {
        let text = text.replace('\'', "''");
        setup.push_str(&format!(
            "INSERT INTO l VALUES ({number}, '{text}', ARRAY['{text}', NULL, ''], convert_to('{text}', 'UTF8'), '\\',
                 (enum_range(NULL::mood))[1 + {number} % 3], ({number}, '{text}'), {number}, 'x' || {number} % 10,
                 enum_range(NULL::mood), ARRAY[(1, '{text}')::pair, NULL]);"
        ));
    }
    setup.push_str("INSERT INTO l (id, s) VALUES (100, ''); INSERT INTO l SELECT l.* FROM l, generate_series(1, 20)");
    client.run(&setup).expect_ok();
    shard.sql(types);
    client
        .run(&format!(
            "CREATE EXTENSION shard_fdw; SET shard_fdw.copy_rows = 1; {}",
            create_server("far", shard.port(), "batch_size '10', batch_bytes '2kB'")
        ))
        .expect_ok();
    let extensions = ["citext", "hstore"].map(need_extension);
    if extensions == [true; 2] {
        let create = "CREATE EXTENSION citext; CREATE EXTENSION hstore";
        shard.sql(create);
        client
            .run(&format!(
                "{create}; ALTER TABLE l ADD ci citext, ADD h hstore; UPDATE l SET ci = v, h = hstore(v, v) || hstore('n', NULL)"
            ))
            .expect_ok();
    }
    let mut columns = columns;
    if extensions == [true; 2] {
        columns.push_str(", ci citext, h hstore");
    }
    // Alone, with an empty text as all of a line.
    for (table, columns, selected) in [
        ("t", columns.as_str(), "*"),
        ("one", "v text", "v"),
        ("wide", "id bigint, raw bytea", "id, raw"),
    ] {
        let there = columns.replace("id bigint", "id int");
        shard.sql(&format!("CREATE TABLE {table} ({there})"));
        client
            .run(&format!(
                "CREATE FOREIGN TABLE {table} ({columns}) SERVER far OPTIONS (schema_name 'public')"
            ))
            .expect_ok();
        for transport in ["copy", "auto", "insert"] {
            client
                .run(&format!(
                    "ALTER FOREIGN TABLE {table} OPTIONS ({} transport '{transport}'); DELETE FROM {table}",
                    if transport == "copy" { "ADD" } else { "SET" }
                ))
                .expect_ok();
            let load = format!("INSERT INTO {table} SELECT {selected} FROM l");
            let count = client.value("SELECT count(*) FROM l");
            assert_eq!(client.run(&load).tag(), format!("INSERT 0 {count}"));
            let sum = |rows: &str| {
                format!("SELECT md5(string_agg(r::text, ',' ORDER BY r::text COLLATE \"C\")) FROM ({rows}) r")
            };
            let local = client.value(&sum(&format!("SELECT {selected} FROM l")));
            assert_eq!(
                shard.value(&sum(&format!("SELECT * FROM {table}"))),
                local,
                "{table}, {transport}"
            );
            assert_eq!(
                client.value(&sum(&format!("SELECT * FROM {table}"))),
                local,
                "{table}, {transport}"
            );
        }
    }
    client
        .run("ALTER FOREIGN TABLE t OPTIONS (SET transport 'copy')")
        .expect_ok();
    // Domains of the shard check.
    client
        .run("ALTER DOMAIN small DROP CONSTRAINT small_check")
        .expect_ok();
    let error = client
        .run("INSERT INTO t (id, d, s) SELECT g, g, 'x' FROM generate_series(980, 1100) g")
        .expect_error();
    assert_eq!(
        (error.sqlstate(), error.constraint()),
        ("23514", "small_check"),
        "{error:?}"
    );
    assert!(error.context().contains("\"t\", row 21\n"), "{error:?}");
}
