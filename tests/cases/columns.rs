//! Columns: which are sent, and how their values travel.

use crate::common::Setup;
use crate::site::Site;

/// P22: an identity column of the shard, generated there unless the statement names it.
#[test]
fn p22_identity_columns_of_the_shard() {
    let mut site = Site::new();
    site.north
        .run("CREATE TABLE ticket (nr int GENERATED ALWAYS AS IDENTITY, seat text)")
        .expect_ok();
    site.tag(
        "CREATE FOREIGN TABLE ticket (nr int OPTIONS (remote_default 'true'), seat text) \
         SERVER north OPTIONS (schema_name 'public')",
    );
    assert_eq!(
        site.tag("INSERT INTO ticket (seat) VALUES ('a1'), ('a2')"),
        "INSERT 0 2"
    );
    assert_eq!(
        site.tag("INSERT INTO ticket OVERRIDING SYSTEM VALUE VALUES (70, 'b1'), (71, 'b2')"),
        "INSERT 0 2"
    );
    assert_eq!(
        site.copy("COPY ticket (seat) FROM STDIN", "c1\nc2\n").tag(),
        "COPY 2"
    );
    assert_eq!(
        site.copy("COPY ticket FROM STDIN", "80\td1\n81\td2\n")
            .tag(),
        "COPY 2"
    );
    assert_eq!(
        site.rows("INSERT INTO ticket (seat) VALUES ('e1') RETURNING nr, seat"),
        ["5|e1"]
    );
    assert_eq!(
        site.rows("SELECT nr, seat FROM ticket ORDER BY seat"),
        ["1|a1", "2|a2", "70|b1", "71|b2", "3|c1", "4|c2", "80|d1", "81|d2", "5|e1"]
    );
    // A NULL that is named is a NULL.
    site.north
        .run("CREATE TABLE coat (nr serial, peg text)")
        .expect_ok();
    site.north
        .run("ALTER TABLE coat ALTER nr DROP NOT NULL")
        .expect_ok();
    site.tag(
        "CREATE FOREIGN TABLE coat (nr int OPTIONS (remote_default 'true'), peg text) \
         SERVER north OPTIONS (schema_name 'public')",
    );
    site.tag("INSERT INTO coat VALUES (NULL, 'named'), (9, 'named too')");
    site.tag("INSERT INTO coat (peg) SELECT 'p' || g FROM generate_series(1, 3) g");
    assert_eq!(
        site.rows("SELECT nr, peg FROM coat ORDER BY peg"),
        ["|named", "9|named too", "1|p1", "2|p2", "3|p3"]
    );
}

/// P24: columns that were dropped here, or stand elsewhere on the shard.
#[test]
fn p24_dropped_and_reordered_columns_keep_their_values() {
    let mut site = Site::new();
    site.north
        .run("CREATE TABLE person (born date, spare int, name text, town text)")
        .expect_ok();
    site.tag(
        "CREATE FOREIGN TABLE person (x int, name text, y bytea, town text, born date) \
         SERVER north OPTIONS (schema_name 'public');
         ALTER FOREIGN TABLE person DROP COLUMN x, DROP COLUMN y;
         ALTER FOREIGN TABLE person ADD COLUMN z int OPTIONS (column_name 'spare');
         ALTER FOREIGN TABLE person DROP COLUMN z;
         CREATE TABLE people (w int, town text, born date, name text) PARTITION BY LIST (town);
         ALTER TABLE people DROP COLUMN w;
         ALTER TABLE people ATTACH PARTITION person DEFAULT",
    );
    let insert = "INSERT INTO people SELECT 'town' || g, date '2000-01-01' + g, 'name' || g FROM generate_series(1, 3) g";
    assert_eq!(site.tag(insert), "INSERT 0 3");
    let copy = site.copy(
        "COPY people (name, town) FROM STDIN",
        "copied\tz1\n\\N\tz2\n",
    );
    assert_eq!(copy.tag(), "COPY 2");
    let update = "UPDATE people SET name = name || '!' WHERE random() < 2 RETURNING town, name";
    assert_eq!(site.main.run(update).rows().len(), 5);
    assert_eq!(
        site.north
            .run("SELECT name, town, born, spare FROM person ORDER BY town")
            .lines(),
        [
            "name1!|town1|2000-01-02|",
            "name2!|town2|2000-01-03|",
            "name3!|town3|2000-01-04|",
            "copied!|z1||",
            "|z2||"
        ]
    );
}

/// P26: columns whose type here is another than on the shard.
#[test]
fn p26_loosely_mapped_types() {
    let mut site = Site::new();
    let types = "CREATE TYPE size AS ENUM ('small', 'large');
                 CREATE DOMAIN share AS int CHECK (value < 100);
                 CREATE TYPE spot AS (x int, note text)";
    site.north.run(types).expect_ok();
    site.main.run(types).expect_ok();
    site.north
        .run(
            "CREATE TABLE thing (nr int, s size, u uuid, j jsonb, n int, c varchar(4), d date, p share, t spot, \
             b bytea, r int4range, i inet, a size[])",
        )
        .expect_ok();
    site.tag(
        "CREATE FOREIGN TABLE thing (nr int, s text, u text, j text, n text, c text, d text, p int, t spot, \
         b bytea, r text, i text, a text[]) SERVER north OPTIONS (schema_name 'public')",
    );
    let rows = "INSERT INTO thing VALUES
        (1, 'large', '11111111-2222-3333-4444-555555555555', '{\"k\": [1]}', '-5', 'abcd', '2024-02-29', 99,
         ROW(1, 'a \"quoted\", \\ one'), '\\x5c00', '[3,8)', '10.1.0.0/16', '{small,NULL,large}'),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (3, 'small', NULL, 'null', '7', '', '-infinity', 0, ROW(NULL, ''), '', 'empty', '::1', '{}')";
    assert_eq!(site.tag(rows), "INSERT 0 3");
    assert_eq!(
        site.rows("SELECT * FROM thing ORDER BY nr"),
        site.north.run("SELECT * FROM thing ORDER BY nr").lines()
    );
    let update =
        "UPDATE thing SET s = 'small', n = (nr * 3)::text, c = 'y', j = '[2]', t = ROW(nr, NULL), \
                  b = '\\x01', a = ARRAY['large'] WHERE random() < 2";
    assert_eq!(site.tag(update), "UPDATE 3");
    assert_eq!(
        site.north
            .run("SELECT nr, s, n, c, j, t, b, a FROM thing ORDER BY nr")
            .lines(),
        [
            "1|small|3|y|[2]|(1,)|\\x01|{large}",
            "2|small|6|y|[2]|(2,)|\\x01|{large}",
            "3|small|9|y|[2]|(3,)|\\x01|{large}"
        ]
    );
    // What only the shard can refuse.
    for (bad, state) in [
        (
            "INSERT INTO thing (nr, s) VALUES (4, 'small'), (5, 'medium')",
            "22P02",
        ),
        ("INSERT INTO thing (nr, p) VALUES (6, 1), (7, 100)", "23514"),
        (
            "INSERT INTO thing (nr, c) VALUES (8, 'ok'), (9, 'too long')",
            "22001",
        ),
        (
            "INSERT INTO thing (nr, u) VALUES (10, NULL), (11, 'no uuid')",
            "22P02",
        ),
    ] {
        assert_eq!(site.fails(bad), state, "{bad}");
    }
    assert_eq!(site.rows("SELECT count(*) FROM thing"), ["3"]);
}

/// P28: the user's settings for dates, intervals and floats neither reach the values nor are changed.
#[test]
fn p28_settings_do_not_reach_the_values() {
    let mut site = Site::new();
    let columns =
        "nr int, f float8, g float4, d date, ts timestamp, tz timestamptz, i interval, b bytea, \
                   fs float8[], r tsrange, c regclass, m money";
    site.table("sample", columns, "");
    site.tag(&format!("CREATE TABLE model ({columns})"));
    site.tag(
        "INSERT INTO model VALUES
         (1, 2.0/3, 2.0/3, '2024-05-06', '2024-05-06 07:08:09.000001', '2024-05-06 07:08:09+05:30',
          '-2 days -03:04:05', '\\x00275cff', ARRAY[0.1, 'NaN', 5e-324], '[2024-05-06,2024-06-05)', 'pg_class', 1234.5),
         (2, 'infinity', '-0', '-infinity', 'infinity', '-infinity', '1 mon -1 day +00:00:01', '', '{}', 'empty', NULL, -0.01)",
    );
    let odd = [
        ("extra_float_digits", "-7"),
        ("datestyle", "SQL, DMY"),
        ("intervalstyle", "sql_standard"),
        ("timezone", "Asia/Kolkata"),
        ("bytea_output", "escape"),
        ("search_path", "public"),
    ];
    for (name, value) in odd {
        site.tag(&format!("SET {name} = '{value}'"));
    }
    site.tag("INSERT INTO sample SELECT * FROM model");
    site.tag("UPDATE sample SET f = m.f, i = m.i, tz = m.tz, fs = m.fs FROM model m WHERE m.nr = sample.nr AND random() < 2");
    assert_eq!(site.fails("SELECT 1 / 0"), "22012");
    // Also after an error within the sending of rows.
    assert_eq!(
        site.fails(
            "INSERT INTO sample (nr, i) SELECT 1 / (g - 3), '1 day' FROM generate_series(1, 5) g"
        ),
        "22012"
    );
    site.tag("INSERT INTO sample SELECT nr + 10, f, g, d, ts, tz, i, b, fs, r, c, m FROM model");
    for (name, value) in odd {
        assert_eq!(site.main.value(&format!("SHOW {name}")), value);
    }
    site.tag("RESET ALL");
    let there = "SELECT nr % 10, f, g, d, ts, tz, i, b, fs, r, c, m FROM sample ORDER BY nr";
    let here = site.rows("SELECT * FROM model ORDER BY nr");
    let twice: Vec<String> = here.iter().chain(&here).cloned().collect();
    assert_eq!(site.north.run(there).lines(), twice);
    assert_eq!(site.rows(there), twice);
}

/// P50: a shard of another encoding stores letters, not bytes, and refuses what it has no letter for.
#[test]
fn p50_a_shard_of_another_encoding() {
    let shard = Setup::new().initdb("--encoding=LATIN1").start();
    let mut site = Site::new();
    let mut remote = shard.simple();
    remote
        .run("CREATE TABLE dish (nr int, name varchar(6))")
        .expect_ok();
    site.tag(&crate::common::create_server("latin", shard.port(), ""));
    site.tag("CREATE FOREIGN TABLE dish (nr int, name varchar(6)) SERVER latin OPTIONS (schema_name 'public')");
    let rows = "INSERT INTO dish VALUES (1, 'crème'), (2, 'soufflé'::varchar(6)), (3, 'ÿþýüûú')";
    assert_eq!(site.tag(rows), "INSERT 0 3");
    let error = site
        .main
        .run("INSERT INTO dish VALUES (4, 'fine'), (5, '寿司')")
        .expect_error();
    assert_eq!(error.sqlstate(), "22P05");
    assert!(
        error.context().contains("foreign table \"dish\""),
        "{error:?}"
    );
    let copy = site
        .copy("COPY dish FROM STDIN", "6\tpâté\n7\t€ 5\n")
        .expect_error();
    assert_eq!(copy.sqlstate(), "22P05");
    assert_eq!(
        site.copy("COPY dish FROM STDIN", "8\tpâté\n").tag(),
        "COPY 1"
    );
    site.tag("UPDATE dish SET name = 'ÄÖÜ' WHERE nr = 1 AND random() < 2");
    assert_eq!(
        site.rows("SELECT nr, name, length(name) FROM dish ORDER BY nr"),
        ["1|ÄÖÜ|3", "2|souffl|6", "3|ÿþýüûú|6", "8|pâté|4"]
    );
    assert_eq!(
        remote
            .run("SELECT octet_length(name) FROM dish ORDER BY nr")
            .lines(),
        ["3", "6", "6", "4"]
    );
}
