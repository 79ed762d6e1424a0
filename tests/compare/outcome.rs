//! What a client sees of a statement, in a form that can be compared between two databases.

use crate::common::{Fields, Reply, Statement};

/// How much of an error is compared.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Depth {
    /// The SQLSTATE.
    Loose,
    /// What it says, and of what, but not where it came from: the shard has other places.
    #[default]
    Usual,
    /// All fields that a client gets.
    Whole,
}

/// A statement's effect on its client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    statements: Vec<Statement>,
    copied: Vec<Vec<u8>>,
    notices: Vec<String>,
    error: Option<Vec<String>>,
    status: char,
}

impl Outcome {
    /// Rows without an order asked for are sorted; of an error counts as much as `depth` says.
    pub fn of(reply: &Reply, sql: &str, depth: Depth) -> Outcome {
        let ordered = sql.to_uppercase().contains("ORDER BY");
        let mut statements = reply.statements.clone();
        let mut copied: Vec<Vec<u8>> = reply
            .copied
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        if !ordered {
            for statement in &mut statements {
                statement.rows.sort();
            }
            copied.sort();
        }
        Outcome {
            statements,
            copied,
            notices: reply
                .notices
                .iter()
                .map(|n| format!("{}: {}", n.severity(), n.message()))
                .collect(),
            error: reply.error.as_ref().map(|error| parts(error, depth)),
            status: reply.status,
        }
    }
}

fn parts(error: &Fields, depth: Depth) -> Vec<String> {
    if depth == Depth::Whole {
        return error.all();
    }
    let mut parts = vec![error.sqlstate()];
    if depth == Depth::Usual {
        parts.extend([
            error.message(),
            error.detail(),
            error.hint(),
            error.schema(),
            error.table(),
            error.column(),
            error.constraint(),
        ]);
    }
    parts.into_iter().map(str::to_string).collect()
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for statement in &self.statements {
            write!(f, "[{}]", statement.tag)?;
            for row in statement.rows.iter().take(30) {
                let values: Vec<&str> = row
                    .iter()
                    .map(|value| value.as_deref().map_or("NULL", |v| shown(v)))
                    .collect();
                write!(f, " ({})", values.join(", "))?;
            }
            if statement.rows.len() > 30 {
                write!(f, " … {} rows", statement.rows.len())?;
            }
        }
        if !self.copied.is_empty() {
            write!(f, " copied {} lines", self.copied.len())?;
        }
        for notice in &self.notices {
            write!(f, " <{notice}>")?;
        }
        if let Some(error) = &self.error {
            write!(f, " ERROR {}", error.join(" / "))?;
        }
        write!(f, " {}", self.status)
    }
}

fn shown(value: &str) -> &str {
    match value.char_indices().nth(60) {
        Some((end, _)) => &value[..end],
        None => value,
    }
}
