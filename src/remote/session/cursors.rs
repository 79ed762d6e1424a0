//! Remote cursors, as the session sees them.

use super::Session;
use crate::model::error::Result;
use crate::remote::cursor::CursorState;
use crate::remote::queue::Role;
use crate::remote::statement::Statement;
use std::rc::{Rc, Weak};

impl Session {
    pub(in crate::remote) fn new_cursor_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next_cursor += 1;
        state.next_cursor
    }

    pub(in crate::remote) fn register_cursor(&self, cursor: &Rc<CursorState>) {
        let mut state = self.state.borrow_mut();
        state.cursors.retain(|cursor| cursor.strong_count() > 0);
        state.cursors.push(Rc::downgrade(cursor));
    }

    /// Declares the registered cursors that `which` names and that have not been declared, so that what is sent
    /// next stays invisible to them.
    pub(in crate::remote) fn declare_where(
        &self,
        which: impl Fn(&CursorState) -> bool,
    ) -> Result<()> {
        let waiting: Vec<_> = self
            .state
            .borrow()
            .cursors
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|cursor| cursor.can_be_declared() && which(cursor))
            .collect();
        for cursor in waiting {
            self.queue(&cursor.declaration(), Role::Forget)?;
            cursor.declared(self.depth());
        }
        Ok(())
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
