//! PL/pgSQL drawn at random: functions that write and call each other, loops that catch errors, cursors over tables that
//! their loop writes to, and tables that the shard refuses to read or write.

use crate::random::Author;

/// Functions for the programs; the second catches what the first does.
pub const FUNCTIONS: &str = "
CREATE FUNCTION add(a_k bigint, a_id bigint, a_n numeric) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t VALUES (a_k, a_id, 'added', a_n);
    INSERT INTO u SELECT a_id + g, 'added' FROM generate_series(0, 2) g;
    RETURN (SELECT count(*) FROM u);
END $$;
CREATE FUNCTION try_add(a_k bigint, a_id bigint, a_n numeric) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN add(a_k, a_id, a_n);
EXCEPTION WHEN OTHERS THEN
    INSERT INTO t VALUES (2, a_id, SQLSTATE, 1);
    RETURN SQLSTATE;
END $$;
";

/// Tables that cannot be used, as views of the side with local tables: they fail where the shard does.
pub const REFUSED_LOCALLY: &str = "
DROP SCHEMA IF EXISTS refused CASCADE;
CREATE SCHEMA refused;
CREATE FUNCTION refused.scan(state text) RETURNS TABLE (id int, v text) LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = state; END $$;
CREATE FUNCTION refused.row() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0]; END $$;
CREATE VIEW refused.no_table AS SELECT id, v FROM refused.scan('42P01');
CREATE VIEW refused.no_column AS SELECT id, v FROM refused.scan('42703');
CREATE VIEW refused.no_right AS SELECT id, v FROM refused.scan('42501');
CREATE TRIGGER a INSTEAD OF INSERT OR UPDATE OR DELETE ON refused.no_table FOR EACH ROW EXECUTE FUNCTION refused.row('42P01');
CREATE TRIGGER a INSTEAD OF INSERT OR UPDATE OR DELETE ON refused.no_column FOR EACH ROW EXECUTE FUNCTION refused.row('42703');
CREATE TRIGGER a INSTEAD OF INSERT OR UPDATE OR DELETE ON refused.no_right FOR EACH ROW EXECUTE FUNCTION refused.row('42501');
";

/// The same as foreign tables, and what they need on shard s1.
pub const REFUSED_BY_SHARD: &str = "
DROP SCHEMA IF EXISTS refused CASCADE;
CREATE SCHEMA refused;
CREATE FOREIGN TABLE refused.no_table (id int, v text) SERVER s1 OPTIONS (schema_name 'w', table_name 'nowhere');
CREATE FOREIGN TABLE refused.no_column (id int, v text OPTIONS (column_name 'bay')) SERVER s1
    OPTIONS (schema_name 'w', table_name 'u');
CREATE FOREIGN TABLE refused.no_right (id int, v text) SERVER s1 OPTIONS (schema_name 'w');
";
pub const REFUSING_SHARD: &str = "
CREATE TABLE w.secret (id int, v text);
CREATE VIEW w.no_right AS SELECT id, v FROM w.secret;
ALTER VIEW w.no_right OWNER TO alice;
";

/// What they fail with.
pub const REFUSED: [&str; 3] = ["42P01", "42703", "42501"];

impl Author {
    /// An anonymous block.
    pub fn program(&mut self) -> String {
        let body = self.sequence(3);
        format!(
            "DO $$ DECLARE total bigint; i bigint; caught int := 0; r record; q record; c refcursor; d1 refcursor; d2 refcursor; d3 refcursor; BEGIN {body} \
             SELECT count(*) INTO total FROM t; RAISE NOTICE '% rows, % caught', total, caught; END $$"
        )
    }

    fn sequence(&mut self, depth: u64) -> String {
        let length = 1 + self.dice.below(3);
        (0..length).map(|_| self.piece(depth)).collect()
    }

    fn piece(&mut self, depth: u64) -> String {
        match self.dice.below(if depth == 0 { 4 } else { 11 }) {
            0 => self.write(),
            1 => self.writing_query(),
            2 => self.write_loop(),
            3 => self.cursor(),
            4 | 5 => self.caught(depth - 1),
            6 | 7 => self.refused(depth),
            _ => self.read_loop(depth - 1),
        }
    }

    /// A statement that the shard refuses, if it is not a scan that nobody reads.
    pub fn refused_statement(&mut self) -> String {
        let table = ["no_table", "no_column", "no_right"][self.dice.below(3) as usize];
        // A view has no ctid, which would be another error, and the column that is missing has to be named.
        let place = ["no_table", "no_column"][self.dice.below(2) as usize];
        match self.dice.below(7) {
            0 => format!("UPDATE refused.{place} SET v = 'x' WHERE random() < 2"),
            1 => format!("UPDATE refused.{place} SET v = 'x'"),
            2 => format!("DELETE FROM refused.{place} WHERE v > '' AND random() < 2"),
            // Under flush policy `transaction` the error would come later.
            3 if !self.flawless => format!("INSERT INTO refused.{table} VALUES (1, 'x')"),
            4 => format!("INSERT INTO u SELECT id, v FROM refused.{table}"),
            _ => format!("SELECT count(v) FROM refused.{table}"),
        }
    }

    /// The same in a block of its own, more often than not, with scans of outer levels that wait.
    fn refused(&mut self, depth: u64) -> String {
        let sql = self.refused_statement();
        let (before, after) = (self.write(), self.write());
        let from = self.dice.below(self.next_id + 1);
        let table = ["no_table", "no_column", "no_right"][self.dice.below(3) as usize];
        match self.dice.below(5) {
            // A cursor that cannot be read, opened outside and read inside.
            0 => format!(
                "OPEN d{depth} FOR SELECT id FROM refused.{table} WHERE v > ''; {before} \
                 BEGIN {after} FETCH d{depth} INTO i; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; \
                 CLOSE d{depth}; "
            ),
            // One that can, first read below.
            1 => format!(
                "OPEN d{depth} FOR SELECT id FROM t WHERE id >= {from} ORDER BY id, k; {before} \
                 BEGIN {after} FETCH d{depth} INTO i; {}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; \
                 FETCH d{depth} INTO i; RAISE NOTICE 'at %', i; CLOSE d{depth}; ",
                performed(&sql)
            ),
            // Rows come before the error.
            2 => format!(
                "BEGIN FOR r IN SELECT id FROM t WHERE id BETWEEN {from} AND {} UNION ALL SELECT id FROM refused.{table} WHERE v > '' LOOP \
                 {} END LOOP; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; ",
                from + 30,
                catching("UPDATE u SET v = 'r' WHERE id = r.id")
            ),
            3 => format!("{}; ", performed(&sql)),
            _ => format!(
                "{before} BEGIN {after} {}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; ",
                performed(&sql)
            ),
        }
    }

    fn write(&mut self) -> String {
        let sql = match self.dice.below(3) {
            0 => self.insert(),
            1 => self.insert_query(),
            _ => self.update(),
        };
        let sql = sql.replace(" RETURNING k, id", "");
        format!("{sql}; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '%', total; ")
    }

    /// A change of a few rows.
    fn update(&mut self) -> String {
        let from = self.dice.below(self.next_id + 1);
        let some = format!("id BETWEEN {from} AND {}", from + self.dice.below(50));
        match self.dice.below(4) {
            0 => format!("UPDATE t SET n = n + 1 WHERE {some}"),
            1 => format!("UPDATE t SET v = v || '!' WHERE {some} AND random() < 2"),
            2 => format!("DELETE FROM t WHERE {some} AND n > 100"),
            _ => format!("UPDATE u SET v = 'p' WHERE {some}"),
        }
    }

    /// A statement that writes, and so do the functions it calls.
    fn writing_query(&mut self) -> String {
        let first = self.span();
        let count = self.dice.below(12);
        // Some have no leaf, some break a CHECK, some a key.
        let call = |g: &str, keys: u64| {
            format!("try_add({g} % 6, {first} + 100 + 3 * ({g} % {keys}), CASE {g} WHEN 3 THEN 1000000 ELSE {g} END)")
        };
        let keys = 4 + self.dice.below(10);
        let each = call("g", keys);
        let rows = format!("FROM generate_series(1, {count}) g");
        match self.dice.below(4) {
            0 => format!("PERFORM {each} {rows}; "),
            1 => format!("INSERT INTO u SELECT {first} + g, {each} {rows}; "),
            // One row: of several, a join decides which is the first.
            2 => format!(
                "UPDATE t SET v = {} WHERE id = {}; ",
                call(&count.to_string(), keys),
                self.dice.below(first)
            ),
            _ => format!("INSERT INTO t SELECT g % 5, {first} + g, {each}, g {rows}; "),
        }
    }

    /// Single rows, whose errors are caught one by one.
    fn write_loop(&mut self) -> String {
        let first = self.span();
        let count = self.dice.below(15);
        let same = 3 + self.dice.below(10);
        let write = match self.dice.below(3) {
            0 => format!("INSERT INTO t VALUES (i % 6, {first} + i % {same}, 'w', i)"),
            1 => format!("INSERT INTO u VALUES ({first} + i % {same}, 'w')"),
            _ => format!("PERFORM add(i % 5, {first} + i % {same}, i * 200000)"),
        };
        format!("FOR i IN 1..{count} LOOP {} END LOOP; ", catching(&write))
    }

    /// Writes what it reads: to the rows read, and to the tables they come from.
    fn read_loop(&mut self, depth: u64) -> String {
        let first = self.span();
        let from = self.dice.below(first);
        let order = ["ORDER BY id, k", "ORDER BY n, id, k"][self.dice.below(2) as usize];
        let body = self.dice.below(7);
        // Where it makes no difference, the order may be any.
        let order = match body {
            0 | 1 | 5 if self.dice.one_in(2) => "",
            _ => order,
        };
        let (name, query) = match depth % 2 {
            0 => ("r", format!("SELECT id, k, n FROM t WHERE id BETWEEN {from} AND {} {order}", from + 40)),
            _ => ("q", format!("SELECT t.id, t.k, t.n FROM t LEFT JOIN u USING (id) WHERE t.id BETWEEN {from} AND {} {order}", from + 20)),
        };
        let write = match body {
            0 => format!("UPDATE t SET n = n + 1 WHERE id = {name}.id"),
            1 => format!("DELETE FROM t WHERE id = {name}.id AND k = {name}.k"),
            2 => format!("INSERT INTO t VALUES ({name}.k, {first} + {name}.id % 300, 'l', CASE WHEN {name}.id % 4 = 0 THEN 1000000 ELSE 1 END)"),
            3 => format!("INSERT INTO u VALUES ({first} + {name}.id % 6, 'l')"),
            4 => format!("PERFORM try_add({name}.k, {first} + 3 * ({name}.id % 200), {name}.n)"),
            5 => format!("UPDATE t SET k = 2 WHERE id = {name}.id AND k = 4"),
            _ => format!("UPDATE u SET v = {name}.n::text WHERE id = {name}.id"),
        };
        let written = if self.dice.one_in(2) {
            catching(&write)
        } else {
            format!("{write};")
        };
        // Inner loops over the same table, now and then.
        let inner = if depth == 1 && self.dice.one_in(3) {
            self.read_loop(0)
        } else {
            String::new()
        };
        format!("FOR {name} IN {query} LOOP {written} {inner} END LOOP; ")
    }

    /// A cursor that is read before and after something is written.
    fn cursor(&mut self) -> String {
        let from = self.dice.below(self.next_id + 1);
        let query = format!("SELECT id FROM t WHERE id >= {from} ORDER BY id, k");
        let mut sql = format!("OPEN c FOR {query}; FETCH c INTO i; RAISE NOTICE 'at %', i; ");
        for _ in 0..1 + self.dice.below(3) {
            let step = self.dice.below(9);
            let write = self.write();
            sql.push_str(&format!(
                "{write} MOVE FORWARD {step} FROM c; FETCH c INTO i; RAISE NOTICE 'at %', i; "
            ));
        }
        sql + "CLOSE c; "
    }

    fn caught(&mut self, depth: u64) -> String {
        let inner = self.sequence(depth);
        let raise = match self.dice.below(4) {
            0 => "RAISE EXCEPTION 'undone';",
            _ => "",
        };
        format!(
            "BEGIN {inner} {raise} EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; "
        )
    }

    /// The first of many ids that nothing has used.
    fn span(&mut self) -> u64 {
        let first = self.next_id + 1;
        self.next_id += 1000;
        first
    }
}

/// As PL/pgSQL has it.
fn performed(sql: &str) -> String {
    match sql.strip_prefix("SELECT ") {
        Some(rest) => format!("PERFORM {rest}"),
        None => sql.to_string(),
    }
}

fn catching(write: &str) -> String {
    format!("BEGIN {write}; EXCEPTION WHEN OTHERS THEN caught := caught + 1; END;")
}
