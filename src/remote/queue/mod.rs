//! What is under way on a connection: statements sent whose answers have not been read, first in, first out.
//!
//! Statements share libpq's pipeline. A COPY cannot: it waits until all before it has been answered, and what comes after
//! it waits, in a backlog, until the COPY is over.

mod copy;

use crate::model::error::{Diag, FdwError, SqlState};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pq::{Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::budget::Share;
use crate::remote::connect::{Difference, SettingsWatch};
use crate::remote::copyable::CopyQuestion;
use crate::remote::cursor::CursorState;
use crate::remote::pending::PendingRows;
use crate::remote::relation;
use crate::remote::statement::{add_context, CopyIn, Statement, Subject};
use copy::{Running, Step};
use std::collections::VecDeque;
use std::rc::Rc;

/// What becomes of the answer to a statement.
#[derive(Clone)]
pub enum Role {
    /// Only an error matters.
    Forget,
    /// Somebody waits for it: [`Queue::take_answer`].
    Ticket(u64),
    /// The number of rows goes to the buffer they came from.
    Batch(Rc<dyn PendingRows>),
    /// It says whether COPY can be used.
    Question(Rc<CopyQuestion>),
    /// The rows are kept for the scan that will want them.
    Ahead(Rc<CursorState>),
    /// It sets a savepoint: only an error matters, but the shard tells at once when it is over.
    Savepoint,
    /// The end of a message.
    Sync,
}

/// An error, and the level of nesting that it spoils: that of the statement that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Depth of the remote transaction where the statement belongs; [`BEGINNING`] for one that begins it.
    pub level: i32,
    pub error: FdwError,
}

/// Ends a remote transaction well.
pub const COMMIT: &str = "COMMIT TRANSACTION";

/// The level of BEGIN and what goes with it: if that fails, there is no remote transaction.
pub const BEGINNING: i32 = 0;

struct Entry {
    role: Role,
    level: i32,
    sql: Rc<Sql>,
    subject: Subject,
    /// Bytes of text and parameters, for the limit of what may be in flight.
    bytes: usize,
    /// Something has come: a result, an error, or that it was skipped.
    is_answered: bool,
    result: Option<PgResult>,
}

impl Entry {
    /// Has it brought values that somebody reads?
    fn has_rows(&self) -> bool {
        let is_read = matches!(self.role, Role::Ticket(_) | Role::Ahead(_));
        let result = self.result.as_ref();
        is_read && result.is_some_and(|result| result.status() == ResultStatus::TuplesOk)
    }
}

/// What waits for a COPY to end, or is one.
enum Waiting {
    Statement {
        statement: Statement,
        role: Role,
        level: i32,
    },
    Sync,
    Copy {
        copy: CopyIn,
        role: Role,
        level: i32,
        /// No rows will be added.
        closed: bool,
    },
}

impl Waiting {
    /// Text and subject.
    fn what(&self) -> Option<(&Sql, &Subject)> {
        match self {
            Waiting::Statement { statement, .. } => Some((&statement.sql, &statement.subject)),
            Waiting::Sync => None,
            Waiting::Copy { copy, .. } => Some((&copy.sql, &copy.subject)),
        }
    }

    fn level(&mut self) -> Option<&mut i32> {
        match self {
            Waiting::Statement { level, .. } | Waiting::Copy { level, .. } => Some(level),
            Waiting::Sync => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Waiting::Statement { statement, .. } => statement.len(),
            Waiting::Sync => 0,
            Waiting::Copy { copy, .. } => copy.rows.len(),
        }
    }
}

type Sent<T> = std::result::Result<T, Vec<u8>>;

/// The answer to a statement with a ticket.
pub type Reply = std::result::Result<PgResult, FdwError>;

/// The queue of one connection.
#[derive(Default)]
pub struct Queue {
    /// In libpq's pipeline.
    entries: VecDeque<Entry>,
    running: Option<Running>,
    backlog: VecDeque<Waiting>,
    backlog_bytes: usize,
    answers: Vec<(u64, Reply)>,
    next_ticket: u64,
    /// Bytes of the statements in libpq's pipeline.
    pipeline_bytes: usize,
    unsent: bool,
    /// Answers with rows, until the end of their message tells that the rows have the form that was asked for.
    rows: Vec<Entry>,
    /// The lowest level of the statements answered since the last end of a message.
    lowest: Option<i32>,
    /// Bytes of statements handed to libpq since it last had sent everything: it holds no more than these.
    handed_over: usize,
    /// What of the memory that rows may take is taken here.
    share: Share,
    /// A message has ended and nothing has been answered since.
    awaiting: bool,
    round_trips: u64,
    /// The first error since it was last taken.
    error: Option<Failure>,
    /// The message being answered has ended the remote transaction.
    has_committed: bool,
    /// See [`Queue::take_types_changed`].
    types_changed: bool,
    /// The shard has ended the session, with this.
    farewell: Option<Box<Diag>>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.running.is_none() && self.backlog.is_empty()
    }

    /// Is a savepoint being set? A cancel request must not hit that: what is to be undone could be undone no more.
    pub fn sets_savepoint(&self) -> bool {
        let is_savepoint = |entry: &Entry| matches!(entry.role, Role::Savepoint);
        self.entries.iter().any(is_savepoint)
    }

    /// Is there anything under way that may take long?
    pub fn may_take_long(&self) -> bool {
        let is_quick = |entry: &Entry| matches!(entry.role, Role::Savepoint | Role::Sync);
        self.has_backlog() || !self.entries.iter().all(is_quick)
    }

    /// Have statements been added since the last message ended?
    pub fn has_open_message(&self) -> bool {
        match (self.backlog.back(), &self.running, self.entries.back()) {
            (Some(last), _, _) => matches!(last, Waiting::Statement { .. }),
            (None, Some(_), _) => false,
            (None, None, last) => last.is_some_and(|entry| !matches!(entry.role, Role::Sync)),
        }
    }

    /// Bytes of statements and data whose answers have not come.
    pub fn bytes_in_flight(&self) -> usize {
        self.pipeline_bytes + self.unsent_data()
    }

    /// Bytes that the socket may not have taken yet.
    pub fn unsent_bytes(&self) -> usize {
        self.handed_over.min(self.pipeline_bytes) + self.unsent_data()
    }

    fn unsent_data(&self) -> usize {
        let running = self.running.as_ref().map_or(0, Running::held_bytes);
        running + self.backlog_bytes
    }

    /// Has libpq bytes that the socket did not take?
    pub fn has_unsent(&self) -> bool {
        self.unsent
    }

    pub fn new_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Takes a statement, whose error would spoil `level`. Nothing is sent for certain before [`Queue::end_message`].
    pub fn send(
        &mut self,
        connection: &mut Connection,
        statement: &Statement,
        role: Role,
        level: i32,
    ) -> Sent<()> {
        if self.has_backlog() {
            self.wait(Waiting::Statement {
                statement: statement.clone(),
                role,
                level,
            });
            return Ok(());
        }
        self.hand_over(connection, statement, role, level)?;
        self.share.set(self.unsent_bytes());
        Ok(())
    }

    /// Takes rows for a COPY: that which is open for them, or else one that is a message of its own.
    pub fn copy(
        &mut self,
        connection: &mut Connection,
        copy: CopyIn,
        role: Role,
        level: i32,
    ) -> Sent<()> {
        if let Some(running) = self.open_copy(&role) {
            running.extend(copy);
            self.share.set(self.unsent_bytes());
            return Ok(());
        }
        if self.has_open_message() {
            self.end_message(connection)?;
        }
        self.wait(Waiting::Copy {
            copy,
            role,
            level,
            closed: false,
        });
        Ok(())
    }

    fn open_copy(&mut self, owner: &Role) -> Option<&mut Running> {
        let is_last = self.backlog.is_empty();
        let running = self.running.as_mut();
        running.filter(|running| is_last && running.accepts(owner))
    }

    /// Is a COPY open for these rows?
    pub fn is_open_for(&mut self, owner: &Role) -> bool {
        self.open_copy(owner).is_some()
    }

    /// The answer to the last COPY is wanted: no rows will be added. Returns whether they could have been.
    pub fn close_copy(&mut self) -> bool {
        let mut was_open = false;
        if let Some(running) = &mut self.running {
            was_open = running.close();
        }
        if let Some(Waiting::Copy { closed, .. }) = self.backlog.back_mut() {
            was_open |= !std::mem::replace(closed, true);
        }
        was_open
    }

    /// Ends the message, if one is open: the shard answers everything up to here.
    pub fn end_message(&mut self, connection: &mut Connection) -> Sent<()> {
        if self.has_backlog() {
            if self.has_open_message() {
                self.wait(Waiting::Sync);
            }
            return Ok(());
        }
        self.sync(connection)?;
        self.flush(connection)?;
        self.share.set(self.unsent_bytes());
        Ok(())
    }

    fn has_backlog(&self) -> bool {
        self.running.is_some() || !self.backlog.is_empty()
    }

    fn wait(&mut self, waiting: Waiting) {
        self.close_copy();
        self.backlog_bytes += waiting.len();
        self.backlog.push_back(waiting);
        self.share.set(self.unsent_bytes());
    }

    fn hand_over(
        &mut self,
        connection: &mut Connection,
        statement: &Statement,
        role: Role,
        level: i32,
    ) -> Sent<()> {
        statement.hand_over(connection)?;
        if matches!(role, Role::Savepoint) {
            connection
                .send_flush_request()
                .map_err(|error| error.message)?;
        }
        let bytes = statement.len();
        self.pipeline_bytes += bytes;
        self.handed_over += bytes;
        self.unsent = true;
        self.entries.push_back(Entry {
            role,
            level,
            sql: statement.sql.clone(),
            subject: statement.subject.clone(),
            bytes,
            is_answered: false,
            result: None,
        });
        Ok(())
    }

    fn sync(&mut self, connection: &mut Connection) -> Sent<()> {
        connection.pipeline_sync().map_err(|error| error.message)?;
        self.unsent = true;
        self.entries.push_back(Entry {
            role: Role::Sync,
            level: BEGINNING,
            sql: Rc::default(),
            subject: Subject::default(),
            bytes: 0,
            is_answered: false,
            result: None,
        });
        self.awaiting = true;
        Ok(())
    }

    fn flush(&mut self, connection: &mut Connection) -> Sent<()> {
        self.unsent = connection.flush().map_err(|error| error.message)? == Flush::Pending;
        if !self.unsent {
            self.handed_over = 0;
        }
        Ok(())
    }

    /// Sends and reads what can be sent and read without waiting. An error says that the connection is lost; then
    /// nothing is under way any more, and what has failed before is found by [`Queue::take_error`].
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        watch: &mut SettingsWatch,
        server: &[u8],
    ) -> std::result::Result<(), FdwError> {
        let outcome = self.try_advance(connection, watch, server);
        if connection.is_bad() || outcome.is_err() {
            let failed = self.running.as_mut().and_then(Running::take_failure);
            self.error = self.error.take().or(failed);
            let reason = outcome.err().unwrap_or_else(|| connection.error_message());
            let loss = self.loss(connection, server, reason);
            self.abandon(&loss);
            return Err(loss);
        }
        self.share.set(self.unsent_bytes());
        Ok(())
    }

    /// The error of a connection that is lost: what the shard said, or else `reason`, and what was under way.
    pub fn loss(
        &mut self,
        connection: &mut Connection,
        server: &[u8],
        reason: Vec<u8>,
    ) -> FdwError {
        let farewell = self.farewell.take();
        let farewell = farewell.or_else(|| connection.farewell().map(Box::new));
        let error = FdwError::Lost {
            server: text::from_bytes(server),
            farewell,
            detail: reason,
        };
        match self.under_way() {
            Some((sql, subject)) => add_context(error, server, sql, subject),
            None => error,
        }
    }

    /// The first statement under way that is about a table, or else the first of all.
    fn under_way(&self) -> Option<(&Sql, &Subject)> {
        let running = self.running.as_ref().map(Running::what);
        let entries = self.entries.iter();
        let entries = entries.filter(|entry| !matches!(entry.role, Role::Sync));
        let backlog = self.backlog.iter().filter_map(Waiting::what);
        let all = running
            .into_iter()
            .chain(entries.map(|entry| (&*entry.sql, &entry.subject)))
            .chain(backlog);
        let about_a_table = all.clone().find(|(_, subject)| subject.table.is_some());
        about_a_table.or_else(|| all.into_iter().next())
    }

    /// The savepoint of `level` has been released: what is under way there belongs to the level above.
    pub fn leave_level(&mut self, level: i32) {
        let entries = self.entries.iter_mut().map(|entry| &mut entry.level);
        let running = self.running.iter_mut().map(|running| &mut running.level);
        let backlog = self.backlog.iter_mut().filter_map(Waiting::level);
        for of in entries.chain(running).chain(backlog) {
            *of = (*of).min(level - 1);
        }
    }

    fn try_advance(
        &mut self,
        connection: &mut Connection,
        watch: &mut SettingsWatch,
        server: &[u8],
    ) -> Sent<()> {
        loop {
            let sent = if self.unsent {
                self.flush(connection)
            } else {
                Ok(())
            };
            // While data is sent, libpq reads by itself what keeps the shard from taking it.
            let read = match self.running.as_ref().is_some_and(Running::is_sending) {
                true => Ok(()),
                false => connection.consume_input().map_err(|error| error.message),
            };
            // What has come is read also if nothing more will.
            let goes_on = match &mut self.running {
                Some(running) => {
                    let step = running.advance(connection, server, &mut self.unsent);
                    self.farewell = running.farewell.take();
                    let step = step?;
                    match step {
                        Step::Wait => false,
                        Step::Progress => true,
                        Step::Done => {
                            self.finish_copy();
                            self.end_of_message(watch.check(connection), server);
                            true
                        }
                    }
                }
                None => {
                    self.read_answers(connection, watch, server)?;
                    false
                }
            };
            sent.and(read)?;
            if !(self.start_waiting(connection)? || goes_on) {
                return Ok(());
            }
        }
    }

    /// Hands over what has waited for a COPY, up to the next one, and starts that if nothing is before it. Returns
    /// whether there was something to do.
    fn start_waiting(&mut self, connection: &mut Connection) -> Sent<bool> {
        if self.running.is_some() || self.backlog.is_empty() {
            return Ok(false);
        }
        let mut has_sent = false;
        while let Some(next) = self.backlog.front() {
            if matches!(next, Waiting::Copy { .. }) && !self.entries.is_empty() {
                break;
            }
            self.backlog_bytes -= next.len();
            match self.backlog.pop_front() {
                Some(Waiting::Statement {
                    statement,
                    role,
                    level,
                }) => {
                    self.hand_over(connection, &statement, role, level)?;
                }
                Some(Waiting::Sync) => self.sync(connection)?,
                Some(Waiting::Copy {
                    copy,
                    role,
                    level,
                    closed,
                }) => {
                    let mut running = Running::start(connection, copy, role, level)?;
                    if closed {
                        running.close();
                    }
                    self.running = Some(running);
                    self.unsent = true;
                    return Ok(true);
                }
                None => {}
            }
            has_sent = true;
        }
        Ok(has_sent)
    }

    fn finish_copy(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        self.round_trips += running.answers;
        if let (Role::Batch(owner), Some(result)) = (running.role(), &running.result) {
            owner.answered(result.affected_rows().unwrap_or(0));
        }
        if let Some(failure) = running.take_failure() {
            self.error.get_or_insert(failure);
        }
    }

    /// Drops what has not been sent, and lets a COPY fail: nobody wants it any more. The answers to the rest are still
    /// to come.
    pub fn stop(&mut self) {
        self.backlog.clear();
        self.backlog_bytes = 0;
        if let Some(running) = &mut self.running {
            running.stop();
        }
        self.share.set(self.unsent_bytes());
    }

    fn read_answers(
        &mut self,
        connection: &mut Connection,
        watch: &mut SettingsWatch,
        server: &[u8],
    ) -> Sent<()> {
        while let Some(entry) = self.entries.front_mut() {
            match connection.next_result() {
                Answer::Pending => return Ok(()),
                Answer::Result(result) => {
                    self.round_trips += u64::from(std::mem::take(&mut self.awaiting));
                    entry.is_answered = true;
                    match result.status() {
                        ResultStatus::PipelineSync => {
                            debug_assert!(matches!(entry.role, Role::Sync));
                            self.entries.pop_front();
                            let is_over = std::mem::take(&mut self.has_committed);
                            let difference = match is_over && watch.is_pooled {
                                // Settings of the transaction are gone with it.
                                true => None,
                                false => watch.check(connection),
                            };
                            self.end_of_message(difference, server);
                        }
                        // The error that made the shard skip this statement has been read before.
                        ResultStatus::PipelineAborted => {}
                        status if status.is_success() => entry.result = Some(result),
                        _ => {
                            let error = match error_of(server, &result, connection) {
                                Ok(error) => error,
                                Err(end) => return Err(end.note(&mut self.farewell)),
                            };
                            let changed = match entry.role {
                                Role::Batch(_) | Role::Ticket(_) => {
                                    let table = entry.subject.table.as_deref();
                                    relation::changed_types(server, &result, table)
                                }
                                _ => None,
                            };
                            self.types_changed |= changed.is_some();
                            let error = changed.unwrap_or(error);
                            let error = add_context(error, server, &entry.sql, &entry.subject);
                            let level = entry.level;
                            self.error.get_or_insert(Failure { level, error });
                        }
                    }
                }
                // The end of all that has been read, not of an answer.
                Answer::End if connection.is_bad() && !entry.is_answered => {
                    return Err(connection.error_message());
                }
                Answer::End if matches!(entry.role, Role::Sync) => return Ok(()),
                Answer::End => {
                    if let Some(entry) = self.entries.pop_front() {
                        self.pipeline_bytes -= entry.bytes;
                        self.has_committed |= entry.sql.as_bytes() == COMMIT.as_bytes();
                        self.lowest = Some(
                            self.lowest
                                .map_or(entry.level, |level| level.min(entry.level)),
                        );
                        match entry.has_rows() {
                            true => self.rows.push(entry),
                            false => self.finish(entry.role, entry.result.map(Ok)),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The server has said all about a message, also which settings of its session were changed.
    fn end_of_message(&mut self, difference: Option<Difference>, server: &[u8]) {
        for entry in std::mem::take(&mut self.rows) {
            let reply = entry.result.map(|result| {
                match difference.filter(|difference| difference.concerns(&result)) {
                    None => Ok(result),
                    Some(difference) => {
                        let error = changed_setting(server, difference);
                        Err(add_context(error, server, &entry.sql, &entry.subject))
                    }
                }
            });
            self.finish(entry.role, reply);
        }
        let level = self.lowest.take().unwrap_or_default();
        if let Some(difference) = difference.filter(|difference| difference.for_both_ways) {
            self.error.get_or_insert_with(|| Failure {
                level: level.max(1),
                error: changed_setting(server, difference),
            });
        }
    }

    /// Hands on what has become of a statement; None: an error that has been noted.
    fn finish(&mut self, role: Role, reply: Option<Reply>) {
        match (role, reply) {
            (Role::Batch(owner), Some(Ok(result))) => {
                owner.answered(result.affected_rows().unwrap_or(0));
            }
            (Role::Question(question), Some(Ok(result))) => question.answer(&result),
            (Role::Ahead(cursor), rows) => cursor.ahead_answered(rows),
            (Role::Ticket(ticket), Some(reply)) => self.answers.push((ticket, reply)),
            (Role::Ticket(ticket), None) => {
                let error = self.error.as_ref().map(|failure| failure.error.clone());
                let error = error.unwrap_or_else(|| FdwError::Protocol {
                    message: "a statement was not answered".into(),
                    detail: None,
                });
                self.answers.push((ticket, Err(error)));
            }
            _ => {}
        }
    }

    /// Forgets everything under way: its connection is gone. Answers that are complete stay; those with rows whose message
    /// has not ended are lost with it.
    pub fn abandon(&mut self, loss: &FdwError) {
        self.entries.clear();
        for entry in std::mem::take(&mut self.rows) {
            match entry.role {
                Role::Ticket(ticket) => self.answers.push((ticket, Err(loss.clone()))),
                role => self.finish(role, None),
            }
        }
        self.lowest = None;
        self.has_committed = false;
        self.awaiting = false;
        self.farewell = None;
        self.running = None;
        self.backlog.clear();
        self.backlog_bytes = 0;
        self.pipeline_bytes = 0;
        self.handed_over = 0;
        self.unsent = false;
        self.share.set(0);
    }

    /// Times since the last call that the shard answered after something had been sent to it.
    pub fn take_round_trips(&mut self) -> u64 {
        std::mem::take(&mut self.round_trips)
    }

    /// The answer to a ticket, once it is there.
    pub fn take_answer(&mut self, ticket: u64) -> Option<Reply> {
        let position = self.answers.iter().position(|(of, _)| *of == ticket)?;
        Some(self.answers.swap_remove(position).1)
    }

    pub fn has_answer(&self, ticket: u64) -> bool {
        self.answers.iter().any(|(of, _)| *of == ticket)
    }

    /// Has a batch been refused, since the last call, because columns have other types than it was made for?
    pub fn take_types_changed(&mut self) -> bool {
        std::mem::take(&mut self.types_changed)
    }

    /// The first error read since the last call.
    pub fn take_error(&mut self) -> Option<Failure> {
        self.error.take()
    }

    /// Drops answers that nobody has fetched (after an abort).
    pub fn forget_answers(&mut self) {
        self.answers.clear();
        self.error = None;
    }
}

/// An error that ends the session.
pub enum End {
    /// The shard has said so.
    Said(Box<Diag>),
    /// libpq has found it.
    Found(Vec<u8>),
}

impl End {
    /// Keeps what the shard said, and returns what else there is to tell.
    pub fn note(self, farewell: &mut Option<Box<Diag>>) -> Vec<u8> {
        match self {
            End::Said(diag) => {
                *farewell = Some(diag);
                Vec::new()
            }
            End::Found(reason) => reason,
        }
    }
}

/// A function on the shard has changed how values look, while it answered or before.
fn changed_setting(server: &[u8], difference: Difference) -> FdwError {
    let server = text::from_bytes(server);
    let setting = difference.name.to_string_lossy();
    FdwError::local(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("server \"{server}\" has another value of setting \"{setting}\" than values are read by"),
    )
    .with_detail("A function on the server, perhaps of a trigger or view, has changed it for its session.")
    .with_hint(format!("Let the function change it for itself only: ALTER FUNCTION ... SET {setting}."))
}

/// What a server has said went wrong with a statement. `Err`: it has ended the session, or is gone.
pub fn error_of(
    server: &[u8],
    result: &PgResult,
    connection: &Connection,
) -> std::result::Result<FdwError, End> {
    let diag = result.diag();
    if result.is_farewell() {
        return Err(End::Said(Box::new(diag)));
    }
    if diag.sqlstate.is_none() && connection.is_bad() {
        return Err(End::Found(diag.message));
    }
    Ok(FdwError::Remote {
        server: text::from_bytes(server),
        diag: Box::new(diag),
    })
}
