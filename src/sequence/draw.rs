//! The statements that draw values from a sequence of a shard, or set it.
//!
//! All values come from the shard's own nextval, most of them in one statement. If that fails, what it drew before is lost;
//! so near the end of a sequence the statement draws little, and each further value has a statement of its own, all in
//! one message: then the values before the error have arrived.
//!
//! What has been drawn must be on the shard's disk before it is handed out, or a crash would let it be drawn again. A
//! commit sees to that if the transaction has written to the WAL. nextval does so for every 33rd value only, and what it
//! wrote for another session may not be on disk yet: then a message in the WAL stands in.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::range::{Size, Values};
use crate::model::sql::Sql;
use crate::pq::PgResult;
use crate::remote::autocommit::{Autocommit, Outcome, Transaction};
use crate::remote::statement::{Param, Statement, Subject};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

/// Most values drawn near the end of a sequence with one message.
const NEAR_THE_END: u64 = 64;

/// Draws up to $2 values of the sequence $1, 0 standing for its CACHE but not more than $3. At least one; beyond that not
/// more than an eighth of what is left, because others draw too.
///
/// Columns: the number asked for; the number after the first value; how many more could follow near the end; the first
/// value and the increment; and the values after it, NULL if all are at the distance of the increment. (They may look so
/// though they are not only if somebody sets the sequence back in the middle, which repeats values anyhow.)
const DRAW: &str = "\
WITH sequence AS MATERIALIZED (\
SELECT seqrelid AS id, seqincrement::numeric AS step, seqmin, seqmax, seqcache, seqcycle, \
CASE WHEN $2 = 0 THEN least(seqcache, $3) ELSE $2 END AS wanted, pg_catalog.nextval(seqrelid) AS first \
FROM pg_catalog.pg_sequence WHERE seqrelid = (SELECT $1::text::regclass)), \
known AS MATERIALIZED (\
SELECT *, CASE WHEN pg_catalog.has_sequence_privilege(id, 'USAGE, SELECT') \
THEN pg_catalog.pg_sequence_last_value(id) END AS last FROM sequence), \
rest AS MATERIALIZED (\
SELECT *, CASE WHEN seqcycle THEN wanted ELSE pg_catalog.trunc(CASE WHEN step > 0 \
THEN seqmax - greatest(first, last)::numeric ELSE least(first, last) - seqmin::numeric END / pg_catalog.abs(step)) \
END AS room FROM known), \
size AS MATERIALIZED (\
SELECT *, CASE WHEN seqcycle OR wanted - 1 <= room / 8 THEN wanted - 1 WHEN room >= 512 THEN room / 8 ELSE 0 END::int8 \
AS count, least(wanted - 1, room)::int8 AS more FROM rest), \
drawn AS MATERIALIZED (\
SELECT *, ARRAY(SELECT pg_catalog.nextval(id) FROM (SELECT pg_catalog.generate_series(1, count)) AS each) AS list \
FROM size) \
SELECT wanted, count, more - count, first, step, \
CASE WHEN seqcycle OR list[count] - first::numeric <> step * count THEN list END, \
CASE WHEN seqcache <= 32 AND count < 33 + 2 * seqcache \
THEN pg_catalog.pg_logical_emit_message(true, 'shard_fdw', '') END FROM drawn";

/// Brings to disk what other sessions have written to the WAL.
const FLUSH: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'shard_fdw', '')";

const INT4OID: u32 = 23;
const TEXTOID: u32 = 25;

/// What a draw has brought: at least one value.
pub struct Drawn {
    /// The number that was asked for.
    pub size: u32,
    pub values: Values,
}

/// Draws values. `name` is the sequence in quotes, as `"schema"."name"`.
pub fn draw(connection: &Autocommit, user: Oid, name: &Sql, size: Size) -> Result<Drawn> {
    let outcome = ask(connection, user, true, |is_pooled| {
        vec![vec![draw_statement(name, size, is_pooled)]]
    })?
    .pop()
    .unwrap_or_default();
    let at_most = match size {
        Size::Cache { most } | Size::Values(most) => most,
    };
    match outcome {
        // Perhaps others have been faster than we thought.
        Outcome {
            error: Some(error), ..
        } if error.sqlstate() == SqlState::SEQUENCE_LIMIT_EXCEEDED => {
            let values = draw_singly(connection, user, name, at_most.into())?;
            Ok(Drawn {
                size: at_most,
                values,
            })
        }
        Outcome {
            error: Some(error), ..
        } => {
            // Values that the shard's session has cached, and not brought to disk, must not be handed out later.
            if error.sqlstate().class() != b"42" {
                connection.disconnect();
            }
            Err(error)
        }
        Outcome { results, .. } => {
            let answer = results.last().filter(|result| result.ntuples() == 1);
            let Some(answer) = answer else {
                // No sequence: the shard says what is wrong with it.
                return draw_singly(connection, user, name, 1)
                    .map(|values| Drawn { size: 1, values });
            };
            let (mut drawn, more) = read(answer).ok_or_else(strange)?;
            if more > 0 && drawn.values.len() == 1 {
                // The one value that has come counts, whatever becomes of these.
                if let Ok(values) = draw_singly(connection, user, name, more) {
                    drawn.values.append(values);
                }
            }
            Ok(drawn)
        }
    }
}

/// Values by a statement each. An error counts only if there is no value before it.
fn draw_singly(connection: &Autocommit, user: Oid, name: &Sql, count: u64) -> Result<Values> {
    let count = count.clamp(1, NEAR_THE_END) as usize;
    let outcomes = ask(connection, user, true, |_| {
        vec![vec![single(name); count], vec![Statement::own(FLUSH)]]
    })?;
    let mut outcomes = outcomes.into_iter();
    let (drawn, flushed) = (
        outcomes.next().unwrap_or_default(),
        outcomes.next().unwrap_or_default(),
    );
    let mut values = Values::default();
    for result in &drawn.results {
        values.push(number(result, 0).ok_or_else(strange)?);
    }
    match drawn.error.filter(|_| values.is_empty()).or(flushed.error) {
        Some(error) => Err(error),
        None if values.is_empty() => Err(strange()),
        None => Ok(values),
    }
}

/// The shard's setval.
pub fn set(
    connection: &Autocommit,
    user: Oid,
    name: &Sql,
    value: i64,
    is_called: bool,
) -> Result<()> {
    let mut outcomes = ask(connection, user, false, |_| {
        let mut sql = Sql::from("SELECT pg_catalog.setval(");
        sql.push_literal(name.as_bytes());
        // Numbers write to a text without fail.
        let _ = write!(sql, ", {value}, {is_called})");
        vec![vec![Statement::plain(sql)]]
    })?;
    outcomes
        .pop()
        .and_then(|outcome| outcome.error)
        .map_or(Ok(()), Err)
}

/// Runs the transactions that `make` gives when told whether there is a pooler in between, and returns how each went. A
/// connection that is new is told first what it needs for [`draw_statement`].
fn ask(
    connection: &Autocommit,
    user: Oid,
    repeatable: bool,
    make: impl Fn(bool) -> Vec<Transaction>,
) -> Result<Vec<Outcome>> {
    let has_begun = Cell::new(false);
    let mut outcomes = connection.ask(user, repeatable, |facts| {
        let mut transactions = make(facts.is_pooled);
        has_begun.set(facts.is_new && !facts.is_pooled);
        if has_begun.get() {
            // Planning takes as long as drawing some hundred values.
            let prepare = format!("PREPARE shard_fdw_draw(text, int4, int4) AS {DRAW}");
            let begin = vec![
                Statement::own("SET plan_cache_mode = force_generic_plan"),
                Statement::own(prepare.as_str()),
            ];
            transactions.insert(0, begin);
        }
        transactions
    })?;
    if has_begun.get() {
        if let Some(error) = outcomes.remove(0).error {
            connection.disconnect();
            return Err(error);
        }
    }
    Ok(outcomes)
}

fn draw_statement(name: &Sql, size: Size, is_pooled: bool) -> Statement {
    let (wanted, most) = match size {
        Size::Cache { most } => (0, most),
        Size::Values(count) => (count, count),
    };
    if is_pooled {
        let number = |value: u32| Param::binary(INT4OID, value.to_be_bytes().to_vec());
        return Statement {
            params: vec![
                Param::binary(TEXTOID, name.as_bytes().to_vec()),
                number(wanted),
                number(most),
            ],
            ..about(name, Sql::from(DRAW))
        };
    }
    let mut execute = Sql::from("EXECUTE shard_fdw_draw(");
    execute.push_literal(name.as_bytes());
    let _ = write!(execute, ", {wanted}, {most})");
    about(name, execute)
}

fn single(name: &Sql) -> Statement {
    let mut sql = Sql::from("SELECT pg_catalog.nextval(");
    sql.push_literal(name.as_bytes()).push(")");
    Statement::plain(sql)
}

/// A statement that an error report shows as a plain nextval.
fn about(name: &Sql, sql: Sql) -> Statement {
    let shown = single(name).sql;
    Statement {
        subject: Subject {
            query: Some(shown),
            ..Subject::default()
        },
        sql: Rc::new(sql),
        ..Statement::plain("")
    }
}

/// What a draw has brought, and how many values may follow one by one.
fn read(answer: &PgResult) -> Option<(Drawn, u64)> {
    let size = u32::try_from(number(answer, 0)?).ok()?;
    let count = u64::try_from(number(answer, 1)?).ok()?;
    let more = u64::try_from(number(answer, 2)?).ok()?;
    let (first, step) = (number(answer, 3)?, number(answer, 4)?);
    let mut values = Values::default();
    match answer.value(0, 5) {
        Some(array) => {
            values.push(first);
            if !values.push_array(array) || values.len() != count + 1 {
                return None;
            }
        }
        None if !values.push_run(first, step, count + 1) => return None,
        None => {}
    }
    Some((Drawn { size, values }, more))
}

fn number(answer: &PgResult, column: usize) -> Option<i64> {
    answer.text(0, column)?.to_str().ok()?.parse().ok()
}

fn strange() -> FdwError {
    FdwError::Protocol {
        message: "a server answered a draw from a sequence with something else".into(),
        detail: None,
    }
}
