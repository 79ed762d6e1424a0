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

#[test]
fn values_mean_the_same_to_shards_of_each_version() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    client
        .run(&format!(
            "CREATE EXTENSION shard_fdw; SET TIME ZONE 'UTC';
             CREATE TABLE here {COLUMNS}; INSERT INTO here VALUES {VALUES};"
        ))
        .expect_ok();
    let local = client.run("SELECT * FROM here").lines();
    for major in shard_majors() {
        let shard = Setup::of_major(major).set("timezone", "UTC").start();
        shard.sql(&format!(
            "CREATE TABLE there {COLUMNS}; CREATE TABLE spans (i interval)"
        ));
        let server = format!("s{major}");
        client
            .run(&format!(
                "{}
                 CREATE FOREIGN TABLE there{major} {COLUMNS} SERVER {server}
                     OPTIONS (schema_name 'public', table_name 'there');
                 CREATE FOREIGN TABLE spans{major} (i interval) SERVER {server}
                     OPTIONS (schema_name 'public', table_name 'spans');",
                create_server(&server, shard.port(), "")
            ))
            .expect_ok();
        let insert = format!("INSERT INTO there{major} SELECT * FROM here");
        assert_eq!(client.run(&insert).tag(), "INSERT 0 3");
        assert_eq!(
            shard.simple().run("SELECT * FROM there").lines(),
            local,
            "{major}"
        );
        let select = format!("SELECT * FROM there{major}");
        assert_eq!(client.run(&select).lines(), local, "{major}");
        infinite_intervals(&mut client, &shard, major);
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
