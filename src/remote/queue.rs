//! What is under way on a connection: statements sent whose answers have not been read, first in, first out.

use crate::model::error::{Diag, FdwError};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pq::{Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::pending::PendingRows;
use crate::remote::statement::{add_context, Statement, Subject};
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

/// The answer to a statement with a ticket.
pub type Reply = std::result::Result<PgResult, FdwError>;

/// The queue of one connection.
#[derive(Default)]
pub struct Queue {
    entries: VecDeque<Entry>,
    answers: Vec<(u64, Reply)>,
    next_ticket: u64,
    bytes_in_flight: usize,
    unsent: bool,
    /// A message has ended and nothing has been answered since.
    awaiting: bool,
    round_trips: u64,
    /// The first error since it was last taken.
    error: Option<FdwError>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Have statements been added since the last message ended?
    pub fn has_open_message(&self) -> bool {
        self.entries
            .back()
            .is_some_and(|entry| !matches!(entry.role, Role::Sync))
    }

    pub fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Has libpq bytes that the socket did not take?
    pub fn has_unsent(&self) -> bool {
        self.unsent
    }

    pub fn new_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Hands a statement to libpq. Nothing is sent for certain before [`Queue::end_message`].
    pub fn send(
        &mut self,
        connection: &mut Connection,
        statement: &Statement,
        role: Role,
    ) -> std::result::Result<(), Vec<u8>> {
        let text = std::ffi::CString::new(statement.sql.as_bytes())
            .map_err(|_| b"statement text holds a NUL character".to_vec())?;
        let params: Vec<_> = statement
            .params
            .iter()
            .map(|param| param.borrow())
            .collect();
        connection
            .send_query_params(&text, &params)
            .map_err(|error| error.message)?;
        let bytes = statement.len();
        self.bytes_in_flight += bytes;
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

    /// Ends the message: the shard answers everything up to here.
    pub fn end_message(&mut self, connection: &mut Connection) -> std::result::Result<(), Vec<u8>> {
        connection.pipeline_sync().map_err(|error| error.message)?;
        self.entries.push_back(Entry {
            role: Role::Sync,
            sql: Rc::default(),
            subject: Subject::default(),
            bytes: 0,
            result: None,
        });
        self.awaiting = true;
        self.flush(connection)
    }

    fn flush(&mut self, connection: &mut Connection) -> std::result::Result<(), Vec<u8>> {
        self.unsent = connection.flush().map_err(|error| error.message)? == Flush::Pending;
        Ok(())
    }

    /// Sends and reads what can be sent and read without waiting. An error says that the connection is lost; then
    /// every statement under way has got its error.
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        server: &[u8],
    ) -> std::result::Result<(), Vec<u8>> {
        let sent = if self.unsent {
            self.flush(connection)
        } else {
            Ok(())
        };
        let read = connection.consume_input().map_err(|error| error.message);
        self.read_answers(connection, server);
        if connection.is_bad() || sent.is_err() || read.is_err() {
            self.abandon();
            return Err(sent
                .err()
                .or(read.err())
                .unwrap_or_else(|| connection.error_message()));
        }
        Ok(())
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
        self.bytes_in_flight -= entry.bytes;
        match (entry.role, entry.result) {
            (Role::Batch(owner), Some(result)) => {
                owner.answered(result.affected_rows().unwrap_or(0));
            }
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
        self.bytes_in_flight = 0;
        self.unsent = false;
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

fn remote_error(server: &[u8], diag: Diag) -> FdwError {
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
