//! Remote cursors, as the session sees them.

use super::Session;
use crate::model::error::Result;
use crate::pg::backend;
use crate::remote::cursor::CursorState;
use crate::remote::queue::Role;
use crate::remote::statement::Statement;
use std::collections::HashSet;
use std::rc::{Rc, Weak};

impl Session {
    /// The smallest number that no other cursor has, so that the shard sees few different statements. Those in use when something was
    /// undone do not come again in the transaction: what was to close them may have been undone, or left out after an error.
    pub(in crate::remote) fn new_cursor_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let alive = state.cursors.iter().filter_map(Weak::upgrade);
        let alive = alive.map(|cursor| cursor.number());
        let closing = state.closing.iter().map(|&(_, number)| number);
        let used: HashSet<u64> = alive.chain(closing).collect();
        let number = (state.spoiled_cursors + 1..).find(|number| !used.contains(number));
        let number = number.unwrap_or(u64::MAX);
        state.highest_cursor = state.highest_cursor.max(number);
        number
    }

    pub(in crate::remote) fn register_cursor(&self, cursor: &Rc<CursorState>) {
        let mut state = self.state.borrow_mut();
        state.cursors.retain(|cursor| cursor.strong_count() > 0);
        state.cursors.push(Rc::downgrade(cursor));
    }

    /// Declares the registered cursors that `which` names and that have not been declared, so that what is sent
    /// next stays invisible to them. Those of deeper levels than the remote transaction has are left alone: an error of theirs
    /// would spoil a level that has no part in it. And an error of other portals' scans, which may be read later or never, must
    /// not be that of the statement which is at work.
    pub(in crate::remote) fn declare_where(
        &self,
        which: impl Fn(&CursorState) -> bool,
    ) -> Result<()> {
        let depth = self.depth();
        let waiting = self.undeclared(|cursor| cursor.level() <= depth && which(cursor));
        if waiting.is_empty() {
            return Ok(());
        }
        let portal = backend::active_portal();
        let (own, others): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|cursor| cursor.portal == portal);
        self.declare_apart(others)?;
        for cursor in own {
            self.queue(&cursor.declaration(), Role::Forget)?;
            cursor.declared(depth);
        }
        Ok(())
    }

    /// The registered cursors that `which` names, and that can be declared.
    pub(super) fn undeclared(&self, which: impl Fn(&CursorState) -> bool) -> Vec<Rc<CursorState>> {
        let state = self.state.borrow();
        let registered = state.cursors.iter().filter_map(Weak::upgrade);
        registered
            .filter(|cursor| cursor.can_be_declared() && which(cursor))
            .collect()
    }

    /// Depth of the remote transaction: 1 at its top, one more for each savepoint.
    pub(in crate::remote) fn depth(&self) -> i32 {
        self.state.borrow().depth.get()
    }

    pub(super) fn close_cursors(&self) -> Result<()> {
        let closing = std::mem::take(&mut self.state.borrow_mut().closing);
        for (_, number) in closing {
            self.queue(
                &Statement::plain(format!("CLOSE c{number}").as_str()),
                Role::Forget,
            )?;
        }
        Ok(())
    }
}
