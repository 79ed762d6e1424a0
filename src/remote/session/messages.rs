//! Messages: what is sent together, and waiting for the answers.

use super::{Session, State};
use crate::model::error::{FdwError, Result};
use crate::model::socket::{Interest, Socket};
use crate::pg::version::WaitEvent;
use crate::pg::{backend, wait};
use crate::remote::deadlock::Watch;
use crate::remote::queue::{Failure, Role, BEGINNING};
use crate::remote::statement::{CopyIn, Statement, LARGEST_MESSAGE};
use crate::remote::{notice, relation};
use std::time::Instant;

impl Session {
    /// Adds a statement to the current message. An error of it spoils the remote transaction at its present depth.
    pub(in crate::remote) fn queue(&self, statement: &Statement, role: Role) -> Result<()> {
        self.queue_for(self.depth(), statement, role)
    }

    /// Adds a statement whose error spoils `level`.
    pub(super) fn queue_for(&self, level: i32, statement: &Statement, role: Role) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if let Some(error) = statement.too_large(&self.name, LARGEST_MESSAGE) {
            // It may carry rows of an outer level, whoever gets this error.
            let level = state.depth.get().max(1);
            state.lose(Failure {
                level,
                error: error.clone(),
            });
            return Err(state.check().err().unwrap_or(error));
        }
        let State { link, queue, .. } = &mut *state;
        let sent = match link {
            Some(link) => queue.send(&mut link.connection, statement, role, level),
            None => Err(b"there is no connection".to_vec()),
        };
        self.lose_on_error(&mut state, sent)
    }

    /// Adds rows of a COPY, and sends what the socket takes.
    pub(in crate::remote) fn queue_copy(&self, copy: CopyIn, role: Role) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State {
            link, queue, depth, ..
        } = &mut *state;
        let sent = match link {
            Some(link) => queue.copy(&mut link.connection, copy, role, depth.get()),
            None => Err(b"there is no connection".to_vec()),
        };
        self.lose_on_error(&mut state, sent)?;
        drop(state);
        self.advance();
        self.check()
    }

    /// Ends the current message, and sends what the socket takes.
    pub(in crate::remote) fn end_message(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let sent = match link {
            Some(link) => queue.end_message(&mut link.connection),
            None => Err(b"there is no connection".to_vec()),
        };
        self.lose_on_error(&mut state, sent)
    }

    pub(super) fn lose_on_error(
        &self,
        state: &mut State,
        sent: std::result::Result<(), Vec<u8>>,
    ) -> Result<()> {
        let Err(reason) = sent else { return Ok(()) };
        let State { link, queue, .. } = &mut *state;
        let error = match link {
            None => FdwError::lost(&self.name, reason),
            Some(link) if link.connection.is_bad() => {
                queue.loss(&mut link.connection, &self.server.name, reason)
            }
            Some(_) => {
                let error = FdwError::Protocol {
                    message: format!("could not send a statement to server \"{}\"", self.name),
                    detail: Some(reason),
                };
                // The statement may carry rows of an outer level, whoever gets this error.
                state.lose(Failure {
                    level: state.depth.get(),
                    error: error.clone(),
                });
                return Err(state.check().err().unwrap_or(error));
            }
        };
        state.lose_connection(error.clone());
        Err(state.check().err().unwrap_or(error))
    }

    /// Sends and reads what can be done without waiting, and notes errors.
    pub(in crate::remote) fn advance(&self) {
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let Some(link) = link else { return };
        let alive = queue.advance(&mut link.connection, &mut link.watch, &self.server.name);
        self.counters.add_round_trips(queue.take_round_trips());
        if state.queue.take_types_changed() {
            self.is_doubtful.set(true);
        }
        if let Some(failure) = state.queue.take_error() {
            let sqlstate = failure.error.sqlstate();
            let is_first_violation =
                relation::is_violation(sqlstate) && !self.had_violation.replace(true);
            if is_first_violation || relation::may_mean_change(sqlstate) {
                self.forget_relations();
            }
            state.lose(failure);
        }
        if let Err(loss) = alive {
            state.lose_connection(loss);
        }
    }

    /// Notes that the shard has ended the session, if it has said so while nothing was under way: it does before it closes the
    /// connection.
    pub(in crate::remote) fn look_for_end(&self) {
        self.advance();
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let Some(link) = link else { return };
        if queue.is_empty() && link.connection.farewell().is_some() {
            let loss = queue.loss(&mut link.connection, &self.server.name, Vec::new());
            state.lose_connection(loss);
        }
    }

    /// No more rows are to follow on those of the COPY that is open. Returns whether one was.
    pub fn close_copy(&self) -> bool {
        self.state.borrow_mut().queue.close_copy()
    }

    /// Ends a message that has been begun: without that the shard would answer nothing of it. An error shows as a
    /// lost connection.
    pub(super) fn finish_message(&self) {
        if self.state.borrow().queue.has_open_message() {
            let _ = self.end_message();
        }
    }

    /// What a wait for answers waits for.
    pub(super) fn wanted(&self) -> Option<(Socket, Interest)> {
        let state = self.state.borrow();
        let socket = state.link.as_ref()?.connection.socket()?;
        let interest = Interest {
            read: true,
            write: state.queue.has_unsent(),
        };
        Some((socket, interest))
    }

    pub(in crate::remote) fn wait_until(&self, done: impl Fn(&State) -> bool) -> Result<()> {
        wait_for(&[self], |session| done(&session.state.borrow()), None).map(|_| ())
    }

    pub(super) fn relay_notices(&self) {
        let mut state = self.state.borrow_mut();
        let Some(link) = &mut state.link else { return };
        if link.connection.has_notices() {
            let (notices, dropped) = link.connection.take_notices();
            drop(state);
            notice::relay(&self.name, notices, dropped);
        }
    }
}

impl State {
    /// Is the remote transaction still good? Else the error that came first.
    pub(super) fn check(&self) -> Result<()> {
        match self.lost.first() {
            Some(failure) => Err(self.error_of(failure)),
            None => Ok(()),
        }
    }

    /// The error to raise now. Of a connection that an earlier statement has lost, the CONTEXT is that statement's.
    pub(super) fn error_of(&self, failure: &Failure) -> FdwError {
        let error = &failure.error;
        match error.is_connection_loss() && self.lost_in != backend::statement_start() {
            true => error.without_context().clone(),
            false => error.clone(),
        }
    }

    /// Notes an error that spoils the remote transaction at a level of nesting and deeper. Savepoints below that level, if
    /// there are any on their way, will not be set.
    pub(super) fn lose(&mut self, failure: Failure) {
        self.errors += 1;
        if failure.level == BEGINNING {
            return self.lose_connection(failure.error);
        }
        self.depth.fall_to(failure.level);
        self.spoil(failure);
    }

    /// Drops the connection. With a remote transaction open, all of that is lost.
    pub(super) fn lose_connection(&mut self, error: FdwError) {
        self.link = None;
        self.lost_in = backend::statement_start();
        self.queue.abandon(&error);
        if self.depth.is_open() {
            let level = self.depth.begun_at();
            self.spoil(Failure { level, error });
        }
    }

    fn spoil(&mut self, failure: Failure) {
        if self.lost.iter().all(|lost| lost.level > failure.level) {
            self.lost.push(failure);
        }
    }

    /// Forgets the error that has spoiled `level`, if the shard needs only a rollback to the savepoint of that level to go on.
    pub(super) fn pardon(&mut self, level: i32) -> bool {
        let can_go_on = self.link.is_some() && self.lost.len() == 1 && self.lost[0].level == level;
        if can_go_on {
            self.lost.clear();
        }
        can_go_on
    }

    pub(super) fn leave_read_only(&mut self, level: i32) {
        if self.read_only_at.is_some_and(|at| at >= level) {
            self.read_only_at = None;
        }
    }
}

/// Waits until `done` holds for each of the sessions, working on all of them meanwhile. False: the deadline came
/// first. An interrupt leaves everything as consistent as it was.
pub(in crate::remote) fn wait_for(
    sessions: &[&Session],
    done: impl Fn(&Session) -> bool,
    deadline: Option<Instant>,
) -> Result<bool> {
    for session in sessions {
        session.finish_message();
    }
    let may_fail = deadline.is_none() && !wait::are_interrupts_held();
    let mut watch = may_fail.then(Watch::new);
    loop {
        let mut sockets = Vec::new();
        let mut waiting = Vec::new();
        for session in sessions {
            session.advance();
            if !done(session) {
                if let Some(socket) = session.wanted() {
                    sockets.push(socket);
                    waiting.push(*session);
                }
            }
        }
        if sockets.is_empty() {
            break;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(false);
        }
        let started = Instant::now();
        let limit = watch.as_ref().map(Watch::due_at).or(deadline);
        wait::for_sockets(&sockets, limit, WaitEvent::Result)?;
        let waited = started.elapsed();
        for session in &waiting {
            session.counters.add_wait(waited);
        }
        if let Some(watch) = &mut watch {
            watch.look(&waiting)?;
        }
    }
    for session in sessions {
        session.relay_notices();
    }
    Ok(true)
}

/// Waits until everything sent on the sessions has been answered, and returns the first error.
pub fn drain_all(sessions: &[&Session]) -> Result<()> {
    for session in sessions {
        session.close_copy();
    }
    wait_for(
        sessions,
        |session| session.state.borrow().queue.is_empty(),
        None,
    )?;
    sessions.iter().try_for_each(|session| session.check())
}
