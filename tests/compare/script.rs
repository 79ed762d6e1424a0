//! Scenarios as text: SQL in psql's manner, with a few lines of our own that begin with `@`.
//!
//! ```text
//! == name of the scenario                what follows belongs to it
//! @since 17                              not on older servers
//! @eager                                 it shows that errors come with their statement: not so under policy transaction
//! @table t1 ON s1 OF t FOR VALUES IN (1) a table that is a plain table on one side, and a foreign table whose
//!     k int, v text                      table is on shard s1 on the other; OF and its bounds make it a partition;
//!     PRIMARY KEY (k);                   the last line is for the stored table only
//! INSERT INTO t VALUES (1, 'a');         on both sides; each statement ends with a line that ends with ;
//! COPY t FROM STDIN;                     followed by its data and a line \.
//! @error 23505                           the next statement fails so, with equal fields on both sides
//! @error 23505 loose                     the same, but only the SQLSTATE is compared
//! @error 23505 whole                     the same, and all other fields are compared as well, CONTEXT and places among them
//! @on s1                                 the next statement is for the database where the tables of s1 are
//! @local                                 the next statement is for the side with local tables alone
//! @foreign                               the next statement is for the side with foreign tables alone
//! @remote s1                             the next statement is for shard s1 alone
//! @clause ON CONFLICT DO NOTHING         from here on, local tables have this where a statement says /**/
//! @upsert t KEY k, j SET v               rows for t change v of a row with the same k and j: by the options of a foreign
//!                                        table, and one by one in a trigger of a local one, where a statement with
//!                                        ON CONFLICT could not hit a row twice; with "NULLS" at the end NULLs are equal
//! @feed COPY t FROM STDIN BINARY         the next statement is a COPY TO STDOUT, whose output is fed to this one
//! ```

use crate::outcome::Depth;

/// Where a statement runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Both,
    Local,
    Foreign,
    /// The database that holds the tables of a shard: on the local side there is only one.
    Stored(usize),
    Remote(usize),
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Step {
    pub line: usize,
    pub place: Place,
    pub sql: String,
    /// The same for the side with local tables.
    pub local_sql: String,
    pub data: Option<String>,
    /// The COPY that takes this one's output.
    pub feed: Option<String>,
    pub error: Option<String>,
    /// How much of the error is compared.
    pub depth: Depth,
}

/// A table that is stored here or on a shard.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub shard: usize,
    /// Parent and bounds.
    pub partition: Option<(String, String)>,
    pub columns: String,
    pub constraints: String,
}

#[derive(Clone, Debug)]
pub enum Item {
    Table(Table),
    Step(Step),
}

#[derive(Clone, Debug, Default)]
pub struct Scenario {
    pub name: String,
    pub since: u16,
    /// Not for flush policy `transaction`, whose errors come later.
    pub eager: bool,
    pub items: Vec<Item>,
}

/// Reads a file of scenarios.
pub fn parse(text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut next = Next::default();
    let mut clause = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line_number = number + 1;
        if let Some(name) = line.strip_prefix("== ") {
            clause.clear();
            scenarios.push(Scenario {
                name: name.trim().to_string(),
                ..Scenario::default()
            });
            continue;
        }
        if line.trim().is_empty() || line.starts_with("--") {
            continue;
        }
        let scenario = scenarios
            .last_mut()
            .unwrap_or_else(|| panic!("line {line_number}: no scenario begun"));
        if let Some(directive) = line.strip_prefix('@') {
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            match word {
                "eager" => scenario.eager = true,
                "since" => scenario.since = rest.parse().expect("a major version"),
                "clause" => clause = rest.to_string(),
                "upsert" => scenario.items.extend(upsert(rest, line_number)),
                "table" => {
                    let body = statement("", &mut lines);
                    scenario.items.push(Item::Table(table(rest, &body)));
                }
                _ => next.take(word, rest, line_number),
            }
            continue;
        }
        let sql = statement(line, &mut lines);
        let upper = sql.to_uppercase();
        let data = (upper.starts_with("COPY ") && upper.contains(" FROM STDIN")).then(|| {
            let mut data = String::new();
            for (_, line) in lines.by_ref() {
                if line == "\\." {
                    break;
                }
                data.push_str(line);
                data.push('\n');
            }
            data
        });
        let next = std::mem::take(&mut next);
        scenario.items.push(Item::Step(Step {
            line: line_number,
            place: next.place.unwrap_or(Place::Both),
            local_sql: sql.replace("/**/", &clause),
            sql,
            data,
            feed: next.feed,
            error: next.error,
            depth: next.depth,
        }));
    }
    scenarios
}

/// What the directives said about the statement to come.
#[derive(Default)]
struct Next {
    place: Option<Place>,
    feed: Option<String>,
    error: Option<String>,
    depth: Depth,
}

impl Next {
    fn take(&mut self, word: &str, rest: &str, line: usize) {
        match word {
            "error" => {
                let (code, depth) = match rest.split_once(' ') {
                    None => (rest, Depth::Usual),
                    Some((code, "loose")) => (code, Depth::Loose),
                    Some((code, "whole")) => (code, Depth::Whole),
                    Some(_) => panic!("line {line}: @error {rest} means nothing"),
                };
                self.error = Some(code.to_string());
                self.depth = depth;
            }
            "feed" => self.feed = Some(rest.to_string()),
            "on" => self.place = Some(Place::Stored(shard(rest))),
            "remote" => self.place = Some(Place::Remote(shard(rest))),
            "local" => self.place = Some(Place::Local),
            "foreign" => self.place = Some(Place::Foreign),
            _ => panic!("line {line}: @{word} means nothing"),
        }
    }
}

fn shard(name: &str) -> usize {
    match name.trim() {
        "s1" => 0,
        "s2" => 1,
        _ => panic!("{name:?} is not a shard"),
    }
}

/// A statement up to the line that ends with a semicolon outside dollar quotes.
fn statement<'a>(first: &str, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> String {
    let mut sql = first.to_string();
    while !(sql.trim_end().ends_with(';') && sql.matches("$$").count() % 2 == 0) {
        let (_, line) = lines.next().expect("a statement ends with ;");
        if line.trim_start().starts_with("--") {
            continue;
        }
        sql.push('\n');
        sql.push_str(line);
    }
    sql
}

fn table(head: &str, body: &str) -> Table {
    let (placed, partition) = match head.split_once(" OF ") {
        Some((placed, of)) => {
            let (parent, bounds) = of.split_once(' ').expect("OF parent and bounds");
            (placed, Some((parent.to_string(), bounds.to_string())))
        }
        None => (head, None),
    };
    let (name, place) = placed.split_once(" ON ").expect("@table name ON shard");
    let mut lines = body.trim().trim_end_matches(';').lines();
    Table {
        name: name.trim().to_string(),
        shard: shard(place),
        partition,
        columns: lines.next().unwrap_or_default().trim().to_string(),
        constraints: lines.map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

/// `table KEY columns SET columns [NULLS]`
fn upsert(words: &str, line: usize) -> [Item; 2] {
    let (words, equal) = match words.strip_suffix(" NULLS") {
        Some(words) => (words, "IS NOT DISTINCT FROM"),
        None => (words, "="),
    };
    let (table, columns) = words.split_once(" KEY ").expect("@upsert table KEY");
    let (key, set) = columns.split_once(" SET ").expect("SET columns");
    let each = |columns: &str, separator: &str, text: &dyn Fn(&str) -> String| {
        let columns: Vec<String> = columns.split(", ").map(text).collect();
        columns.join(separator)
    };
    let options = each(key, ", ", &|column| {
        format!("ALTER {column} OPTIONS (ADD key 'true')")
    });
    let same = each(key, " AND ", &|column| {
        format!("r.{column} {equal} NEW.{column}")
    });
    let changes = each(set, " ", &|column| {
        format!("there.{column} := NEW.{column};")
    });
    let step = |place, sql: String| {
        Item::Step(Step {
            line,
            place,
            local_sql: sql.clone(),
            sql,
            data: None,
            feed: None,
            error: None,
            depth: Depth::Usual,
        })
    };
    [
        step(
            Place::Foreign,
            format!("ALTER FOREIGN TABLE {table} OPTIONS (ADD on_conflict 'update'), {options}"),
        ),
        // Fires after those of the scenario.
        step(
            Place::Local,
            format!(
                "CREATE FUNCTION w.upsert_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
                 DECLARE there w.{table};
                 BEGIN
                     DELETE FROM w.{table} AS r WHERE {same} RETURNING * INTO there;
                     IF FOUND THEN {changes} RETURN there; END IF;
                     RETURN NEW;
                 END $$;
                 CREATE TRIGGER zz_upsert BEFORE INSERT ON w.{table} FOR EACH ROW EXECUTE FUNCTION w.upsert_{table}()"
            ),
        ),
    ]
}
