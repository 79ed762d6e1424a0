//! What holds in the local transaction and has to hold on the shard too. It goes with the next message, and costs no round trip.

use super::Session;
use crate::model::error::Result;
use crate::model::levels::Levels;
use crate::pg::xact;
use crate::remote::connect::lock_timeout_statement;
use crate::remote::constraints::{self, Mode};
use crate::remote::queue::Role;
use crate::remote::statement::Statement;

/// What the remote transaction has been told, at which depth: it forgets with its savepoints.
#[derive(Default)]
pub(super) struct Told {
    /// Milliseconds.
    lock_timeout: Levels<i32>,
    constraints: Levels<Mode>,
}

impl Told {
    pub fn leave_level(&mut self, level: i32) {
        self.lock_timeout.leave_level(level);
        self.constraints.leave_level(level);
    }

    pub fn undo_level(&mut self, level: i32) {
        self.lock_timeout.undo_level(level);
        self.constraints.undo_level(level);
    }
}

impl Session {
    /// Adds to the current message what has changed since the remote transaction was told last.
    ///
    /// How constraints are set counts for the nesting level where it was said and deeper ones, so savepoints above that level
    /// never hear of it.
    pub(in crate::remote) fn follow(&self) -> Result<()> {
        let depth = self.depth();
        self.tell_lock_timeout(depth)?;
        if let Some(mode) = self.untold_constraints() {
            self.queue(&mode.statement(), Role::Forget)?;
            self.state.borrow_mut().told.constraints.set(depth, mode);
        }
        Ok(())
    }

    /// The same before the remote transaction ends, when deferred constraints and triggers run: they must not write where the
    /// local transaction may not. An error spoils `level`.
    pub(super) fn follow_to_end(&self, level: i32) -> Result<()> {
        self.tell_lock_timeout(level)?;
        let is_told = self.state.borrow().read_only_at.is_some();
        if xact::is_read_only() && !is_told {
            let sql = "SET TRANSACTION READ ONLY";
            self.queue_for(level, &Statement::plain(sql), Role::Forget)?;
            self.state.borrow_mut().read_only_at = Some(1);
        }
        Ok(())
    }

    /// Is there anything that [`Session::follow`] would tell?
    pub(super) fn is_behind(&self) -> bool {
        self.untold_lock_timeout().is_some() || self.untold_constraints().is_some()
    }

    /// The settings of a pooler's session have been made again.
    pub(super) fn has_renewed(&self) {
        let is_ours = |name: &[u8]| name.eq_ignore_ascii_case(b"lock_timeout");
        let mut settings = self.options.session_settings.iter();
        if !settings.any(|setting| is_ours(&setting.name)) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let depth = state.depth.get();
        if let Some(own) = state.link.as_ref().filter(|link| link.pooled) {
            let own = own.lock_timeout;
            state.told.lock_timeout.set(depth, own);
        }
    }

    fn tell_lock_timeout(&self, level: i32) -> Result<()> {
        let Some(limit) = self.untold_lock_timeout() else {
            return Ok(());
        };
        self.queue_for(level, &lock_timeout_statement(limit), Role::Forget)?;
        let mut state = self.state.borrow_mut();
        let depth = state.depth.get();
        state.told.lock_timeout.set(depth, limit);
        Ok(())
    }

    fn untold_lock_timeout(&self) -> Option<i32> {
        let state = self.state.borrow();
        let link = state.link.as_ref().filter(|_| state.depth.is_open())?;
        let told = state.told.lock_timeout.at(state.depth.get());
        let wanted = link.wanted_lock_timeout();
        (told.unwrap_or(link.lock_timeout) != wanted).then_some(wanted)
    }

    fn untold_constraints(&self) -> Option<Mode> {
        let state = self.state.borrow();
        let depth = state.depth.get();
        let mode = constraints::mode_at(depth).filter(|_| state.depth.is_open())?;
        (state.told.constraints.at(depth) != Some(mode)).then_some(mode)
    }
}
