//! Rows that wait in relation buffers, as the session sees them.

use super::{Session, State};
use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::{guc, xact};
use crate::remote::copyable::CopyQuestion;
use crate::remote::pending::{is_same, Batch, Kept, Order, PendingRows};
use crate::remote::queue::Role;
use crate::remote::statement::{Statement, Subject};
use crate::remote::stats::FlushCause;
use std::rc::Rc;

/// So often rows of different tables may go in the order of their statements, as batches of their own, before the shard is
/// asked whether they must. A short transaction asks for nothing.
const MOST_ALTERNATIONS: u32 = 8;

impl Session {
    /// Makes a relation buffer known, so that barriers find it.
    pub fn add_pending(&self, rows: Rc<dyn PendingRows>) {
        if rows.kept().is_some_and(|kept| kept.order != Order::Free) {
            self.has_ordered.set(true);
        }
        self.pending.borrow_mut().push(rows);
    }

    /// Forgets a relation buffer that will not get rows any more.
    pub fn remove_pending(&self, rows: &Rc<dyn PendingRows>) {
        self.pending
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, rows));
    }

    /// The buffer that holds most.
    pub(in crate::remote) fn largest_pending(&self) -> Option<Rc<dyn PendingRows>> {
        let pending = self.pending.borrow();
        let waiting = pending.iter().filter(|rows| !rows.is_empty());
        waiting.max_by_key(|rows| rows.bytes()).cloned()
    }

    pub(in crate::remote) fn has_unsent(&self) -> bool {
        self.state.borrow().queue.unsent_bytes() > 0
    }

    pub(in crate::remote) fn has_pending_rows(&self) -> bool {
        self.pending.borrow().iter().any(|rows| !rows.is_empty())
    }

    /// Sends the rows of one buffer as a message of their own.
    pub fn flush(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.put(rows, cause)?;
        self.end_message()
    }

    /// Adds the rows of one buffer to the current message, once there is room for them among the bytes in flight. The
    /// rows leave the buffer only when nothing can come in between any more: an interrupt while waiting must not lose
    /// them.
    ///
    /// The shard answers once the message is ended, at the next wait at the latest: so many small batches cost one
    /// round trip together.
    ///
    /// Rows of earlier statements that have been kept go first, where that may matter.
    pub fn put(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        for earlier in self.needed_before(rows) {
            self.put_alone(&earlier, cause)?;
        }
        self.put_alone(rows, cause)
    }

    /// Kept rows of earlier statements that these rows may need on the shard: all of them, or for rows that are kept
    /// themselves those that no [`Session::make_way`] has sent.
    fn needed_before(&self, rows: &Rc<dyn PendingRows>) -> Vec<Rc<dyn PendingRows>> {
        let order = rows.kept().map(|kept| kept.order);
        if order == Some(Order::Free) {
            return Vec::new();
        }
        let newest = rows.command_id();
        let mut earlier = self.kept_rows(|other, kept| {
            other.oldest_command_id() < newest && (order.is_none() || kept.order == Order::Free)
        });
        earlier.retain(|other| !is_same(other, rows));
        earlier.sort_by_key(|other| {
            let order = other.kept().map(|kept| kept.order);
            (order, other.oldest_command_id())
        });
        earlier
    }

    /// Rows that are kept and wait.
    fn kept_rows(
        &self,
        which: impl Fn(&dyn PendingRows, Kept) -> bool,
    ) -> Vec<Rc<dyn PendingRows>> {
        let pending = self.pending.borrow();
        let waiting = pending.iter().filter(|rows| {
            rows.kept()
                .is_some_and(|kept| !rows.is_empty() && which(&***rows, kept))
        });
        waiting.cloned().collect()
    }

    /// Have rows of different tables been sent in the order of their statements so often, for want of knowledge, that it pays
    /// to ask the shard?
    pub fn should_ask_for_order(&self) -> bool {
        self.alternations.get() >= MOST_ALTERNATIONS
    }

    /// The shard has been asked: notes what the order of the rows in buffers that are kept may matter to.
    pub fn note_order(&self, answers: impl Iterator<Item = (Rc<dyn PendingRows>, Kept)>) {
        for (rows, kept) in answers {
            rows.set_kept(kept);
        }
        self.alternations.set(0);
        let is_ordered =
            |rows: &Rc<dyn PendingRows>| rows.kept().is_some_and(|kept| kept.order != Order::Free);
        let has_ordered = self.pending.borrow().iter().any(is_ordered);
        self.has_ordered.set(has_ordered);
    }

    /// What was known of the order counts no more: the locks that kept it true may be gone.
    pub(super) fn forget_order(&self) {
        self.alternations.set(0);
        let pending = self.pending.borrow();
        for (rows, kept) in pending.iter().filter_map(|rows| Some((rows, rows.kept()?))) {
            rows.set_kept(Kept::assumed(kept.relation));
            self.has_ordered.set(true);
        }
    }

    /// Before a statement with this command id adds rows to a buffer that is kept: sends what must not be behind them.
    pub fn make_way(&self, rows: &Rc<dyn PendingRows>, command_id: u32) -> Result<()> {
        let Some(own) = rows.kept() else {
            return Ok(());
        };
        if self.has_ordered.get() {
            let others = self.kept_rows(|other, kept| {
                let matters = kept.order == Order::Strict
                    || own.order == Order::Strict
                    || (kept.order == own.order && own.order == Order::AfterOthers);
                matters && other.command_id() < command_id
            });
            for other in others.iter().filter(|other| !is_same(other, rows)) {
                let kept = other.kept();
                if own.is_assumed || kept.is_some_and(|kept| kept.is_assumed) {
                    self.alternations.set(self.alternations.get() + 1);
                }
                self.flush(other, FlushCause::Barrier)?;
            }
        }
        // A scan that sees the rows that wait, but not those to come, will be declared between them.
        let is_between = !rows.is_empty()
            && self.state.borrow().cursors.iter().any(|cursor| {
                cursor.upgrade().is_some_and(|cursor| {
                    cursor.is_undeclared()
                        && rows.oldest_command_id() < cursor.command_id
                        && cursor.command_id <= command_id
                })
            });
        if is_between {
            self.flush(rows, FlushCause::Barrier)?;
        }
        Ok(())
    }

    /// Adds the rows kept at `level` to the current message. Returns whether there is anything to wait for.
    pub(in crate::remote) fn flush_kept(&self, level: i32) -> Result<bool> {
        let is_of_level = |rows: &dyn PendingRows| rows.kept().is_some() && rows.level() >= level;
        let any = self
            .pending
            .borrow()
            .iter()
            .any(|rows| is_of_level(&**rows));
        if any {
            self.check()?;
            self.flush_where(FlushCause::End, is_of_level)?;
        }
        Ok(any)
    }

    /// Adds the rows that finished statements of `level` have left to the current message.
    pub(in crate::remote) fn flush_finished(&self, level: i32) -> Result<()> {
        self.flush_where(FlushCause::Barrier, |rows| {
            rows.kept().is_some() && rows.level() == level
        })
    }

    /// Once all rows have been answered for: compares what was stored with what was counted.
    pub fn settle(&self) -> Result<()> {
        let all: Vec<_> = self.pending.borrow().clone();
        let settled = all.iter().try_for_each(|rows| rows.settle());
        if settled.is_err() {
            // What was known of the shard's tables is out of date.
            self.forget_relations();
        }
        settled
    }

    fn put_alone(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        let limit = guc::max_in_flight();
        let bytes = rows.bytes();
        let has_room = |state: &State| {
            let in_flight = state.queue.bytes_in_flight();
            in_flight == 0 || in_flight + bytes <= limit
        };
        // Waiting would end the message.
        if !has_room(&self.state.borrow()) {
            self.wait_until(has_room)?;
        }
        self.check()?;
        self.follow()?;
        let written_by = rows.command_id();
        self.declare_where(|cursor| cursor.command_id <= written_by)?;
        self.renew_settings()?;
        self.state.borrow_mut().wrote = true;
        for batch in rows.take(cause)? {
            match batch {
                Batch::Insert(batch) => {
                    self.count(cause, &batch.subject, batch.len());
                    self.queue(&batch, Role::Batch(rows.clone()))?;
                }
                Batch::Copy(copy) => {
                    self.count(cause, &copy.subject, copy.rows.len());
                    self.queue_copy(copy, Role::Batch(rows.clone()))?;
                    if self.pending_count() > 1 {
                        // Another buffer will want the connection.
                        self.close_copy();
                    }
                }
                Batch::Question(statements, question) => {
                    self.queue_question(&statements, &question)?;
                }
            }
        }
        Ok(())
    }

    fn count(&self, cause: FlushCause, subject: &Subject, bytes: usize) {
        let rows = subject.rows.map_or(0, |(first, last)| last - first + 1);
        self.counters.count(cause, rows, bytes as u64);
    }

    /// The answer to a question of this text in the present remote transaction, which others may have asked for.
    pub fn copy_question(&self, sql: &Rc<Sql>) -> Rc<CopyQuestion> {
        let mut questions = self.copyable.borrow_mut();
        questions.entry(sql.clone()).or_default().clone()
    }

    /// Adds the question, the last of `statements`, to the current message.
    fn queue_question(&self, statements: &[Statement], question: &Rc<CopyQuestion>) -> Result<()> {
        question.asked(self.depth());
        for (position, statement) in statements.iter().enumerate() {
            let role = match position + 1 == statements.len() {
                true => Role::Question(question.clone()),
                false => Role::Forget,
            };
            self.queue(statement, role)?;
        }
        Ok(())
    }

    /// Waits for the answer to a question that is on its way.
    pub fn wait_for_verdict(&self, question: &CopyQuestion) -> Result<()> {
        let is_known = |state: &State| {
            question.verdict().is_some() || state.queue.is_empty() || state.link.is_none()
        };
        self.wait_until(is_known)?;
        self.check()
    }

    /// Asks, and waits for the answer.
    pub fn ask_whether_to_copy(
        &self,
        statements: &[Statement],
        question: &Rc<CopyQuestion>,
    ) -> Result<()> {
        self.enter()?;
        if question.verdict().is_none() {
            self.queue_question(statements, question)?;
            self.drain()?;
        }
        Ok(())
    }

    /// Sends and reads what can be done without waiting. An error is returned if it concerns the present level, whose rows
    /// may all be for other servers.
    pub fn nudge(&self) -> Result<()> {
        if self.state.borrow().queue.is_empty() {
            return Ok(());
        }
        self.advance();
        self.check_level()
    }

    /// Is the remote transaction still good at the present level? An error of an outer one is for its own statement.
    pub(in crate::remote) fn check_level(&self) -> Result<()> {
        let state = self.state.borrow();
        let level = xact::nest_level();
        match state.lost.iter().find(|failure| failure.level == level) {
            Some(failure) => Err(state.error_of(failure)),
            None => Ok(()),
        }
    }

    /// Hands the rows to the COPY that is open for them, if one is.
    pub fn stream(&self, rows: &Rc<dyn PendingRows>) -> Result<()> {
        let role = Role::Batch(rows.clone());
        // What is told goes between two COPYs.
        if !self.state.borrow_mut().queue.is_open_for(&role) || self.is_behind() {
            return Ok(());
        }
        let in_flight = self.state.borrow().queue.bytes_in_flight();
        if in_flight > 0 && in_flight + rows.bytes() > guc::max_in_flight() {
            return Ok(());
        }
        self.check()?;
        let written_by = rows.command_id();
        self.declare_where(|cursor| cursor.command_id <= written_by)?;
        match rows.take_more() {
            Some(copy) => {
                let count = copy
                    .subject
                    .rows
                    .map_or(0, |(first, last)| last - first + 1);
                self.counters.count_more(count, copy.rows.len() as u64);
                self.queue_copy(copy, role)
            }
            None => Ok(()),
        }
    }

    /// Number of buffers.
    pub fn pending_count(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Adds the rows of all buffers that `which` names to the current message.
    pub(in crate::remote) fn flush_where(
        &self,
        cause: FlushCause,
        which: impl Fn(&dyn PendingRows) -> bool,
    ) -> Result<()> {
        let waiting: Vec<_> = self
            .pending
            .borrow()
            .iter()
            .filter(|rows| which(&***rows))
            .cloned()
            .collect();
        waiting.iter().try_for_each(|rows| self.put(rows, cause))
    }

    /// Adds the rows that statements of `level` have left to the current message.
    pub fn flush_level(&self, cause: FlushCause, level: i32) -> Result<()> {
        self.flush_where(cause, |rows| rows.level() == level)
    }
}
