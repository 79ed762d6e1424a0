//! What is under way on a connection: statements sent whose answers have not been read, first in, first out.
//!
//! Statements share libpq's pipeline. A COPY cannot: it waits until all before it has been answered, and what comes after
//! it waits, in a backlog, until the COPY is over.

mod copy;

use crate::model::error::{Diag, FdwError};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pq::{Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::budget::Share;
use crate::remote::copyable::CopyQuestion;
use crate::remote::cursor::CursorState;
use crate::remote::pending::PendingRows;
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

struct Entry {
    role: Role,
    sql: Rc<Sql>,
    subject: Subject,
    /// Bytes of text and parameters, for the limit of what may be in flight.
    bytes: usize,
    result: Option<PgResult>,
}

/// What waits for a COPY to end, or is one.
enum Waiting {
    Statement(Statement, Role),
    Sync,
    Copy {
        copy: CopyIn,
        role: Role,
        /// No rows will be added.
        closed: bool,
    },
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Waiting::Statement(statement, _) => statement.len(),
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
    /// Bytes of statements handed to libpq since it last had sent everything: it holds no more than these.
    handed_over: usize,
    /// What of the memory that rows may take is taken here.
    share: Share,
    /// A message has ended and nothing has been answered since.
    awaiting: bool,
    round_trips: u64,
    /// The first error since it was last taken.
    error: Option<FdwError>,
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
            (Some(last), _, _) => matches!(last, Waiting::Statement(..)),
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

    /// Takes a statement. Nothing is sent for certain before [`Queue::end_message`].
    pub fn send(
        &mut self,
        connection: &mut Connection,
        statement: &Statement,
        role: Role,
    ) -> Sent<()> {
        if self.has_backlog() {
            self.wait(Waiting::Statement(statement.clone(), role));
            return Ok(());
        }
        self.hand_over(connection, statement, role)?;
        self.share.set(self.unsent_bytes());
        Ok(())
    }

    /// Takes rows for a COPY: that which is open for them, or else one that is a message of its own.
    pub fn copy(&mut self, connection: &mut Connection, copy: CopyIn, role: Role) -> Sent<()> {
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
            sql: statement.sql.clone(),
            subject: statement.subject.clone(),
            bytes,
            result: None,
        });
        Ok(())
    }

    fn sync(&mut self, connection: &mut Connection) -> Sent<()> {
        connection.pipeline_sync().map_err(|error| error.message)?;
        self.unsent = true;
        self.entries.push_back(Entry {
            role: Role::Sync,
            sql: Rc::default(),
            subject: Subject::default(),
            bytes: 0,
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
    /// every statement under way has got its error.
    pub fn advance(&mut self, connection: &mut Connection, server: &[u8]) -> Sent<()> {
        let outcome = self.try_advance(connection, server);
        if connection.is_bad() || outcome.is_err() {
            // What the shard has said before tells more than the loss.
            let said = self.running.as_mut().and_then(|copy| copy.error.take());
            self.error = self.error.take().or(said);
            self.abandon();
            return Err(outcome.err().unwrap_or_else(|| connection.error_message()));
        }
        self.share.set(self.unsent_bytes());
        Ok(())
    }

    fn try_advance(&mut self, connection: &mut Connection, server: &[u8]) -> Sent<()> {
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
                    let step = running.advance(connection, server, &mut self.unsent)?;
                    match step {
                        Step::Wait => false,
                        Step::Progress => true,
                        Step::Done => {
                            self.finish_copy();
                            true
                        }
                    }
                }
                None => {
                    self.read_answers(connection, server);
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
                Some(Waiting::Statement(statement, role)) => {
                    self.hand_over(connection, &statement, role)?;
                }
                Some(Waiting::Sync) => self.sync(connection)?,
                Some(Waiting::Copy { copy, role, closed }) => {
                    let mut running = Running::start(connection, copy, role)?;
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
        let Some(running) = self.running.take() else {
            return;
        };
        self.round_trips += running.answers;
        if let (Role::Batch(owner), Some(result)) = (running.role(), &running.result) {
            owner.answered(result.affected_rows().unwrap_or(0));
        }
        if let Some(error) = running.error {
            self.error.get_or_insert(error);
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

    fn read_answers(&mut self, connection: &mut Connection, server: &[u8]) {
        while let Some(entry) = self.entries.front_mut() {
            match connection.next_result() {
                Answer::Pending => return,
                Answer::Result(result) => {
                    self.round_trips += u64::from(std::mem::take(&mut self.awaiting));
                    match result.status() {
                        ResultStatus::PipelineSync => {
                            debug_assert!(matches!(entry.role, Role::Sync));
                            self.entries.pop_front();
                        }
                        // The error that made the shard skip this statement has been read before.
                        ResultStatus::PipelineAborted => {}
                        status if status.is_success() => entry.result = Some(result),
                        _ => {
                            let error = remote_error(server, result.diag());
                            let error = add_context(error, server, &entry.sql, &entry.subject);
                            self.error.get_or_insert(error);
                        }
                    }
                }
                Answer::End => {
                    let lost = connection.is_bad();
                    if matches!(entry.role, Role::Sync) && !lost {
                        return;
                    }
                    if let Some(entry) = self.entries.pop_front() {
                        self.finish(entry);
                    }
                }
            }
        }
    }

    fn finish(&mut self, entry: Entry) {
        self.pipeline_bytes -= entry.bytes;
        match (entry.role, entry.result) {
            (Role::Batch(owner), Some(result)) => {
                owner.answered(result.affected_rows().unwrap_or(0));
            }
            (Role::Question(question), Some(result)) => question.answer(&result),
            (Role::Ahead(cursor), rows) => cursor.ahead_answered(rows),
            (Role::Ticket(ticket), Some(result)) => self.answers.push((ticket, Ok(result))),
            (Role::Ticket(ticket), None) => {
                let error = self.error.clone().unwrap_or_else(|| FdwError::Protocol {
                    message: "a statement was not answered".into(),
                    detail: None,
                });
                self.answers.push((ticket, Err(error)));
            }
            _ => {}
        }
    }

    /// Forgets everything under way: its connection is gone.
    pub fn abandon(&mut self) {
        self.entries.clear();
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

    /// The first error read since the last call.
    pub fn take_error(&mut self) -> Option<FdwError> {
        self.error.take()
    }

    /// Drops answers that nobody has fetched (after an abort).
    pub fn forget_answers(&mut self) {
        self.answers.clear();
        self.error = None;
    }
}

/// What a server has said went wrong. Without an SQLSTATE, libpq has found that the connection is gone.
pub fn remote_error(server: &[u8], diag: Diag) -> FdwError {
    let server = text::from_bytes(server);
    if diag.sqlstate.is_none() {
        return FdwError::Lost {
            server,
            detail: diag.message,
        };
    }
    FdwError::Remote {
        server,
        diag: Box::new(diag),
    }
}

/// Was the error sent by a backend that was about to die (class 57P: shutdown, crash, termination)?
pub fn is_farewell(error: &FdwError) -> bool {
    error.sqlstate().as_bytes().starts_with(b"57P")
}
