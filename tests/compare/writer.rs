//! Statements drawn at random for the schemas of `schema.rs`.
//!
//! A failing statement holds errors of one SQLSTATE. Left out are what core refuses for foreign tables, constraints that are
//! checked at the end of a statement, and joins whose outcome depends on the order of rows.

use crate::random::Dice;
use crate::schema::{Root, Schema};

/// Writes statements for one schema.
pub struct Writer<'a> {
    dice: Dice,
    schema: &'a Schema,
    next_id: u64,
    savepoints: u64,
    /// Names of the savepoints that are open.
    open: Vec<u64>,
    prepared: u64,
    /// Statements that have to come next.
    queue: Vec<String>,
    is_in_transaction: bool,
}

impl Writer<'_> {
    pub fn new(dice: Dice, schema: &Schema) -> Writer<'_> {
        Writer {
            dice,
            schema,
            next_id: 0,
            savepoints: 0,
            open: Vec::new(),
            prepared: 0,
            queue: Vec::new(),
            is_in_transaction: false,
        }
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.dice.below(from.len() as u64) as usize]
    }

    /// A table, and another one to read from.
    fn roots(&mut self) -> (Root, Root) {
        let count = self.schema.roots.len() as u64;
        let target = self.dice.below(count);
        let source = (target + 1 + self.dice.below(count - 1)) % count;
        (
            self.schema.roots[target as usize].clone(),
            self.schema.roots[source as usize].clone(),
        )
    }

    /// What a statement names: the table, now and then one of its leaves or its view.
    fn name_of(&mut self, root: &Root) -> String {
        match (self.dice.below(8), &root.view) {
            (0, _) => self.pick(&root.leaves).0.clone(),
            (1, Some(view)) => view.clone(),
            _ => root.name.clone(),
        }
    }

    fn value(&mut self, column: &str, id: u64) -> String {
        if !matches!(column, "id" | "k" | "j" | "n") && self.dice.one_in(6) {
            return "NULL".to_string();
        }
        let small = self.dice.below(10);
        match column {
            "id" => id.to_string(),
            "k" | "j" => small.to_string(),
            "s" => format!("'{}{id}'", self.pick(&["v", "", "it''s ", "\\", "é"])),
            "n" => (self.dice.below(3000) as f64 / 4.0).to_string(),
            "b" => (id * 4_000_000_000).to_string(),
            "d" => format!("'2024-02-{:02}'", 10 + small),
            "a" => format!("ARRAY[{id}, NULL, {small}]"),
            "f" => format!("{small}.125"),
            "o" => (small % 2 == 0).to_string(),
            "c" => format!("'c{small}'"),
            _ => format!("'2024-02-29 1{small}:00'"),
        }
    }

    fn insert(&mut self) -> String {
        let (root, source) = self.roots();
        let target = self.name_of(&root);
        let mut columns: Vec<&str> = vec!["id", "k", "j", "n"];
        for column in &root.columns {
            if !columns.contains(column) && !self.dice.one_in(3) {
                columns.push(column);
            }
        }
        let rest = format!("INSERT INTO {target} ({})", columns.join(", "));
        let end = match self.dice.below(8) {
            0 | 1 => format!(" RETURNING {}", self.returning(&target, &root)),
            2 => " ON CONFLICT DO NOTHING".to_string(),
            3 if target == root.name => " ON CONFLICT DO NOTHING RETURNING id".to_string(),
            _ => String::new(),
        };
        let first = self.next_id + 1;
        if self.dice.one_in(3) {
            let count = self.dice.below(60);
            self.next_id += 100;
            let from_table = self.dice.one_in(2);
            let list: Vec<String> = columns
                .iter()
                .map(|column| match (*column, from_table) {
                    ("id", true) => format!("{first} + row_number() OVER (ORDER BY id, k, j)"),
                    ("id", false) => format!("g + {first}"),
                    ("k", true) => "(k + 1) % 10".to_string(),
                    ("k", false) => "g % 10".to_string(),
                    ("j", true) => "j".to_string(),
                    ("j", false) => "g / 7 % 10".to_string(),
                    ("n", true) => "n".to_string(),
                    ("n", false) => "g".to_string(),
                    (other, true) if source.has(other) => other.to_string(),
                    (other, _) => self.value(other, first),
                })
                .collect();
            let list = list.join(", ");
            return match from_table {
                true => {
                    let low = self.dice.below(first);
                    format!(
                        "{rest} SELECT {list} FROM {} WHERE id BETWEEN {low} AND {}{end}",
                        source.name,
                        low + 40
                    )
                }
                false => format!("{rest} SELECT {list} FROM generate_series(1, {count}) g{end}"),
            };
        }
        let count = 1 + self.dice.below(25);
        let fault = self.dice.below(12);
        let at = self.dice.below(count);
        let rows: Vec<String> = (0..count)
            .map(|number| {
                let id = match fault {
                    0 if number == at => first,
                    _ => first + number,
                };
                let values: Vec<String> = columns
                    .iter()
                    .map(|column| match (*column, fault) {
                        ("n", 1) if number == at => "1000000".to_string(),
                        ("k" | "j", 2) if number == at => "NULL".to_string(),
                        ("k", 3) if number == at => "11".to_string(),
                        // The same row twice has to reach the same leaf.
                        ("k" | "j", 0) => "4".to_string(),
                        _ => self.value(column, id),
                    })
                    .collect();
                format!("({})", values.join(", "))
            })
            .collect();
        self.next_id += count;
        format!("{rest} VALUES {}{end}", rows.join(", "))
    }

    fn returning(&mut self, target: &str, root: &Root) -> String {
        // A view has no tableoid.
        let is_view = root.view.as_deref() == Some(target);
        match self.dice.below(5) {
            0 => "*".to_string(),
            1 => "id, k, n".to_string(),
            2 if !is_view => "tableoid::regclass, id, s".to_string(),
            3 => "1".to_string(),
            _ => "id, n * 2 AS twice, coalesce(s, 'none') AS s".to_string(),
        }
    }

    /// A condition on the rows of `t`, the name or alias of a table.
    fn condition(&mut self, t: &str, source: &Root) -> String {
        let low = self.dice.below(self.next_id + 1);
        let high = low + self.dice.below(100);
        let small = self.dice.below(10);
        let other = &source.name;
        let one = match self.dice.below(16) {
            0..=3 => format!("{t}.id BETWEEN {low} AND {high}"),
            4 => format!("{t}.id % 7 = {}", small % 7),
            5 => format!("{t}.k = {small}"),
            6 => format!("{t}.k IN ({small}, {})", (small + 3) % 10),
            7 => format!("{t}.j < {small} AND {t}.n > 100"),
            8 => format!("{t}.s LIKE '%{small}%'"),
            9 => format!("{t}.s IS NULL OR {t}.n < 50"),
            10 => format!("{t}.id = ANY (ARRAY[{low}, {}, {high}])", low + 1),
            11 => format!("{t}.id IN (SELECT id FROM {other} WHERE n > {low})"),
            12 => format!(
                "NOT EXISTS (SELECT FROM {other} o WHERE o.id = {t}.id + 1) AND {t}.k <> {small}"
            ),
            13 => format!("{t}.n >= (SELECT avg(n) FROM {other})"),
            14 => format!("{t}.n = (SELECT max(n) FROM {})", source.name),
            _ => "true".to_string(),
        };
        match self.dice.below(4) {
            0 => format!("({one}) AND random() < 2"),
            1 => format!("({one}) AND {t}.id < {}", high + 50),
            _ => format!("({one})"),
        }
    }

    /// New values for columns that do not decide over the partition, at most one of them an error. The last says whether
    /// one may be.
    fn changes(&mut self, root: &Root, t: &str, source: &Root, may_fail: bool) -> String {
        if may_fail && self.dice.one_in(10) {
            let some = self.dice.below(self.next_id + 1);
            let is_key = root.keys.contains(&"id");
            return match self.dice.below(3) {
                0 if !is_key => format!("id = {some}"),
                1 => "n = n + 1000000".to_string(),
                _ => format!("n = 100 / ({t}.id - {some})"),
            };
        }
        let mut changes = Vec::new();
        let other = &source.name;
        for column in &root.columns {
            if *column == "id" || root.keys.contains(column) || !self.dice.one_in(3) {
                continue;
            }
            let small = self.dice.below(10);
            let value = match (*column, self.dice.below(5)) {
                ("n", 0) => "n + 1".to_string(),
                ("n", 1) => "CASE WHEN n > 500 THEN 1.5 ELSE n * 2 END".to_string(),
                ("n", 2) => format!("(SELECT count(*) FROM {other})"),
                ("n", 3) => "id % 100".to_string(),
                ("s", 0) => "s || '.'".to_string(),
                ("s", 1) => "upper(s)".to_string(),
                ("s", 2) => "id::text".to_string(),
                ("s", 3) => "left(coalesce(s, 'none'), 8)".to_string(),
                ("b", 0) => "id".to_string(),
                ("b", 1) => "b + n".to_string(),
                ("d", 0) => "d + 1".to_string(),
                ("a", 0) => "a || id".to_string(),
                ("a", 1) => "ARRAY[id, k]".to_string(),
                ("a", 2) => "a[2:3]".to_string(),
                ("f", 0) => "n / 3".to_string(),
                ("f", 1) => "-f".to_string(),
                ("o", 0) => "NOT o".to_string(),
                ("o", 1) => "n > 100 AND s IS NOT NULL".to_string(),
                ("c", 0) => "left(s, 3)".to_string(),
                ("c", 1) => "c || 'x'".to_string(),
                ("ts", 0) => "ts + interval '1 hour'".to_string(),
                ("ts", 1) => "d".to_string(),
                ("k" | "j", 0) => "id % 10".to_string(),
                (_, 4) if *column != "n" => "DEFAULT".to_string(),
                ("k" | "j", _) => small.to_string(),
                (other, _) => self.value(other, small),
            };
            // A name that the table does not have comes from another column's rule.
            let value = match value.as_str() {
                "d" if !root.has("d") => "NULL".to_string(),
                "c || 'x'" => "left(c, 10) || 'x'".to_string(),
                _ => value,
            };
            changes.push(format!("{column} = {}", qualified(&value, t, root)));
        }
        if changes.is_empty() {
            changes.push(format!("n = {t}.n"));
        }
        changes.join(", ")
    }

    fn update(&mut self) -> String {
        let (root, source) = self.roots();
        let target = self.name_of(&root);
        let is_view = root.view.as_deref() == Some(&target);
        match self.dice.below(8) {
            // Of several rows that match one of the source is taken: they must all give the same. Core fires the row
            // triggers of a foreign table for each.
            0 if !root.has_row_triggers => {
                let condition = self.condition(&target, &source);
                format!(
                    "UPDATE {target} SET n = {target}.n + 1 FROM {} o WHERE o.k = {target}.k AND o.id < 500 AND {condition}{}",
                    source.name,
                    ["", " RETURNING 1"][self.dice.below(2) as usize]
                )
            }
            1 => {
                let condition = self.condition(&target, &source);
                format!(
                    "UPDATE {target} SET n = o.n, s = o.c || coalesce({target}.s, '') \
                     FROM (SELECT id % 40 AS g, max(n) AS n, count(*)::text AS c FROM {} GROUP BY 1) o \
                     WHERE o.g = {target}.id % 40 AND {condition}{}",
                    source.name,
                    ["", &format!(" RETURNING {target}.id, {target}.n, o.c")][self.dice.below(2) as usize]
                )
            }
            2 | 3 if target == root.name && !root.keys.is_empty() => {
                self.change_of_key(&root, &source)
            }
            _ => {
                let changes = self.changes(&root, &target, &source, !is_view);
                let condition = self.condition(&target, &source);
                let mut sql = format!("UPDATE {target} SET {changes} WHERE {condition}");
                if self.dice.one_in(3) {
                    sql.push_str(&format!(" RETURNING {}", self.returning(&target, &root)));
                }
                sql
            }
        }
    }

    /// Rows that move between partitions, or stay.
    fn change_of_key(&mut self, root: &Root, source: &Root) -> String {
        let name = &root.name;
        let key = *self.pick(&root.keys);
        let value = match (key, self.dice.below(4)) {
            ("id", _) => {
                let first = self.next_id;
                self.next_id *= 2;
                format!("id + {first}")
            }
            (_, 0) => format!("({key} + 1) % 10"),
            (_, 1) => "11".to_string(),
            (_, 2) => key.to_string(),
            _ => self.dice.below(10).to_string(),
        };
        let mut condition = self.condition(name, source);
        // A row that a trigger watches is not moved out of a foreign partition.
        if root.has_row_triggers {
            let leaves = root.local_leaves();
            let leaves: Vec<String> = leaves.iter().map(|leaf| format!("'{leaf}'")).collect();
            condition = match leaves.is_empty() {
                true => "false".to_string(),
                false => format!(
                    "{condition} AND {name}.tableoid::regclass::text IN ({})",
                    leaves.join(", ")
                ),
            };
        }
        format!("UPDATE {name} SET {key} = {value}, n = n + 1 WHERE {condition}")
    }

    fn delete(&mut self) -> String {
        let (root, source) = self.roots();
        let target = self.name_of(&root);
        let low = self.dice.below(self.next_id + 1);
        // Not too many at a time.
        let few = format!("{target}.id BETWEEN {low} AND {}", low + 60);
        let condition = self.condition(&target, &source);
        let mut sql = match self.dice.below(4) {
            0 => format!(
                "DELETE FROM {target} USING {} o WHERE o.id % 9 = {target}.k AND {few} AND {condition}",
                source.name
            ),
            _ => format!("DELETE FROM {target} WHERE {few} AND {condition}"),
        };
        if self.dice.one_in(3) {
            sql.push_str(&format!(" RETURNING {target}.id, {target}.s"));
        }
        sql
    }

    /// Several writes in one statement, each to a table of its own.
    fn with(&mut self) -> String {
        let (one, two) = self.roots();
        let first = self.next_id + 1;
        self.next_id += 100;
        let low = self.dice.below(first);
        let some = format!("id BETWEEN {low} AND {}", low + 40);
        let insert = format!("INSERT INTO {} (id, k, j, s, n)", two.name);
        let moved = format!("SELECT {first} + row_number() OVER (ORDER BY id, k, j), k, j, s, n");
        match self.dice.below(5) {
            0 => format!("WITH x AS (DELETE FROM {} WHERE {some} RETURNING *) {insert} {moved} FROM x", one.name),
            1 => format!(
                "WITH x AS (UPDATE {} SET s = 'with' WHERE {some} RETURNING *) {insert} {moved} FROM x RETURNING id",
                one.name
            ),
            2 => format!(
                "WITH x AS ({insert} SELECT {first} + g, g % 10, g % 10, 'x', g FROM generate_series(1, 15) g RETURNING *) \
                 UPDATE {} SET n = 7 WHERE {some} AND k IN (SELECT k FROM x)",
                one.name
            ),
            3 => format!(
                "WITH x AS (DELETE FROM {} WHERE {some}), y AS (UPDATE {} SET n = 1 WHERE {some} RETURNING id) SELECT count(*), min(id) FROM y",
                one.name, two.name
            ),
            _ => format!(
                "WITH x AS MATERIALIZED (SELECT id, n FROM {} WHERE {some}) UPDATE {} SET n = (SELECT count(*) FROM x) WHERE id % 5 = 1",
                two.name, one.name
            ),
        }
    }

    fn block(&mut self) -> String {
        let (first, second, third) = (self.plain(), self.plain(), self.plain());
        let raise = ["", "RAISE EXCEPTION 'undone';"][self.dice.below(2) as usize];
        format!(
            "DO $$ DECLARE total bigint; BEGIN {first}; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '%', total; \
             BEGIN {second}; {third}; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '%', total; {raise} \
             EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; END $$"
        )
    }

    /// A write without result rows.
    fn plain(&mut self) -> String {
        loop {
            let sql = match self.dice.below(4) {
                0 => self.insert(),
                1 | 2 => self.update(),
                _ => self.delete(),
            };
            if !sql.contains("RETURNING") {
                return sql;
            }
        }
    }

    /// A prepared statement with a generic plan, run several times.
    fn prepare(&mut self) -> String {
        let (root, source) = self.roots();
        let name = self.prepared;
        self.prepared += 1;
        let table = &root.name;
        let changes = self.changes(&root, table, &source, false);
        let sql = match self.dice.below(3) {
            0 => format!("UPDATE {table} SET s = $2, n = $1 WHERE k = $1 AND id < 1000"),
            1 => format!("DELETE FROM {table} WHERE k = $1 AND s <> $2 AND id % 5 = 0 RETURNING id, s"),
            _ => format!("UPDATE {table} SET {changes} WHERE k = $1 OR s = $2 RETURNING tableoid::regclass, id"),
        };
        // The last comes first.
        self.queue.push(format!("DEALLOCATE p{name}"));
        for _ in 0..2 + self.dice.below(2) {
            let k = self.dice.below(11);
            self.queue.push(format!("EXECUTE p{name} ({k}, 'v{k}')"));
        }
        self.queue
            .push(format!("PREPARE p{name} (int, text) AS {sql}"));
        "SET plan_cache_mode = force_generic_plan".to_string()
    }

    fn transaction(&mut self) -> String {
        if !self.is_in_transaction {
            self.is_in_transaction = true;
            self.open.clear();
            return "BEGIN".to_string();
        }
        let last = self.open.last().copied();
        match (self.dice.below(8), last) {
            (0, _) => "ROLLBACK".to_string(),
            (1..=3, _) => "COMMIT".to_string(),
            (4, Some(name)) => {
                self.open.pop();
                format!("RELEASE SAVEPOINT p{name}")
            }
            (5, Some(name)) => format!("ROLLBACK TO SAVEPOINT p{name}"),
            _ => {
                self.savepoints += 1;
                self.open.push(self.savepoints);
                format!("SAVEPOINT p{}", self.savepoints)
            }
        }
    }

    /// Rows of all tables to begin with, with the same ids in each.
    fn fill(&mut self) -> String {
        self.next_id = 80;
        let fills = self.schema.roots.iter().map(|root| {
            format!(
                "INSERT INTO {} (id, k, j, s, n) SELECT g, g % 10, g / 3 % 10, 'v' || g, g * 3 FROM generate_series(1, 80) g",
                root.name
            )
        });
        self.queue = fills.collect();
        self.queue.pop().unwrap_or_default()
    }

    /// The next statement; `status` is that of the connection after the last one.
    pub fn next(&mut self, status: char) -> String {
        self.is_in_transaction = status != 'I';
        if status == 'E' {
            self.queue.clear();
            return match self.open.last() {
                Some(name) if !self.dice.one_in(4) => format!("ROLLBACK TO SAVEPOINT p{name}"),
                _ => "ROLLBACK".to_string(),
            };
        }
        if let Some(sql) = self.queue.pop() {
            return sql;
        }
        if self.next_id == 0 {
            return self.fill();
        }
        match self.dice.below(20) {
            0..=4 => self.insert(),
            5..=9 => self.update(),
            10 | 11 => self.delete(),
            12 | 13 => self.with(),
            14 => self.block(),
            15 => self.prepare(),
            16 => {
                let (root, _) = self.roots();
                format!(
                    "SELECT k, count(*), sum(n), min(s COLLATE \"C\") FROM {} GROUP BY k ORDER BY k",
                    root.name
                )
            }
            _ => self.transaction(),
        }
    }
}

/// Names of columns in an expression with the table before them, so that a subquery or join does not catch them.
fn qualified(value: &str, t: &str, root: &Root) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for letter in value.chars().chain([' ']) {
        if letter == '\'' {
            is_quoted = !is_quoted;
        }
        if !is_quoted && (letter.is_ascii_alphanumeric() || letter == '_') {
            word.push(letter);
            continue;
        }
        if root.has(&word) && !value.starts_with("(SELECT") {
            out.push_str(t);
            out.push('.');
        }
        out.push_str(&word);
        word.clear();
        out.push(letter);
    }
    out.trim_end().to_string()
}
