//! Schemas drawn at random: tables and partition trees with leaves here and on shards, triggers and views.

use crate::outcome::Depth;
use crate::random::Dice;
use crate::script::{Item, Place, Step, Table};

/// Columns that all tables have, with their types. Statements are made of them.
const COLUMNS: [(&str, &str); 5] = [
    ("id", "int"),
    ("k", "int"),
    ("j", "int"),
    ("s", "text"),
    ("n", "numeric"),
];

/// Columns that a table may have besides.
const MORE: [(&str, &str); 7] = [
    ("b", "bigint"),
    ("d", "date"),
    ("a", "int[]"),
    ("f", "float8"),
    ("o", "boolean"),
    ("c", "varchar(20)"),
    ("ts", "timestamp"),
];

/// A table that statements write to, with all its partitions.
#[derive(Clone, Debug)]
pub struct Root {
    pub name: String,
    /// All of its columns.
    pub columns: Vec<&'static str>,
    /// The columns that decide over the partition.
    pub keys: Vec<&'static str>,
    /// A leaf, for statements that name one, with its shard.
    pub leaves: Vec<(String, Option<usize>)>,
    pub view: Option<String>,
    pub has_row_triggers: bool,
}

impl Root {
    pub fn has(&self, column: &str) -> bool {
        self.columns.contains(&column)
    }

    /// Its leaves that are stored here.
    pub fn local_leaves(&self) -> Vec<&str> {
        let local = self.leaves.iter().filter(|(_, shard)| shard.is_none());
        local.map(|(name, _)| name.as_str()).collect()
    }
}

/// A schema, and how it is made.
pub struct Schema {
    pub roots: Vec<Root>,
    pub items: Vec<Item>,
}

impl Schema {
    pub fn draw(dice: &mut Dice) -> Schema {
        let mut schema = Schema {
            roots: Vec::new(),
            items: Vec::new(),
        };
        schema.step(Place::Both, "CREATE TABLE log (what text)");
        for name in ["t", "u", "w"].iter().take(2 + dice.below(2) as usize) {
            schema.root(dice, name);
        }
        schema
    }

    /// The statements, for a report.
    pub fn text(&self) -> String {
        let lines = self.items.iter().map(|item| match item {
            Item::Step(step) => match step.place {
                Place::Stored(shard) => format!("@on s{}\n{};", shard + 1, step.sql),
                _ => format!("{};", step.sql),
            },
            Item::Table(table) => {
                let of = table.partition.as_ref();
                format!(
                    "@table {} ON s{}{}\n    {}\n    {};",
                    table.name,
                    table.shard + 1,
                    of.map_or(String::new(), |(parent, bounds)| format!(
                        " OF {parent} {bounds}"
                    )),
                    table.columns,
                    table.constraints
                )
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn step(&mut self, place: Place, sql: &str) {
        self.items.push(Item::Step(Step {
            line: 0,
            place,
            sql: sql.to_string(),
            local_sql: sql.to_string(),
            data: None,
            feed: None,
            error: None,
            depth: Depth::Loose,
        }));
    }

    fn root(&mut self, dice: &mut Dice, name: &str) {
        let more = MORE.iter().filter(|_| dice.one_in(3));
        let columns: Vec<(&str, &str)> = COLUMNS.iter().chain(more).copied().collect();
        let mut root = Root {
            name: name.to_string(),
            columns: columns.iter().map(|(name, _)| *name).collect(),
            keys: Vec::new(),
            leaves: Vec::new(),
            view: None,
            has_row_triggers: false,
        };
        if dice.one_in(4) {
            self.leaf(dice, &mut root, &columns, name, None);
        } else {
            self.level(dice, &mut root, &columns, name, None, 0);
        }
        self.triggers(dice, &mut root);
        if dice.one_in(3) {
            let view = format!("v_{name}");
            let check = ["", " WITH CHECK OPTION"][dice.below(2) as usize];
            self.step(
                Place::Both,
                &format!("CREATE VIEW {view} AS SELECT * FROM {name} WHERE n >= 0{check}"),
            );
            root.view = Some(view);
        }
        self.roots.push(root);
    }

    /// A partitioned table and what is below it.
    fn level(
        &mut self,
        dice: &mut Dice,
        root: &mut Root,
        columns: &[(&'static str, &'static str)],
        name: &str,
        parent: Option<(&str, &str)>,
        depth: usize,
    ) {
        let key = ["k", "j", "id"][(depth + dice.below(2) as usize).min(2)];
        // Every value from 0 to 9 has a leaf.
        let method = if key == "id" { 2 } else { dice.below(3) };
        let mut bounds: Vec<String> = match method {
            0 => {
                let groups = 2 + dice.below(3);
                let of = |group| {
                    let values = (0..10).filter(|value| value % groups == group);
                    values.map(|value| value.to_string()).collect::<Vec<_>>()
                };
                let mut lists: Vec<Vec<String>> = (0..groups).map(of).collect();
                if dice.one_in(3) {
                    lists[0].push("NULL".to_string());
                }
                lists
                    .iter()
                    .map(|list| format!("FOR VALUES IN ({})", list.join(", ")))
                    .collect()
            }
            1 => {
                let last = ["10", "MAXVALUE"][dice.below(2) as usize];
                let cuts = [2 + dice.below(3), 5 + dice.below(4)].map(|cut| cut.to_string());
                [
                    ("0", cuts[0].as_str()),
                    (&cuts[0], &cuts[1]),
                    (&cuts[1], last),
                ]
                .map(|(from, to)| format!("FOR VALUES FROM ({from}) TO ({to})"))
                .to_vec()
            }
            _ => {
                let modulus = 2 + dice.below(2);
                (0..modulus)
                    .map(|n| format!("FOR VALUES WITH (MODULUS {modulus}, REMAINDER {n})"))
                    .collect()
            }
        };
        let method = ["LIST", "RANGE", "HASH"][method as usize];
        if method != "HASH" && dice.one_in(2) {
            bounds.push("DEFAULT".to_string());
        }
        root.keys.push(key);
        let list = list(&order(dice, columns, parent.is_some()));
        self.step(
            Place::Both,
            &format!("CREATE TABLE {name} ({list}) PARTITION BY {method} ({key})"),
        );
        if let Some((parent, bounds)) = parent {
            self.step(
                Place::Both,
                &format!("ALTER TABLE {parent} ATTACH PARTITION {name} {bounds}"),
            );
        }
        for (number, bounds) in bounds.iter().enumerate() {
            let child = format!("{name}{number}");
            let parent = Some((name, bounds.as_str()));
            if depth < 2 && dice.one_in(4) {
                self.level(dice, root, columns, &child, parent, depth + 1);
            } else {
                self.leaf(dice, root, columns, &child, parent);
            }
        }
    }

    fn leaf(
        &mut self,
        dice: &mut Dice,
        root: &mut Root,
        columns: &[(&'static str, &'static str)],
        name: &str,
        parent: Option<(&str, &str)>,
    ) {
        let shard = match parent {
            Some(_) => [None, Some(0), Some(1), Some(0)][dice.below(4) as usize],
            None => Some(dice.below(2) as usize),
        };
        let columns = list(&order(dice, columns, parent.is_some()));
        let constraints = "PRIMARY KEY (id), CHECK (n < 1000000)";
        match shard {
            Some(shard) => self.items.push(Item::Table(Table {
                name: name.to_string(),
                shard,
                partition: parent.map(|(parent, bounds)| (parent.to_string(), bounds.to_string())),
                columns,
                constraints: constraints.to_string(),
            })),
            None => {
                self.step(
                    Place::Both,
                    &format!("CREATE TABLE {name} ({columns}, {constraints})"),
                );
                if let Some((parent, bounds)) = parent {
                    self.step(
                        Place::Both,
                        &format!("ALTER TABLE {parent} ATTACH PARTITION {name} {bounds}"),
                    );
                }
            }
        }
        root.leaves.push((name.to_string(), shard));
    }

    /// Triggers of the coordinator, which write down what they see, and of shards, which change rows or drop them.
    fn triggers(&mut self, dice: &mut Dice, root: &mut Root) {
        let name = root.name.clone();
        if dice.one_in(4) {
            let moment = ["BEFORE", "AFTER"][dice.below(2) as usize];
            self.step(
                Place::Both,
                &format!(
                    "CREATE FUNCTION count_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                     INSERT INTO log SELECT TG_WHEN || ' ' || TG_OP || ' {name} ' || count(*) || ' ' || coalesce(sum(n), 0) FROM {name}; \
                     RETURN NULL; END $$"
                ),
            );
            self.step(
                Place::Both,
                &format!(
                    "CREATE TRIGGER counting {moment} INSERT OR UPDATE OR DELETE ON {name} \
                     FOR EACH STATEMENT EXECUTE FUNCTION count_{name}()"
                ),
            );
        }
        let mut has_function = false;
        for (leaf, shard) in root.leaves.clone() {
            if dice.one_in(8) {
                root.has_row_triggers = true;
                if !has_function {
                    has_function = true;
                    self.step(
                        Place::Both,
                        &format!(
                            "CREATE FUNCTION note_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                             INSERT INTO log VALUES (TG_WHEN || ' ' || TG_OP || ' ' || TG_TABLE_NAME || ' ' || \
                             CASE TG_OP WHEN 'INSERT' THEN '' ELSE OLD::text END || ' ' || CASE TG_OP WHEN 'DELETE' THEN '' ELSE NEW::text END); \
                             IF TG_WHEN = 'AFTER' THEN RETURN NULL; ELSIF TG_OP = 'DELETE' THEN RETURN OLD; END IF; \
                             IF NEW.id % 11 = 0 THEN RETURN NULL; END IF; NEW.s := NEW.s || '^'; RETURN NEW; END $$"
                        ),
                    );
                }
                let moment = ["BEFORE", "AFTER"][dice.below(2) as usize];
                // Where one foreign leaf has a row trigger for DELETE and another has none, core's plan lacks what its executor
                // wants ("wholerow is NULL").
                let kinds = if shard.is_some() { 2 } else { 4 };
                let event = ["INSERT", "INSERT OR UPDATE", "DELETE", "UPDATE OR DELETE"]
                    [dice.below(kinds) as usize];
                self.step(
                    Place::Both,
                    &format!(
                        "CREATE TRIGGER a_note {moment} {event} ON {leaf} FOR EACH ROW EXECUTE FUNCTION note_{name}()"
                    ),
                );
            }
            let Some(shard) = shard else { continue };
            if dice.one_in(8) {
                root.has_row_triggers = true;
                let stored = Place::Stored(shard);
                self.step(
                    stored,
                    &format!(
                        "CREATE FUNCTION w.change_{leaf}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                         IF TG_OP = 'DELETE' THEN RETURN CASE WHEN OLD.id % 7 = 0 THEN NULL ELSE OLD END; END IF; \
                         IF NEW.id % 13 = 0 THEN RETURN NULL; END IF; NEW.s := NEW.s || '~'; RETURN NEW; END $$"
                    ),
                );
                let event = ["INSERT OR UPDATE", "UPDATE OR DELETE"][dice.below(2) as usize];
                self.step(
                    stored,
                    &format!(
                        "CREATE TRIGGER z_change BEFORE {event} ON w.{leaf} FOR EACH ROW EXECUTE FUNCTION w.change_{leaf}()"
                    ),
                );
            }
        }
    }
}

/// The columns as a partition has them, in an order of its own.
fn order<'a>(
    dice: &mut Dice,
    columns: &[(&'a str, &'a str)],
    may_differ: bool,
) -> Vec<(&'a str, &'a str)> {
    let mut columns = columns.to_vec();
    if may_differ && dice.one_in(2) {
        for last in (1..columns.len()).rev() {
            columns.swap(last, dice.below(last as u64 + 1) as usize);
        }
    }
    columns
}

fn list(columns: &[(&str, &str)]) -> String {
    let each = columns.iter().map(|(name, of)| format!("{name} {of}"));
    each.collect::<Vec<_>>().join(", ")
}
