//! A coordinator with two shards, all databases of one server.

use crate::common::{create_server, Cluster, Reply, Setup, Simple};

pub struct Site {
    pub cluster: Cluster,
    /// The coordinator, with servers `north` and `south`.
    pub main: Simple,
    /// The database of server `north`.
    pub north: Simple,
    /// The database of server `south`.
    pub south: Simple,
}

impl Site {
    /// The options of both servers, as `batch_size '50'`.
    pub fn with(options: &str) -> Site {
        Site::on(Setup::new(), options)
    }

    pub fn on(setup: Setup, options: &str) -> Site {
        let cluster = setup.start();
        let mut main = cluster.simple();
        for sql in [
            "CREATE DATABASE north",
            "CREATE DATABASE south",
            "CREATE EXTENSION shard_fdw",
        ] {
            main.run(sql).expect_ok();
        }
        for name in ["north", "south"] {
            let sql = create_server(name, cluster.port(), options)
                .replace("dbname 'postgres'", &format!("dbname '{name}'"));
            main.run(&sql).expect_ok();
        }
        Site {
            north: cluster.simple_as("north", "postgres"),
            south: cluster.simple_as("south", "postgres"),
            main,
            cluster,
        }
    }

    pub fn new() -> Site {
        Site::with("batch_size '20'")
    }

    /// Creates a table on `north` and the foreign table of the same columns.
    pub fn table(&mut self, name: &str, columns: &str, constraints: &str) {
        self.north
            .run(&format!("CREATE TABLE {name} ({columns}{constraints})"))
            .expect_ok();
        self.main
            .run(&format!(
                "CREATE FOREIGN TABLE {name} ({columns}) SERVER north OPTIONS (schema_name 'public')"
            ))
            .expect_ok();
    }

    /// Creates a table partitioned by list over its column `k`: 1 is on `north`, 2 on `south`, and 3 here.
    pub fn partitioned(&mut self, name: &str, columns: &str, constraints: &str) {
        let stored = |number: u8| format!("CREATE TABLE {name}_{number} ({columns}{constraints})");
        self.north.run(&stored(1)).expect_ok();
        self.south.run(&stored(2)).expect_ok();
        self.main
            .run(&format!(
                "CREATE TABLE {name} ({columns}) PARTITION BY LIST (k);
                 CREATE FOREIGN TABLE {name}_1 PARTITION OF {name} FOR VALUES IN (1) \
                 SERVER north OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE {name}_2 PARTITION OF {name} FOR VALUES IN (2) \
                 SERVER south OPTIONS (schema_name 'public');
                 CREATE TABLE {name}_3 PARTITION OF {name} FOR VALUES IN (3)"
            ))
            .expect_ok();
    }

    /// Runs a statement on the coordinator that must succeed; returns its command tag.
    #[track_caller]
    pub fn tag(&mut self, sql: &str) -> String {
        self.main.run(sql).tag().to_string()
    }

    /// Runs a COPY with its data.
    #[track_caller]
    pub fn copy(&mut self, copy: &str, data: &str) -> Reply {
        self.main.copy_in(copy, data.as_bytes())
    }

    /// The rows of a query on the coordinator, values separated by `|`.
    #[track_caller]
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        self.main.run(sql).lines()
    }

    /// SQLSTATE of a statement that must fail.
    #[track_caller]
    pub fn fails(&mut self, sql: &str) -> String {
        self.main.run(sql).expect_error().sqlstate().to_string()
    }
}
