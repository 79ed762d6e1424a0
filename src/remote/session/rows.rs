//! Rows that wait in relation buffers, as the session sees them.

use super::Session;
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

    /// Sends the rows of one buffer, once there is room for them among the bytes in flight. The rows leave the buffer
    /// only when nothing can come in between any more: an interrupt while waiting must not lose them.
    pub fn flush(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let limit = guc::max_in_flight();
        let bytes = rows.bytes();
        self.wait_until(|state| {
            let in_flight = state.queue.bytes_in_flight();
            in_flight == 0 || in_flight + bytes <= limit
        })?;
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
        self.end_message()
    }

    /// Goes on sending what the socket did not take at the last flush, without waiting.
    pub fn nudge(&self) {
        if self.state.borrow().queue.has_unsent() {
            self.advance();
        }
    }

    /// Sends the rows of all buffers that `which` names.
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
        waiting.iter().try_for_each(|rows| self.flush(rows, cause))
    }

    /// Sends the rows that statements of `level` have left.
    pub fn flush_level(&self, cause: FlushCause, level: i32) -> Result<()> {
        self.flush_where(cause, |rows| rows.level() == level)
    }
}
