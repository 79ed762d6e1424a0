//! The ends of remote transactions and savepoints, step by step.

use super::Session;
use crate::model::error::{FdwError, Result};
use crate::pq::CancelRequest;
use crate::remote::queue::{Reply, Role};
use crate::remote::statement::Statement;
use pgrx::pg_sys::Oid;
use std::rc::Weak;

impl Session {
    /// The subtransaction at `level` is about to end well.
    pub(in crate::remote) fn pre_commit_sub(&self, level: i32) -> Result<()> {
        if self
            .pending
            .borrow()
            .iter()
            .any(|rows| rows.level() >= level && !rows.is_empty())
        {
            return Err(FdwError::internal(format!(
                "rows for server \"{}\" were left behind at the end of a subtransaction",
                self.name
            )));
        }
        if self.state.borrow().depth.get() >= level {
            self.check()?;
            self.close_cursors()?;
            self.queue(
                &Statement::plain(format!("RELEASE SAVEPOINT s{level}").as_str()),
                Role::Forget,
            )?;
            self.end_message()?;
        }
        for question in self.copyable.borrow().values() {
            question.leave_level(level);
        }
        let mut state = self.state.borrow_mut();
        state.depth.commit_sub(level);
        for cursor in state.cursors.iter().filter_map(Weak::upgrade) {
            cursor.leave_level(level);
        }
        for (of, _) in &mut state.closing {
            *of = (*of).min(level - 1);
        }
        state.leave_read_only(level);
        Ok(())
    }

    /// The subtransaction at `level` is undone: drops what waits, and says whether the shard must hear of it.
    pub(in crate::remote) fn abort_sub_locally(&self, level: i32) -> bool {
        self.drop_pending(level);
        let mut state = self.state.borrow_mut();
        let used = state.depth.get() >= level;
        if used {
            state.cursors.retain(|cursor| {
                cursor.upgrade().is_some_and(|cursor| {
                    let survives = cursor.level() < level;
                    match survives {
                        true => cursor.undo_level(level),
                        false => cursor.forget(),
                    }
                    survives
                })
            });
            state.closing.retain(|(of, _)| *of < level);
        }
        state.leave_read_only(level);
        used
    }

    /// The savepoint of `level` has been rolled back.
    pub(in crate::remote) fn rolled_back_to(&self, level: i32) {
        for question in self.copyable.borrow().values() {
            question.undo_level(level);
        }
        let mut state = self.state.borrow_mut();
        state.depth.abort_sub(level);
        state.queue.forget_answers();
        if state.lost.as_ref().is_some_and(|lost| lost.level >= level) {
            state.lost = None;
            if state.link.is_none() {
                // Lost with all it had done, which was nothing that the outer levels asked for.
                state.depth.end();
                state.wrote = false;
                state.closing.clear();
                for cursor in state.cursors.iter().filter_map(Weak::upgrade) {
                    cursor.undeclare();
                }
            }
        }
    }

    /// Forgets the buffers that were kept at `level`, which have been sent.
    pub(in crate::remote) fn drop_kept(&self, level: i32) {
        self.pending.borrow_mut().retain(|rows| {
            let over = rows.level() >= level && rows.kept().is_some() && rows.is_empty();
            if over {
                rows.discard();
            }
            !over
        });
    }

    pub(super) fn drop_pending(&self, level: i32) {
        self.pending.borrow_mut().retain(|rows| {
            let undone = rows.level() >= level;
            if undone {
                rows.discard();
            }
            !undone
        });
    }

    /// The remote transaction is over: forgets all of it, and closes the connection where that is due.
    pub(in crate::remote) fn end_transaction(&self) {
        self.drop_pending(1);
        for (_, question) in self.copyable.borrow_mut().drain() {
            question.forget();
        }
        let mut state = self.state.borrow_mut();
        state.depth.end();
        state.lost = None;
        state.read_only_at = None;
        state.wrote = false;
        for cursor in state
            .cursors
            .drain(..)
            .filter_map(|cursor| cursor.upgrade())
        {
            cursor.forget();
        }
        state.closing.clear();
        state.queue.forget_answers();
        self.asked_by.set((0, Oid::INVALID));
        self.has_ordered.set(false);
        self.restricted.set(false);
        if self.stale.get() || !self.options.keep_connections || !state.queue.is_empty() {
            state.link = None;
        }
    }

    /// Closes a connection whose state is in doubt. Its remote transaction, if one is open, is lost.
    pub(in crate::remote) fn give_up(&self, reason: &[u8]) {
        let error = self.lost_error(reason);
        self.state.borrow_mut().lose_connection(error);
    }

    pub(super) fn lost_error(&self, detail: &[u8]) -> FdwError {
        FdwError::Lost {
            server: self.name.clone(),
            detail: detail.to_vec(),
        }
    }

    /// Is nobody in the middle of using the session? Not so when the process ends inside a wait.
    pub(in crate::remote) fn is_free(&self) -> bool {
        self.state.try_borrow_mut().is_ok() && self.pending.try_borrow_mut().is_ok()
    }

    pub(in crate::remote) fn wrote(&self) -> bool {
        self.state.borrow().wrote
    }

    /// Has everything sent been answered?
    pub(in crate::remote) fn is_quiet(&self) -> bool {
        self.state.borrow().queue.is_empty()
    }

    /// Is a savepoint being set?
    pub(in crate::remote) fn sets_savepoint(&self) -> bool {
        self.state.borrow().queue.sets_savepoint()
    }

    /// Is there anything under way that may take long?
    pub(in crate::remote) fn may_take_long(&self) -> bool {
        self.state.borrow().queue.may_take_long()
    }

    /// Sends COMMIT. None: it could not be sent, and the session is lost.
    pub(in crate::remote) fn send_commit(&self) -> Option<u64> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.queue(
            &Statement::plain("COMMIT TRANSACTION"),
            Role::Ticket(ticket),
        )
        .and_then(|()| self.end_message())
        .ok()
        .map(|()| ticket)
    }

    pub(in crate::remote) fn take_answer(&self, ticket: u64) -> Option<Reply> {
        self.state.borrow_mut().queue.take_answer(ticket)
    }

    /// Nobody wants what has not been sent any more.
    pub(in crate::remote) fn stop_sending(&self) {
        self.state.borrow_mut().queue.stop();
    }

    pub(in crate::remote) fn start_cancel(&self) -> Option<CancelRequest> {
        let state = self.state.borrow();
        CancelRequest::start(&state.link.as_ref()?.connection).ok()
    }

    /// Sends the statements that undo, after everything before has been answered.
    pub(in crate::remote) fn send_undo(&self, statements: &[Statement]) {
        {
            let mut state = self.state.borrow_mut();
            state.queue.forget_answers();
            state.errors_before_undo = state.errors;
        }
        for statement in statements {
            if self.queue(statement, Role::Forget).is_err() {
                return;
            }
        }
        // An error shows as a lost connection.
        let _ = self.end_message();
    }

    /// After [`Session::send_undo`] and its answers: did all statements succeed?
    pub(in crate::remote) fn undo_succeeded(&self) -> bool {
        let state = self.state.borrow();
        state.link.is_some() && state.errors == state.errors_before_undo
    }
}
