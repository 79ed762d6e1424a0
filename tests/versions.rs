//! Shards of all supported versions.

mod common;

use common::*;

/// Types whose values travel in binary form, each with extremes.
const VALUES: &str = "
    (true, '\\x00ff', 'name', 9223372036854775807, -32768, -2147483648, 'text é', 4294967295, '{\"a\": 1}', '-Infinity',
     'NaN', '192.168.1.5/24', 'ab ', 'varchar', 'infinity', '24:00:00', '-infinity', '4713-01-01 00:00:00+00 BC',
     '-177999999 years -1 mons -30 days 500000:00:54.775807', 'NaN', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '{\"a\": null}'),
    (false, '', '', -9223372036854775808, 32767, 2147483647, '', 0, 'null', '3.4028235e+38',
     '5e-324', '::ffff:1.2.3.4/128', '   ', '', '4713-01-01 BC', '00:00:00', '294276-12-31 23:59:59.999999', 'infinity',
     '-1 day +02:03:04.5', '-0.000000000000000000000000000000000001', '00000000-0000-0000-0000-000000000000', '[]'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     'Infinity', NULL, NULL)";

const COLUMNS: &str = "(c_bool bool, c_bytea bytea, c_name name, c_int8 int8, c_int2 int2, c_int4 int4, c_text text,
    c_oid oid, c_json json, c_float4 float4, c_float8 float8, c_inet inet, c_bpchar char(3), c_varchar varchar(9),
    c_date date, c_time time, c_timestamp timestamp, c_timestamptz timestamptz, c_interval interval, c_numeric numeric,
    c_uuid uuid, c_jsonb jsonb)";

/// Types of which few people have a column.
const RARE_VALUES: &str = "
    ('x', '(4294967295,65535)', '4294967295', '4294967295', '18446744073709551615', 'FFFFFFFF/FFFFFFFF', '10:20:10,14,15',
     '10:20:', '24:00:00-15:59:59', '10110', '101101101', 'cursor', '$.a[*] ? (@ > 1)', '''a'':1A,2 ''é''', '10.1.0.0/16',
     '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '(1,-2)', '[(1,2),(3,4)]', '(1,2),(3,4)', '{1,-1,0.5}', '<(1,2),0>',
     '[(1,2),(-Infinity,4)]', '((0,0),(1,1.5),(2,-7))', '[-5,7)', '(,9223372036854775806]', '[2020-01-01,infinity)',
     '[1.50,)', '(,2020-01-01 00:00]', '[-infinity,2020-01-01 00:00+00)', '{[1,2],[5,6]}', '{(,7]}', '{}',
     '{[0.10,0.2)}', '{[2020-01-01 00:00,)}', '{(,)}'),
    ('', '(0,0)', '0', '0', '0', '0/0', '1:1:', '1:1:', '00:00:00+15:59:59', '00000', '', '', 'strict $', '', '::/0',
     '00:00:00:00:00:00', 'ff:ff:ff:ff:ff:ff:ff:ff', '(NaN,5e-324)', '[(0,0),(0,0)]', '(0,0),(0,0)', '{0,-1,NaN}',
     '<(0,0),Infinity>', '((1,2))', '((1,2))', 'empty', 'empty', '(,)', '(-Infinity,Infinity)', 'empty', 'empty', '{}',
     '{}', '{(,)}', '{}', '{}', '{}')";

const RARE_COLUMNS: &str = "(c_char \"char\", c_tid tid, c_xid xid, c_cid cid, c_xid8 xid8, c_pg_lsn pg_lsn,
    c_pg_snapshot pg_snapshot, c_txid_snapshot txid_snapshot, c_timetz timetz, c_bit bit(5), c_varbit varbit,
    c_refcursor refcursor, c_jsonpath jsonpath, c_tsvector tsvector, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
    c_point point, c_lseg lseg, c_box box, c_line line, c_circle circle, c_path path, c_polygon polygon,
    c_int4range int4range, c_int8range int8range, c_daterange daterange, c_numrange numrange, c_tsrange tsrange,
    c_tstzrange tstzrange, c_int4multirange int4multirange, c_int8multirange int8multirange,
    c_datemultirange datemultirange, c_nummultirange nummultirange, c_tsmultirange tsmultirange,
    c_tstzmultirange tstzmultirange)";

#[test]
fn values_mean_the_same_to_shards_of_each_version() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    client
        .run(&format!(
            "CREATE EXTENSION shard_fdw; SET TIME ZONE 'UTC';
             CREATE TABLE here {COLUMNS}; INSERT INTO here VALUES {VALUES};
             CREATE TABLE rare {RARE_COLUMNS}; INSERT INTO rare VALUES {RARE_VALUES}"
        ))
        .expect_ok();
    for major in shard_majors() {
        let shard = Setup::of_major(major).set("timezone", "UTC").start();
        shard.sql("CREATE TABLE spans (i interval)");
        let server = create_server(&format!("s{major}"), shard.port(), "");
        client
            .run(&format!(
                "{server}; CREATE FOREIGN TABLE spans{major} (i interval) SERVER s{major}
                     OPTIONS (schema_name 'public', table_name 'spans')"
            ))
            .expect_ok();
        for (table, columns) in [("here", COLUMNS), ("rare", RARE_COLUMNS)] {
            same_values(&mut client, &shard, major, table, columns);
        }
        infinite_intervals(&mut client, &shard, major);
    }
}

/// Sends the rows of a table, and reads them on the shard and from it.
fn same_values(client: &mut Simple, shard: &Cluster, major: u16, table: &str, columns: &str) {
    let local = client.run(&format!("SELECT * FROM {table}")).lines();
    shard.sql(&format!("CREATE TABLE {table} {columns}"));
    client
        .run(&format!(
            "CREATE FOREIGN TABLE {table}{major} {columns} SERVER s{major}
                 OPTIONS (schema_name 'public', table_name '{table}')"
        ))
        .expect_ok();
    for transport in ["ADD transport 'copy'", "SET transport 'insert'"] {
        let insert = format!(
            "ALTER FOREIGN TABLE {table}{major} OPTIONS ({transport}); DELETE FROM {table}{major};
             INSERT INTO {table}{major} SELECT * FROM {table}"
        );
        let sent = format!("INSERT 0 {}", local.len());
        assert_eq!(client.run(&insert).tag(), sent);
        let stored = shard.simple().run(&format!("SELECT * FROM {table}"));
        assert_eq!(stored.lines(), local, "{major}, {transport}");
        let select = format!("SELECT * FROM {table}{major}");
        assert_eq!(client.run(&select).lines(), local, "{major}, {transport}");
    }
}

/// Older shards must refuse what they do not know, not take it for something else.
fn infinite_intervals(client: &mut Simple, shard: &Cluster, shard_major: u16) {
    if major() < 17 {
        return;
    }
    let insert =
        format!("INSERT INTO spans{shard_major} VALUES ('1 day'), ('infinity'), ('-infinity')");
    let reply = client.run(&insert);
    let stored = shard.value("SELECT string_agg(i::text, ',') FROM spans");
    if shard_major < 17 {
        assert_eq!(reply.expect_error().sqlstate(), "22008");
        assert_eq!(stored, "");
    } else {
        assert_eq!(reply.tag(), "INSERT 0 3");
        assert_eq!(stored, "1 day,infinity,-infinity");
    }
}

/// The question about COPY is understood, its lock can be had with the privilege to INSERT, and errors name their rows.
#[test]
fn shards_of_each_version_take_copy() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    client
        .run("CREATE EXTENSION shard_fdw; SET shard_fdw.copy_rows = 1")
        .expect_ok();
    for major in shard_majors() {
        let shard = Setup::of_major(major).start();
        shard.sql(
            "CREATE ROLE writer LOGIN; CREATE TABLE plain (id int, v text[], CHECK (id <> -7));
             CREATE TABLE parted (id int, v text[], CHECK (id <> -7)) PARTITION BY RANGE (id);
             CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (700); CREATE TABLE part2 PARTITION OF parted DEFAULT;
             GRANT INSERT ON plain, parted TO writer",
        );
        let proxy = Proxy::to(shard.port());
        client
            .run(&format!(
                "{}; ALTER USER MAPPING FOR CURRENT_USER SERVER s{major} OPTIONS (SET user 'writer', ADD password_required 'false')",
                create_server(&format!("s{major}"), proxy.port(), "batch_size '50', batch_bytes '2kB'")
            ))
            .expect_ok();
        for table in ["plain", "parted"] {
            client
                .run(&format!(
                    "CREATE FOREIGN TABLE {table}{major} (id int, v text[]) SERVER s{major}
                         OPTIONS (schema_name 'public', table_name '{table}')"
                ))
                .expect_ok();
            proxy.reset();
            let load = format!("INSERT INTO {table}{major} SELECT g, ARRAY[g::text, NULL] FROM generate_series(1, 20000) g");
            assert_eq!(client.run(&load).tag(), "INSERT 0 20000", "{major}");
            let queries = proxy.queries();
            assert!(
                queries.iter().any(|query| query.starts_with("COPY")),
                "{major}: {queries:?}"
            );
            let stored = format!("SELECT count(*), sum(id) FROM {table} WHERE v[1] = id::text");
            assert_eq!(
                shard.simple().run(&stored).lines(),
                ["20000|200010000"],
                "{major}"
            );
            let error = client
                .run(&load.replace("SELECT g,", "SELECT CASE g WHEN 19876 THEN -7 ELSE g END,"))
                .expect_error();
            assert_eq!(error.sqlstate(), "23514", "{major}: {error:?}");
            let place = format!("foreign table \"{table}{major}\", row 19876\n");
            assert!(error.context().contains(&place), "{major}: {error:?}");
        }
    }
}
