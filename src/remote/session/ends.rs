//! The ends of remote transactions and savepoints, step by step.

use super::Session;
use crate::model::error::{FdwError, Result};
use crate::pq::CancelRequest;
use crate::remote::queue::{Reply, Role, BEGINNING, COMMIT};
use crate::remote::statement::Statement;
use pgrx::pg_sys::Oid;
use std::rc::Weak;

impl Session {
    /// The subtransaction at `level` is about to end well: nothing may be wrong with what it has done.
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
        let state = self.state.borrow();
        // An error of an outer level is for its own statement.
        match state.lost.iter().find(|failure| failure.level >= level) {
            Some(failure) => Err(state.error_of(failure)),
            None => Ok(()),
        }
    }

    /// The subtransaction at `level` has ended well, on all servers: what it did belongs to the level above. A connection that
    /// turns out to be lost is lost for that.
    pub(in crate::remote) fn commit_sub(&self, level: i32) {
        let was_used = {
            let mut state = self.state.borrow_mut();
            state.queue.leave_level(level);
            state.depth.commit_sub(level)
        };
        if was_used {
            let release = format!("RELEASE SAVEPOINT s{level}");
            let _ = self
                .close_cursors()
                .and_then(|()| self.queue(&Statement::plain(release.as_str()), Role::Forget))
                .and_then(|()| self.end_message());
        }
        for question in self.copyable.borrow().values() {
            question.leave_level(level);
        }
        let mut state = self.state.borrow_mut();
        for cursor in state.cursors.iter().filter_map(Weak::upgrade) {
            cursor.leave_level(level);
        }
        for (of, _) in &mut state.closing {
            *of = (*of).min(level - 1);
        }
        state.leave_read_only(level);
        state.told.leave_level(level);
    }

    /// The subtransaction at `level` is undone: drops what waits, and says whether the shard must hear of it.
    pub(in crate::remote) fn abort_sub_locally(&self, level: i32) -> bool {
        self.drop_pending(level);
        let mut state = self.state.borrow_mut();
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
        state.spoiled_cursors = state.highest_cursor;
        state.leave_read_only(level);
        state.told.undo_level(level);
        state.depth.get() >= level
    }

    /// The subtransaction at `level` has been undone, on the shard too if it got so far. None of its errors stays.
    pub(in crate::remote) fn rolled_back_to(&self, level: i32) {
        for question in self.copyable.borrow().values() {
            question.undo_level(level);
        }
        let mut state = self.state.borrow_mut();
        let was_used = state.depth.abort_sub(level);
        if was_used {
            state.queue.forget_answers();
        }
        let was_lost = !state.lost.is_empty();
        state.lost.retain(|failure| failure.level < level);
        let is_new = was_lost && state.lost.is_empty() && state.link.is_none();
        if is_new {
            // Lost with all it had done, which was nothing that the outer levels asked for.
            state.depth.end();
            state.wrote = false;
            state.closing.clear();
            for cursor in state.cursors.iter().filter_map(Weak::upgrade) {
                cursor.undeclare();
            }
        }
        if was_used || is_new {
            // With it went the locks that kept answers true.
            self.part.set(self.part.get() + 1);
            self.forget_order();
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
        state.lost.clear();
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
        state.highest_cursor = 0;
        state.spoiled_cursors = 0;
        state.queue.forget_answers();
        self.part.set(self.part.get() + 1);
        self.is_doubtful.set(false);
        self.had_violation.set(false);
        self.asked_by.set((0, Oid::INVALID));
        self.has_ordered.set(false);
        self.alternations.set(0);
        self.restricted.set(false);
        if self.stale.get() || !self.options.keep_connections || !state.queue.is_empty() {
            state.link = None;
        }
    }

    /// Closes a connection whose state is in doubt. Its remote transaction, if one is open, is lost.
    pub(in crate::remote) fn give_up(&self, reason: &[u8]) {
        let error = FdwError::lost(&self.name, reason);
        self.state.borrow_mut().lose_connection(error);
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

    /// Adds what lets deferred constraints and triggers fail now.
    pub(in crate::remote) fn queue_check(&self) -> Result<()> {
        self.follow_to_end(self.depth())?;
        let check = Statement::plain("SET CONSTRAINTS ALL IMMEDIATE");
        self.queue(&check, Role::Forget)
    }

    /// Sends COMMIT. None: it could not be sent, and the session is lost.
    pub(in crate::remote) fn send_commit(&self) -> Option<u64> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.follow_to_end(BEGINNING)
            .and_then(|()| self.queue(&Statement::plain(COMMIT), Role::Ticket(ticket)))
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

    /// Sends the statements that undo `level`, after everything before has been answered. By now it may be known that the
    /// shard did not get so far.
    pub(in crate::remote) fn send_undo(&self, level: i32, statements: &[Statement]) {
        {
            let mut state = self.state.borrow_mut();
            state.queue.forget_answers();
            state.errors_before_undo = state.errors;
            if state.depth.get() < level {
                return;
            }
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
