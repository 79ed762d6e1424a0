//! INSERT and COPY into one foreign table, within one statement.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::insert::{Clauses, Conflict};
use crate::model::option::{FlushPolicy, OnConflict, Transport};
use crate::model::sql::Sql;
use crate::model::statement::insert_row;
use crate::model::text;
use crate::pg::target::Target;
use crate::pg::value::Row;
use crate::pg::xact;
use crate::pq::PgResult;
use crate::remote::copyable::{self, Verdict};
use crate::remote::pending::{Kept, PendingRows};
use crate::remote::relation::{Asked, RemoteRelation};
use crate::remote::session::{drain_all, SessionRef};
use crate::remote::stats::{FlushCause, WriteStats};
use crate::remote::tree::{ask_tree, asked, remote_relation, tables_of_tree};
use crate::remote::usage::{Usage, Writing};
use crate::remote::{cache, memory};
use crate::write::buffer::{Owner, RelationBuffer};
use crate::write::columns::Sent;
use crate::write::kept;
use crate::write::policy::{self, Circumstances, SingleReason};
use crate::write::shape::{Made, Shape};
use crate::write::single::SingleRow;
use crate::write::transport::Stream;
use crate::write::upsert::{self, Keys};
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::rc::Rc;

/// After how many growths of buffers the connections get a chance to go on.
const GROWTHS_BETWEEN_NUDGES: u32 = 4;

thread_local! {
    static GROWTHS_SINCE_NUDGE: Cell<u32> = const { Cell::new(0) };
}

/// Who counts the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// A ModifyTable node: the flush adds what the shards stored.
    AtFlush,
    /// COPY and others: whoever hands over a row counts it at once.
    AtOnce,
}

/// Where and for whom a statement inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub relid: Oid,
    /// The relation that the statement names: the foreign table itself, or a partitioned table above it.
    pub root: Oid,
    /// Whose user mapping is used.
    pub user: Oid,
    pub command_id: u32,
    pub counting: Counting,
    /// The statement says ON CONFLICT DO NOTHING.
    pub ignore_conflicts: bool,
    /// It is an INSERT or COPY; others insert what they move, and know nothing of the option `on_conflict`.
    pub is_insert: bool,
}

/// What has become of a row.
pub enum Accepted {
    /// It waits in the buffer.
    Buffered,
    /// The shard has answered: with the stored row, if that is wanted, or with nothing if it dropped the row.
    Answered(PgResult),
}

/// How a target's rows travel, for EXPLAIN.
pub struct Preview {
    pub sql: Sql,
    /// Most rows of one statement.
    pub batch_size: usize,
    /// Why they go one at a time, if they do.
    pub single_reason: Option<SingleReason>,
    /// When rows have to be on the shard.
    pub flush_policy: FlushPolicy,
    /// Batches go by COPY now.
    pub copies: bool,
}

enum Mode {
    Buffered(Rc<RelationBuffer>),
    Single(SingleRow),
}

/// State of one target of an INSERT or COPY.
pub struct Insert {
    place: Place,
    target: Rc<Target>,
    usage: Usage,
    _writing: Writing,
    /// The option as far as it counts: the clause of a statement goes before it.
    on_conflict: OnConflict,
    mode: Option<Mode>,
    reason: Option<SingleReason>,
    wants_stored_row: bool,
    /// Rows may wait beyond the end of the statement.
    is_kept: bool,
    /// What the buffer had counted before.
    before: WriteStats,
    /// Rows taken over whose number nobody else knows.
    accepted: u64,
}

impl Insert {
    /// Neither connects nor asks the shard anything.
    pub fn new(place: Place) -> Result<Insert> {
        let target = Target::known(place.relid)?;
        let on_conflict = match place.is_insert && !place.ignore_conflicts {
            true => target.options.on_conflict,
            false => OnConflict::Error,
        };
        if on_conflict != OnConflict::Error {
            upsert::check_key(&target)?;
        }
        Ok(Insert {
            place,
            usage: Usage::new(target.server.oid, place.user),
            _writing: Writing::new(),
            target,
            on_conflict,
            mode: None,
            reason: None,
            wants_stored_row: false,
            is_kept: false,
            before: WriteStats::default(),
            accepted: 0,
        })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn counting(&self) -> Counting {
        self.place.counting
    }

    /// Does a row that is accepted count at once, whatever the shard says later?
    pub fn counts_at_once(&self) -> bool {
        self.place.counting == Counting::AtOnce || self.is_kept
    }

    pub fn on_conflict(&self) -> OnConflict {
        self.on_conflict
    }

    /// Has the first row decided how rows travel?
    pub fn has_started(&self) -> bool {
        self.mode.is_some()
    }

    pub fn wants_stored_row(&self) -> bool {
        self.wants_stored_row
    }

    /// The session that is used, and what it has waited.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// For COPY, before its first row: can the shard store fewer rows than it is given? Asked anew each time, for
    /// all leaves of the tree on that server at once.
    pub fn shard_may_drop_rows(&mut self) -> Result<bool> {
        if self.on_conflict == OnConflict::Nothing {
            return Ok(true);
        }
        let session = self.usage.session()?;
        if !session.asked_by(self.place.command_id, self.place.root) {
            let (relid, root) = (self.place.relid, self.place.root);
            ask_tree(&session, &self.target, relid, root)?;
        }
        Ok(self.remote_relation()?.may_drop_rows)
    }

    /// Decides how rows travel, at the first of them. `is_named`: does the statement name this column?
    pub fn start(
        &mut self,
        circumstances: Circumstances,
        is_named: impl Fn(i16) -> bool,
        forced: Option<SingleReason>,
    ) -> Result<()> {
        let session = self.usage.session()?;
        session.enter()?;
        let sent = Sent::new(&self.target, is_named);
        self.reason = circumstances
            .single_reason(self.target.options.write.batch_size)
            .or(forced);
        if self.reason.is_none() && self.on_conflict == OnConflict::Update {
            let place = (self.place.relid, self.place.root);
            self.reason = upsert::single_reason(&session, &self.target, &sent, place)?;
        }
        self.wants_stored_row = circumstances.needs_stored_row();
        let clauses = self.clauses(&sent);
        self.mode = Some(if self.reason.is_some() {
            Mode::Single(SingleRow::insert(
                session,
                &self.target,
                &sent,
                self.single_row(&sent, circumstances),
                self.place.command_id,
            ))
        } else if let Some(buffer) = self.kept_buffer(&session, &sent, &clauses)? {
            self.is_kept = true;
            self.before = buffer.stats();
            Mode::Buffered(buffer)
        } else {
            let buffer = Rc::new(self.buffer(&session, &sent, clauses, None)?);
            session.add_pending(buffer.clone());
            Mode::Buffered(buffer)
        });
        Ok(())
    }

    /// May rows wait beyond the end of the statement, as far as is known without the shard?
    fn may_be_kept(&self, clauses: &Clauses) -> bool {
        self.place.is_insert
            && self.place.counting == Counting::AtFlush
            && clauses.conflict == Conflict::Fail
            && policy::flush_policy(&self.target.options.write) == FlushPolicy::Transaction
    }

    /// The buffer that rows of several statements share, if they may.
    fn kept_buffer(
        &mut self,
        session: &SessionRef,
        sent: &Sent,
        clauses: &Clauses,
    ) -> Result<Option<Rc<RelationBuffer>>> {
        if !self.may_be_kept(clauses) {
            return Ok(None);
        }
        let target = self.target.clone();
        let wanted = kept::Wanted {
            relation: self.place.relid,
            session,
            target: &target,
            level: xact::nest_level(),
            sent,
            clauses,
        };
        let (found, others) = kept::find(&wanted);
        for other in others {
            let rows: Rc<dyn PendingRows> = other;
            session.flush(&rows, FlushCause::Barrier)?;
        }
        let buffer = match found {
            Some(buffer) => buffer,
            None => {
                let remote = self.remote_relation()?;
                if remote.may_drop_rows {
                    return Ok(None);
                }
                let relation = self.place.relid;
                let kept = match session.freshly_known_relation(relation) {
                    Some(remote) => Kept {
                        relation,
                        order: remote.order,
                        is_assumed: false,
                    },
                    None => Kept::assumed(relation),
                };
                let buffer = self.buffer(session, sent, clauses.clone(), Some(kept))?;
                let buffer = Rc::new(buffer);
                session.add_pending(buffer.clone());
                kept::add(&wanted, &buffer);
                buffer
            }
        };
        if session.should_ask_for_order() {
            self.ask_for_order(session)?;
        }
        let rows: Rc<dyn PendingRows> = buffer.clone();
        session.make_way(&rows, self.place.command_id)?;
        Ok(Some(buffer))
    }

    /// Asks the shard what the order of rows that are kept may matter to, of all tables that have such rows and of all
    /// leaves of the tree: in one question, so that rows need not go in the order of their statements if nobody cares.
    fn ask_for_order(&self, session: &SessionRef) -> Result<()> {
        let buffers = kept::assumed(session);
        let own = tables_of_tree(&self.target, self.place.relid, self.place.root)?;
        let others = buffers.iter();
        let mut tables: Vec<Asked> = others
            .map(|(relation, target, _)| asked(*relation, target))
            .collect();
        let is_new = |table: &Asked| !buffers.iter().any(|(other, ..)| *other == table.relid);
        tables.extend(own.into_iter().filter(is_new));
        let answers = session.ask_relations(&tables)?;
        session.note_order(buffers.into_iter().zip(answers).map(
            |((relation, _, buffer), remote)| {
                let rows: Rc<dyn PendingRows> = buffer;
                let kept = Kept {
                    relation,
                    order: remote.order,
                    is_assumed: false,
                };
                (rows, kept)
            },
        ));
        Ok(())
    }

    fn buffer(
        &mut self,
        session: &SessionRef,
        sent: &Sent,
        clauses: Clauses,
        kept: Option<Kept>,
    ) -> Result<RelationBuffer> {
        let remote = self.remote_relation()?;
        let options = self.target.options.write;
        let mut shape = self.shape(session, sent, &clauses, &remote);
        let obstacle = obstacle(&clauses, sent, &remote, options.transport);
        let key = shape.question.last().map(|statement| &statement.sql);
        let known = session.copy_question(key.unwrap_or(&Rc::default()));
        if options.transport == Transport::Copy {
            let verdict = match obstacle {
                Some(obstacle) => Some(Verdict::No(obstacle)),
                None => {
                    session.ask_whether_to_copy(&shape.question, &known)?;
                    known.verdict()
                }
            };
            match verdict {
                Some(Verdict::No(reason)) => return Err(self.not_copyable(reason)),
                Some(Verdict::Yes { types, .. }) if shape.forms.encoding.remote_types != *types => {
                    // What was known is out of date.
                    session.forget_relations();
                    let remote = self.remote_relation()?;
                    shape = self.shape(session, sent, &clauses, &remote);
                    if shape.forms.encoding.remote_types != *types {
                        return Err(self.not_copyable(copyable::CHANGED));
                    }
                }
                _ => {}
            }
            if !shape.forms.encoding.can_be_copied() {
                return Err(self.not_copyable("a column of type \"char\" would travel as text"));
            }
        }
        let stream = Stream::new(options, obstacle.is_none(), known, session.pending_count());
        let owner = Owner {
            shape,
            level: xact::nest_level(),
            kept,
        };
        let keys = match self.on_conflict {
            OnConflict::Update => Keys::new(&self.target),
            OnConflict::Error | OnConflict::Nothing => None,
        };
        Ok(RelationBuffer::new(owner, options, stream, keys))
    }

    fn shape(
        &self,
        session: &SessionRef,
        sent: &Sent,
        clauses: &Clauses,
        remote: &Rc<RemoteRelation>,
    ) -> Rc<Shape> {
        Shape::of(&Made {
            relation: self.place.relid,
            target: &self.target,
            remote,
            sent,
            clauses,
            shard_version: session.shard_version(),
        })
    }

    fn not_copyable(&self, reason: &str) -> FdwError {
        FdwError::unsupported(format!(
            "cannot use COPY for foreign table \"{}\"",
            self.target.relation.display_name()
        ))
        .with_detail(format!(
            "COPY would not mean the same as INSERT for the remote table, because {reason}."
        ))
        .with_hint("Set the option \"transport\" to \"auto\" or \"insert\".")
    }

    fn clauses(&self, sent: &Sent) -> Clauses {
        Clauses {
            overriding: sent.overriding,
            conflict: match self.place.ignore_conflicts {
                true => Conflict::Ignore,
                false => upsert::conflict(self.on_conflict, &self.target, sent),
            },
        }
    }

    /// The statement for one row.
    fn single_row(&self, sent: &Sent, circumstances: Circumstances) -> Sql {
        let returning = circumstances
            .needs_stored_row()
            .then(|| circumstances.stored_columns(&self.target.relation));
        insert_row(
            &self.target.remote,
            &sent.attnums,
            &self.clauses(sent),
            returning.as_deref(),
        )
    }

    /// How rows travel, or would: before the first one the shard's column types are unknown, so the statement is that
    /// for one row. The arguments are those of [`Insert::start`].
    pub fn preview(
        &self,
        circumstances: Circumstances,
        is_named: impl Fn(i16) -> bool,
    ) -> Result<Preview> {
        let write = self.target.options.write;
        let mut is_kept = self.is_kept;
        let ((sql, copies), reason) = match &self.mode {
            Some(Mode::Buffered(buffer)) => (buffer.sql(), None),
            Some(Mode::Single(single)) => ((single.sql().clone(), false), self.reason),
            None => {
                let sent = Sent::new(&self.target, is_named);
                let sql = self.single_row(&sent, circumstances);
                is_kept = self.may_be_kept(&self.clauses(&sent));
                (
                    (sql, write.transport == Transport::Copy),
                    circumstances.single_reason(write.batch_size).or_else(|| {
                        match self.on_conflict {
                            OnConflict::Update => upsert::local_reason(&self.target, &sent),
                            OnConflict::Error | OnConflict::Nothing => None,
                        }
                    }),
                )
            }
        };
        Ok(Preview {
            sql,
            batch_size: match (&self.mode, reason) {
                (_, Some(_)) => 1,
                (Some(Mode::Buffered(buffer)), None) => buffer.batch_size(),
                (_, None) => write.batch_size,
            },
            single_reason: reason,
            flush_policy: match reason {
                // A row that goes alone waits for nothing.
                Some(_) => FlushPolicy::Row,
                None => match policy::flush_policy(&write) {
                    FlushPolicy::Transaction if !is_kept => FlushPolicy::Statement,
                    policy => policy,
                },
            },
            copies,
        })
    }

    /// Takes a row over. [`Insert::start`] must have been called.
    pub fn append(&mut self, row: &Row) -> Result<Accepted> {
        let session = self.usage.session()?;
        match self.mode.as_mut() {
            Some(Mode::Buffered(buffer)) => {
                session.check()?;
                if !buffer.note_key(row) {
                    let rows: Rc<dyn PendingRows> = buffer.clone();
                    session.flush(&rows, FlushCause::Repeat)?;
                    buffer.note_key(row);
                }
                let appended = buffer.append(row, self.place.command_id)?;
                self.accepted += 1;
                if let Some(cause) = appended.full {
                    // So many rows have been kept for the answer that it is better to wait for it.
                    if let Some(question) = buffer.unanswered() {
                        session.wait_for_verdict(question)?;
                    }
                    let rows: Rc<dyn PendingRows> = buffer.clone();
                    session.flush(&rows, cause)?;
                }
                if appended.has_grown {
                    if buffer.can_stream() && session.pending_count() == 1 {
                        let rows: Rc<dyn PendingRows> = buffer.clone();
                        session.stream(&rows)?;
                    }
                    memory::make_room()?;
                    nudge_all()?;
                }
                Ok(Accepted::Buffered)
            }
            Some(Mode::Single(single)) => single.execute(row).map(Accepted::Answered),
            None => Err(FdwError::internal("a row came before its target was ready")),
        }
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

    /// Number of rows stored since the last call, as far as the shard has answered.
    pub fn take_stored(&self) -> u64 {
        match &self.mode {
            Some(Mode::Buffered(buffer)) => buffer.take_unreported(),
            _ => 0,
        }
    }

    /// The same for a batch of COPY, all of whose rows have been answered: the shard may have stored fewer.
    pub fn take_counted(&mut self) -> u64 {
        if let Some(Mode::Buffered(buffer)) = &self.mode {
            self.accepted = buffer.totals().1;
        }
        self.take_stored()
    }

    /// The statement is over. Sends what COPY has left, on all shards in one wait, and compares the numbers.
    pub fn end(&mut self) -> Result<()> {
        let (Some(Mode::Buffered(buffer)), Some(session)) = (&self.mode, self.usage.found()) else {
            return Ok(());
        };
        session.check()?;
        if self.is_kept {
            // Nobody knows when the next rows will come.
            return match session.close_copy() {
                true => session.nudge(),
                false => Ok(()),
            };
        }
        match self.place.counting {
            Counting::AtFlush if !buffer.is_empty() => {
                return Err(FdwError::internal(format!(
                    "rows for foreign table \"{}\" were left behind at the end of the statement",
                    self.target.relation.display_name()
                )));
            }
            Counting::AtFlush => {}
            Counting::AtOnce => {
                let sessions = cache::in_transaction();
                for session in &sessions {
                    session.flush_level(FlushCause::End, xact::nest_level())?;
                }
                drain_all(
                    &sessions
                        .iter()
                        .map(|session| &**session)
                        .collect::<Vec<_>>(),
                )?;
                let (_, answered) = buffer.totals();
                if answered != self.accepted {
                    session.forget_relations();
                    return Err(self.miscounted(answered));
                }
            }
        }
        let rows: Rc<dyn PendingRows> = buffer.clone();
        session.remove_pending(&rows);
        Ok(())
    }

    /// A trigger or rule that was made while COPY ran: rather an error than a wrong count.
    fn miscounted(&self, answered: u64) -> FdwError {
        FdwError::local(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "server \"{}\" stored {answered} of {} of foreign table \"{}\"",
                self.target.server.display_name(),
                text::rows(self.accepted),
                self.target.relation.display_name()
            ),
        )
        .with_detail(
            "The remote table got a trigger or a rule that drops rows while COPY was running.",
        )
    }

    /// Counters of this statement.
    pub fn stats(&self) -> WriteStats {
        match &self.mode {
            Some(Mode::Buffered(buffer)) => buffer.stats().since(self.before),
            Some(Mode::Single(single)) => single.stats(),
            None => WriteStats::default(),
        }
    }

    fn remote_relation(&mut self) -> Result<Rc<RemoteRelation>> {
        let session = self.usage.session()?;
        remote_relation(&session, &self.target, self.place.relid, self.place.root)
    }
}

/// What of a target keeps its rows from going by COPY, before the shard is asked.
fn obstacle(
    clauses: &Clauses,
    sent: &Sent,
    remote: &RemoteRelation,
    transport: Transport,
) -> Option<&'static str> {
    if clauses.conflict == Conflict::Ignore {
        Some("the statement has ON CONFLICT")
    } else if clauses.conflict != Conflict::Fail {
        Some("the foreign table has the option \"on_conflict\"")
    } else if sent.attnums.is_empty() {
        Some("no column gets a value")
    } else if transport == Transport::Auto && !remote.can_be_locked {
        // LOCK TABLE would fail, and with it the transaction.
        Some("the remote user has no privilege on the whole table")
    } else {
        None
    }
}

/// Every so often, lets the connections send and read what they can, and looks for errors.
pub(super) fn nudge_all() -> Result<()> {
    let growths = GROWTHS_SINCE_NUDGE.get() + 1;
    if growths < GROWTHS_BETWEEN_NUDGES {
        GROWTHS_SINCE_NUDGE.set(growths);
        return Ok(());
    }
    GROWTHS_SINCE_NUDGE.set(0);
    for session in cache::in_transaction() {
        session.nudge()?;
    }
    Ok(())
}
