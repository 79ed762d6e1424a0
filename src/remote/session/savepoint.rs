//! Savepoints, and the scans that have to be declared before them, or before what they must not see.

use super::Session;
use crate::model::error::{FdwError, Result};
use crate::remote::cursor::CursorState;
use crate::remote::queue::Role;
use crate::remote::statement::Statement;
use std::rc::Rc;

impl Session {
    /// Sets the savepoint of `level`, the next one. Everything of the levels above it must have been answered.
    ///
    /// Their scans that have not been declared are declared before it: else its rollback would take what is read of them below
    /// it. That costs a round trip, where there are such scans.
    pub(super) fn set_savepoint(&self, level: i32) -> Result<()> {
        let waiting = self.undeclared(|cursor| cursor.level() < level);
        if !waiting.is_empty() {
            self.follow()?;
        }
        self.queue_savepoint(level)?;
        self.state.borrow_mut().depth.deepen(level);
        if self.declare_below(waiting, level)? {
            self.queue_savepoint(level)?;
        }
        Ok(())
    }

    /// Declares cursors at the present depth, whose statements are not the one at work.
    pub(super) fn declare_apart(&self, cursors: Vec<Rc<CursorState>>) -> Result<()> {
        if cursors.is_empty() {
            return Ok(());
        }
        self.drain()?;
        let level = self.depth() + 1;
        self.queue_savepoint(level)?;
        self.state.borrow_mut().depth.deepen(level);
        if !self.declare_below(cursors, level)? {
            self.queue_release(level)?;
        }
        self.state.borrow_mut().depth.commit_sub(level);
        Ok(())
    }

    fn queue_savepoint(&self, level: i32) -> Result<()> {
        let savepoint = format!("SAVEPOINT s{level}");
        self.queue(&Statement::plain(savepoint.as_str()), Role::Savepoint)
    }

    fn queue_release(&self, level: i32) -> Result<()> {
        let release = format!("RELEASE SAVEPOINT s{level}");
        self.queue(&Statement::plain(release.as_str()), Role::Forget)
    }

    /// Declares cursors for the level above the savepoint of `level`, which has just been set. Returns whether it has been
    /// released.
    ///
    /// If the shard refuses one, that must not spoil the level it belongs to. Somebody else is at work, and it is that scan
    /// which has to fail, when it is read. So declarations are tried below the savepoint, and if the shard takes them, it is
    /// released, which leaves them to the level above.
    fn declare_below(&self, mut waiting: Vec<Rc<CursorState>>, level: i32) -> Result<bool> {
        while !waiting.is_empty() {
            let Some((refused, error)) = self.try_declaring(&waiting, level)? else {
                self.queue_release(level)?;
                waiting.iter().for_each(|cursor| cursor.declared(level - 1));
                return Ok(true);
            };
            let undo = format!("ROLLBACK TO SAVEPOINT s{level}");
            self.queue(&Statement::plain(undo.as_str()), Role::Forget)?;
            waiting.iter().for_each(|cursor| cursor.undeclare());
            waiting.remove(refused).refuse(error);
        }
        Ok(false)
    }

    /// Declares cursors below the savepoint of `level`, and waits for the answers. Returns the place of the one that the shard
    /// has refused, with its error. After an interrupt they are cursors like others of that level.
    fn try_declaring(
        &self,
        cursors: &[Rc<CursorState>],
        level: i32,
    ) -> Result<Option<(usize, FdwError)>> {
        let mut tickets = Vec::with_capacity(cursors.len());
        for cursor in cursors {
            let ticket = self.state.borrow_mut().queue.new_ticket();
            self.queue(&cursor.declaration(), Role::Ticket(ticket))?;
            cursor.declared(level);
            tickets.push(ticket);
        }
        self.end_message()?;
        self.wait_until(|state| state.queue.is_empty() || state.link.is_none())?;
        let mut state = self.state.borrow_mut();
        let mut refused = None;
        for (place, ticket) in tickets.into_iter().enumerate() {
            let answer = state.queue.take_answer(ticket);
            if let (Some(Err(error)), None) = (answer, &refused) {
                refused = Some((place, error));
            }
        }
        if refused.is_none() || !state.pardon(level) {
            state.check()?;
        }
        Ok(refused)
    }
}
