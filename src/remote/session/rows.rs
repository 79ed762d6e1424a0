//! Rows that wait in relation buffers, as the session sees them.

use super::{Session, State};
use crate::model::error::Result;
use crate::pg::guc;
use crate::remote::pending::PendingRows;
use crate::remote::queue::Role;
use crate::remote::stats::FlushCause;
use std::rc::Rc;

impl Session {
    /// Makes a relation buffer known, so that barriers find it.
    pub fn add_pending(&self, rows: Rc<dyn PendingRows>) {
        self.pending.borrow_mut().push(rows);
    }

    /// Forgets a relation buffer that will not get rows any more.
    pub fn remove_pending(&self, rows: &Rc<dyn PendingRows>) {
        self.pending
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, rows));
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
    pub fn put(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
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
        let written_by = rows.command_id();
        self.declare_where(|cursor| cursor.command_id <= written_by)?;
        self.state.borrow_mut().wrote = true;
        for batch in rows.take(cause) {
            let count = batch
                .subject
                .rows
                .map_or(0, |(first, last)| last - first + 1);
            self.counters.count(cause, count, batch.len() as u64);
            self.queue(&batch, Role::Batch(rows.clone()))?;
        }
        Ok(())
    }

    /// Goes on sending what the socket did not take at the last flush, without waiting.
    pub fn nudge(&self) {
        if self.state.borrow().queue.has_unsent() {
            self.advance();
        }
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
