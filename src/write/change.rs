//! UPDATE and DELETE of one foreign table, within one statement.

use crate::model::change::{
    delete_from_arrays, delete_places, delete_row, place_columns, update_from_arrays, update_row,
    Identity, NEEDS_KEY,
};
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::insert::{checked_types, Target as Column};
use crate::model::option::{FlushPolicy, WriteOptions};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::list::{Item, Items};
use crate::pg::target::Target;
use crate::pg::value::{Encoder, Row};
use crate::pg::xact;
use crate::remote::memory;
use crate::remote::pending::PendingRows;
use crate::remote::session::SessionRef;
use crate::remote::statement::{add_context, Subject};
use crate::remote::stats::{FlushCause, WriteStats};
use crate::remote::tree::remote_relation;
use crate::remote::usage::{Usage, Writing};
use crate::write::change_buffer::{ChangeBuffer, ChangeForms, ChangeOwner};
use crate::write::columns::{Encoding, Sent};
use crate::write::insert::nudge_all;
use crate::write::policy::{self, Circumstances, SingleReason};
use crate::write::rowwise::{identity_bytes, Outcome, RowWriter};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::collections::HashSet;
use std::rc::Rc;

/// An UPDATE or DELETE of one foreign table as the plan holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePlan {
    /// The table: in some releases of PostgreSQL 18 core hands over the list of another one.
    pub relid: Oid,
    pub is_update: bool,
    /// Numbers of the columns that an UPDATE changes, generated ones that follow included.
    pub columns: Vec<i16>,
    /// Numbers of the columns that the shard returns, None if it returns no rows.
    pub returning: Option<Vec<i16>>,
}

impl ChangePlan {
    pub fn to_items(&self) -> Vec<Item> {
        let numbers =
            |columns: &[i16]| Item::Ints(columns.iter().copied().map(i32::from).collect());
        vec![
            Item::Int(self.relid.to_u32() as i32),
            Item::Int(i32::from(self.is_update)),
            numbers(&self.columns),
            Item::Int(i32::from(self.returning.is_some())),
            numbers(self.returning.as_deref().unwrap_or_default()),
        ]
    }

    pub fn from_items(items: Vec<Item>) -> Result<ChangePlan> {
        let mut items = Items::new(items);
        let relid = Oid::from_u32(items.int()? as u32);
        let is_update = items.int()? != 0;
        let columns = items.columns()?;
        let has_returning = items.int()? != 0;
        let returning = items.columns()?;
        items.finish()?;
        Ok(ChangePlan {
            relid,
            is_update,
            columns,
            returning: has_returning.then_some(returning),
        })
    }
}

/// Where and for whom a statement changes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePlace {
    /// The relation that the statement names: the foreign table itself, or a table above it.
    pub root: Oid,
    /// Whose user mapping is used.
    pub user: Oid,
    pub command_id: u32,
    /// May the plan below bring a row more than once?
    pub can_repeat: bool,
}

/// How a target's rows travel, for EXPLAIN.
pub struct ChangePreview {
    pub sql: Sql,
    /// Most rows of one statement.
    pub batch_size: usize,
    /// Why they go one at a time, if they do.
    pub single_reason: Option<SingleReason>,
    pub flush_policy: FlushPolicy,
}

enum Mode {
    Buffered(Rc<ChangeBuffer>),
    Single(RowWriter),
}

/// State of one target of UPDATE or DELETE.
pub struct Change {
    plan: ChangePlan,
    place: ChangePlace,
    target: Rc<Target>,
    identity: Identity,
    usage: Usage,
    _writing: Writing,
    mode: Option<Mode>,
    reason: Option<SingleReason>,
    /// Deletes rows that move to another partition.
    remover: Option<RowWriter>,
    /// Keys of the rows that were changed one at a time, where one could come again.
    seen: Option<HashSet<Vec<u8>>>,
}

impl Change {
    /// Neither connects nor asks the shard anything.
    pub fn new(plan: ChangePlan, place: ChangePlace) -> Result<Change> {
        let target = Target::known(plan.relid)?;
        let identity = match target.key.is_empty() {
            true => Identity::Place,
            false => Identity::Key(target.key.clone()),
        };
        let by_key = matches!(identity, Identity::Key(_));
        Ok(Change {
            usage: Usage::new(target.server.oid, place.user),
            _writing: Writing::new(),
            seen: (by_key && place.can_repeat).then(HashSet::new),
            plan,
            place,
            target,
            identity,
            mode: None,
            reason: None,
            remover: None,
        })
    }

    /// Has the first row decided how rows travel?
    pub fn has_started(&self) -> bool {
        self.mode.is_some()
    }

    /// The session that is used, and what it has waited.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Numbers of the columns that an UPDATE changes.
    pub fn columns(&self) -> &[i16] {
        &self.plan.columns
    }

    pub fn options(&self) -> &WriteOptions {
        &self.target.options.write
    }

    /// Numbers of the columns that the shard returns, None if it returns no rows.
    pub fn returning(&self) -> Option<&[i16]> {
        self.plan.returning.as_deref()
    }

    /// Decides how rows travel, at the first of them. `junk`: where a row of the plan below has the values that identify
    /// it, from 0.
    pub fn start(&mut self, circumstances: Circumstances, junk: &[usize]) -> Result<()> {
        let session = self.usage.session()?;
        session.enter()?;
        let (relid, root) = (self.plan.relid, self.place.root);
        let remote = remote_relation(&session, &self.target, relid, root)?;
        if remote.is_foreign && self.identity == Identity::Place {
            return Err(self.not_identified());
        }
        let encoding = |attnums: &[i16]| {
            let sent = Sent {
                attnums: attnums.to_vec(),
                named: Vec::new(),
                overriding: false,
            };
            Encoding::new(&self.target, &sent, &remote, session.shard_version())
        };
        let (sent, generated) = self.split_columns();
        let mut values = encoding(&sent);
        let mut identity = match &self.identity {
            Identity::Place => Encoding {
                columns: place_columns(),
                encoders: vec![
                    Encoder::plain(0, pg_sys::TIDOID),
                    Encoder::plain(0, pg_sys::OIDOID),
                ],
                remote_types: Vec::new(),
            },
            Identity::Key(key) => encoding(key),
        };
        let encoders = identity.encoders.into_iter();
        identity.encoders = encoders
            .zip(junk)
            .map(|(encoder, &index)| encoder.at(index))
            .collect();
        self.reason = self.single_reason(circumstances).or_else(|| {
            let needs_parameters =
                values.needs_parameters_per_row() || identity.needs_parameters_per_row();
            needs_parameters.then_some(SingleReason::Type)
        });
        self.mode = Some(if self.reason.is_some() {
            let text = |encoders: &[Encoder]| encoders.iter().map(Encoder::as_text).collect();
            Mode::Single(RowWriter::new(
                session,
                &self.target.relation.name,
                self.single_row(),
                text(&identity.encoders),
                text(&values.encoders),
                self.plan.returning.is_some(),
                self.place.command_id,
            ))
        } else {
            let remote = &self.target.remote;
            let columns = identity.columns.iter().chain(&values.columns);
            let forms = ChangeForms {
                checked_types: [&identity.columns, &values.columns]
                    .into_iter()
                    .flat_map(|columns| checked_types(columns))
                    .collect(),
                element_oids: columns.map(Column::element_oid).collect(),
                sql: match self.plan.is_update {
                    true => {
                        update_from_arrays(remote, &identity.columns, &values.columns, &generated)
                    }
                    false => delete_from_arrays(remote, &identity.columns),
                },
                sql_of_one_table: match (&self.identity, identity.columns.first()) {
                    (Identity::Place, Some(ctid)) if !self.plan.is_update => {
                        Some(Rc::new(delete_places(remote, ctid)))
                    }
                    _ => None,
                },
                identity: identity.encoders,
                values: std::mem::take(&mut values.encoders),
            };
            let owner = ChangeOwner {
                table: self.target.relation.name.as_slice().into(),
                server: self.target.server.name.clone(),
                level: xact::nest_level(),
                command_id: self.place.command_id,
            };
            // A key that names two rows is noticed by what the statement hits only if it is sent once.
            let can_repeat = self.place.can_repeat || self.identity != Identity::Place;
            let options = self.target.options.write;
            let buffer = Rc::new(ChangeBuffer::new(owner, forms, options, can_repeat));
            session.add_pending(buffer.clone());
            Mode::Buffered(buffer)
        });
        Ok(())
    }

    /// Numbers of the columns that get new values, and of those that the shard computes.
    fn split_columns(&self) -> (Vec<i16>, Vec<i16>) {
        let remote = &self.target.remote;
        let columns = self.plan.columns.iter();
        columns.partition(|&&attnum| !remote.is_generated(attnum))
    }

    /// Why rows go one at a time, as far as it is known without the shard.
    fn single_reason(&self, circumstances: Circumstances) -> Option<SingleReason> {
        let key = match &self.identity {
            Identity::Place => &[][..],
            Identity::Key(key) => key,
        };
        let reason = circumstances.single_reason(self.options().batch_size);
        if reason.is_some() {
            reason
        } else if self.plan.columns.iter().any(|attnum| key.contains(attnum)) {
            Some(SingleReason::KeyChanged)
        } else if self.place.can_repeat && !key.is_empty() {
            Some(SingleReason::KeyRepeated)
        } else {
            None
        }
    }

    /// The statement for one row.
    fn single_row(&self) -> Sql {
        let (remote, plan) = (&self.target.remote, &self.plan);
        let returning = plan.returning.as_deref();
        match plan.is_update {
            true => update_row(remote, &self.identity, &plan.columns, returning),
            false => delete_row(remote, &self.identity, returning),
        }
    }

    /// How rows travel, or would: before the first one the shard's column types are unknown, so the statement is that
    /// for one row.
    pub fn preview(&self, circumstances: Circumstances) -> ChangePreview {
        let (sql, reason) = match &self.mode {
            Some(Mode::Buffered(buffer)) => (buffer.sql().clone(), None),
            Some(Mode::Single(writer)) => (writer.sql().clone(), self.reason),
            None => (self.single_row(), self.single_reason(circumstances)),
        };
        ChangePreview {
            sql,
            batch_size: match reason {
                Some(_) => 1,
                None => self.options().batch_size,
            },
            single_reason: reason,
            flush_policy: match (reason, policy::flush_policy(self.options())) {
                // A row that goes alone waits for nothing.
                (Some(_), _) => FlushPolicy::Row,
                // That is for INSERT.
                (None, FlushPolicy::Transaction) => FlushPolicy::Statement,
                (None, policy) => policy,
            },
        }
    }

    /// Takes a row over. `old` is the row of the plan below, `new` the row as it is to be. [`Change::start`] must have been
    /// called.
    pub fn write(&mut self, old: &Row, new: &Row) -> Result<Outcome> {
        match &mut self.mode {
            Some(Mode::Buffered(buffer)) => {
                let session = self.usage.session()?;
                session.check()?;
                buffer.check()?;
                check_identity(&self.target, &self.identity, buffer.identity(), old)?;
                let Some(appended) = buffer.append(old, new)? else {
                    return Ok(Outcome::Nothing);
                };
                if let Some(cause) = appended.full {
                    let rows: Rc<dyn PendingRows> = buffer.clone();
                    session.flush(&rows, cause)?;
                }
                if appended.has_grown {
                    memory::make_room()?;
                    nudge_all()?;
                }
                Ok(Outcome::Buffered)
            }
            Some(Mode::Single(writer)) => {
                check_identity(&self.target, &self.identity, writer.identity(), old)?;
                if let Some(seen) = &mut self.seen {
                    if !seen.insert(identity_bytes(writer.identity(), old)?) {
                        return Ok(Outcome::Nothing);
                    }
                }
                let outcome = writer.write(old, new)?;
                if let (Outcome::Nothing, Some(Mode::Single(writer))) = (&outcome, &self.mode) {
                    self.check_missed(self.plan.is_update, writer.sql(), &writer.subject())?;
                }
                Ok(outcome)
            }
            None => Err(FdwError::internal("a row came before its target was ready")),
        }
    }

    /// Deletes a row, and says whether it was there. [`Change::start`] must have been called.
    pub fn remove(&mut self, old: &Row) -> Result<bool> {
        let encoders = match &self.mode {
            Some(Mode::Buffered(buffer)) => {
                buffer.check()?;
                buffer.identity()
            }
            Some(Mode::Single(writer)) => writer.identity(),
            None => return Err(FdwError::internal("a row came before its target was ready")),
        };
        check_identity(&self.target, &self.identity, encoders, old)?;
        if let Some(seen) = &mut self.seen {
            if !seen.insert(identity_bytes(encoders, old)?) {
                return Ok(false);
            }
        }
        let remover = match &mut self.remover {
            Some(remover) => remover,
            None => self.remover.insert(RowWriter::new(
                self.usage.session()?,
                &self.target.relation.name,
                delete_row(&self.target.remote, &self.identity, None),
                encoders.iter().map(Encoder::as_text).collect(),
                Vec::new(),
                false,
                self.place.command_id,
            )),
        };
        let is_done = matches!(remover.write(old, old)?, Outcome::Done);
        if let (false, Some(remover)) = (is_done, &self.remover) {
            self.check_missed(false, remover.sql(), &remover.subject())?;
        }
        Ok(is_done)
    }

    /// Adds what waits to the current message of its session. Returns the session, to be drained.
    pub fn flush(&self, cause: FlushCause) -> Result<Option<SessionRef>> {
        let (Some(Mode::Buffered(buffer)), Some(session)) = (&self.mode, self.usage.found()) else {
            return Ok(None);
        };
        let rows: Rc<dyn PendingRows> = buffer.clone();
        session.put(&rows, cause)?;
        Ok(Some(session.clone()))
    }

    /// Number of rows changed since the last call. All batches must have been answered.
    pub fn take_changed(&self) -> Result<u64> {
        match &self.mode {
            Some(Mode::Buffered(buffer)) => {
                buffer.check()?;
                if let Some(subject) = buffer.take_missed() {
                    self.check_missed(self.plan.is_update, buffer.sql(), &subject)?;
                }
                Ok(buffer.take_unreported())
            }
            _ => Ok(0),
        }
    }

    /// A row that the scan has locked was not changed. If nothing on the shard can be the reason, the statement itself has changed it
    /// before, by a trigger or function: for a local table an error of `ExecUpdate` and `ExecDelete`. Below a join a row may
    /// have come before; and a row that is found by its key need not be the one that was read.
    fn check_missed(&self, is_update: bool, sql: &Sql, subject: &Subject) -> Result<()> {
        if self.place.can_repeat || self.identity != Identity::Place {
            return Ok(());
        }
        let Some(session) = self.usage.found() else {
            return Ok(());
        };
        let remote = &self.target.remote;
        if !session.changes_every_row(self.plan.relid, remote, is_update)? {
            return Ok(());
        }
        let done = if is_update { "updated" } else { "deleted" };
        let error = FdwError::local(
            SqlState::TRIGGERED_DATA_CHANGE_VIOLATION,
            format!("tuple to be {done} was already modified by an operation triggered by the current command"),
        )
        .with_hint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.");
        Err(add_context(error, &session.server().name, sql, subject))
    }

    /// The statement is over.
    pub fn end(&self) -> Result<()> {
        let (Some(Mode::Buffered(buffer)), Some(session)) = (&self.mode, self.usage.found()) else {
            return Ok(());
        };
        session.check()?;
        if !buffer.is_empty() {
            return Err(FdwError::internal(format!(
                "rows for foreign table \"{}\" were left behind at the end of the statement",
                self.target.relation.display_name()
            )));
        }
        let rows: Rc<dyn PendingRows> = buffer.clone();
        session.remove_pending(&rows);
        Ok(())
    }

    /// Counters of this statement.
    pub fn stats(&self) -> WriteStats {
        let stats = match &self.mode {
            Some(Mode::Buffered(buffer)) => buffer.stats(),
            Some(Mode::Single(writer)) => writer.stats(),
            None => WriteStats::default(),
        };
        match &self.remover {
            Some(remover) => stats.and(remover.stats()),
            None => stats,
        }
    }

    /// The remote relation is a foreign table itself: whose ctid that is nobody knows.
    fn not_identified(&self) -> FdwError {
        FdwError::unsupported(format!(
            "cannot tell remote rows of foreign table \"{}\" apart",
            self.target.relation.display_name()
        ))
        .with_detail("The remote relation is a foreign table, or has one as partition or child.")
        .with_hint(NEEDS_KEY)
    }
}

/// A null identifies nothing: compared as equal to other nulls it could hit rows that are not meant, and compared as
/// PostgreSQL does it would silently hit none.
fn check_identity(
    target: &Target,
    identity: &Identity,
    encoders: &[Encoder],
    old: &Row,
) -> Result<()> {
    let Some(position) = encoders.iter().position(|encoder| encoder.is_null(old)) else {
        return Ok(());
    };
    let column = match identity {
        Identity::Place => None,
        Identity::Key(key) => key
            .get(position)
            .and_then(|&attnum| target.relation.column(attnum)),
    };
    let Some(column) = column else {
        return Err(FdwError::internal("a row has no place on its shard"));
    };
    Err(FdwError::local(
        SqlState::NULL_VALUE_NOT_ALLOWED,
        format!(
            "key column \"{}\" of foreign table \"{}\" is null",
            text::from_bytes(&column.name),
            target.relation.display_name()
        ),
    )
    .with_detail("A row without a key cannot be found on the shard."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_list() {
        let mut plan = ChangePlan {
            relid: Oid::from_u32(u32::MAX),
            is_update: true,
            columns: vec![3, 1],
            returning: Some(vec![]),
        };
        assert_eq!(ChangePlan::from_items(plan.to_items()).unwrap(), plan);
        plan.returning = None;
        plan.is_update = false;
        assert_eq!(ChangePlan::from_items(plan.to_items()).unwrap(), plan);
        let mut long = plan.to_items();
        long.push(Item::Int(1));
        assert!(ChangePlan::from_items(long).is_err());
    }
}
