//! Interrupts inside blocks that catch them, while rows of an outer level are on their way.

mod common;

use common::*;

/// A coordinator with foreign table `t` on a shard behind a proxy.
struct Scene {
    client: Simple,
    proxy: Proxy,
    shard: Cluster,
    coordinator: Cluster,
}

impl Scene {
    fn new(more: &str) -> Scene {
        let coordinator = Cluster::start();
        let shard = Cluster::start();
        shard.sql("CREATE TABLE t (id int PRIMARY KEY, note text)");
        let proxy = Proxy::to(shard.port());
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw;
                 {}
                 CREATE FOREIGN TABLE t (id int, note text) SERVER shard OPTIONS (schema_name 'public');
                 {more}
                 SELECT count(*) FROM t;",
                create_server("shard", proxy.port(), "")
            ))
            .expect_ok();
        proxy.reset();
        Scene {
            client,
            proxy,
            shard,
            coordinator,
        }
    }

    /// How many statements that begin with `text` the shard has been sent.
    fn sent(&self, text: &str) -> usize {
        let queries = self.proxy.queries();
        queries.iter().filter(|sql| sql.starts_with(text)).count()
    }

    /// What the shard has.
    fn rows(&self) -> String {
        self.shard
            .value("SELECT string_agg(id || note, ',' ORDER BY id) FROM t")
    }

    fn wait_until_sent(&self, text: &str, count: usize) {
        wait_until(&format!("{count} times {text}"), || {
            self.sent(text) >= count
        });
    }
}

/// Reads the foreign table in a block of its own, which catches a cancel.
const CATCHING: &str = "
    CREATE FUNCTION caught() RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM count(*) FROM t;
        RETURN 'not canceled';
    EXCEPTION WHEN query_canceled THEN
        RETURN 'canceled';
    END $$;";

const INSERT: &str = "INSERT INTO t SELECT i, CASE i WHEN 3 THEN caught() ELSE '' END \
    FROM generate_series(1, 5) AS i";

/// Sends [`INSERT`], cancels it when it waits for the answer to rows 1 and 2, and lets the shard answer when the rest has
/// been sent.
fn insert_and_cancel(scene: &mut Scene) -> Reply {
    scene
        .client
        .run("BEGIN; INSERT INTO t VALUES (0, '')")
        .expect_ok();
    scene.proxy.reset();
    scene.proxy.stall_from(Side::Shard);
    scene.client.send(INSERT);
    scene.wait_until_sent("INSERT", 1);
    scene.coordinator.cancel_backend(scene.client.pid());
    scene.wait_until_sent("INSERT", 2);
    assert_eq!(scene.sent("SAVEPOINT"), 0);
    scene.proxy.resume();
    scene.client.receive()
}

#[test]
fn rows_whose_drain_is_interrupted_arrive_once() {
    let mut scene = Scene::new(CATCHING);
    let reply = insert_and_cancel(&mut scene);
    assert_eq!(reply.tag(), "INSERT 0 5");
    scene.client.run("COMMIT").expect_ok();
    assert_eq!(scene.rows(), "0,1,2,3canceled,4,5");
}

#[test]
fn bad_rows_whose_drain_is_interrupted_fail_their_own_statement() {
    let mut scene = Scene::new(CATCHING);
    scene.shard.sql("INSERT INTO t VALUES (2, 'old')");
    let error = insert_and_cancel(&mut scene).expect_error();
    assert_eq!(error.sqlstate(), "23505");
    assert!(error.context().contains("rows 1 to 2"), "{error:?}");
    assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
    assert_eq!(scene.rows(), "2old");
}
