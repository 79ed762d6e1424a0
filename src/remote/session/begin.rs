//! Connecting and the beginning of remote transactions.

use super::Session;
use crate::model::error::Result;
use crate::model::option::Isolation;
use crate::model::sql::Sql;
use crate::pg::{guc, xact};
use crate::remote::connect;
use crate::remote::queue::{is_farewell, Queue, Role};
use crate::remote::statement::Statement;
use crate::remote::stats::FlushCause;

/// Names of the levels in `access/xact.h`, from `XACT_READ_UNCOMMITTED` (0) to `XACT_SERIALIZABLE` (3).
const ISOLATION_NAMES: [&str; 4] = [
    "READ UNCOMMITTED",
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
];

impl Session {
    pub(super) fn begin(&self, level: i32) -> Result<()> {
        let reused = self.connect()?;
        // Inside a savepoint nobody can tell whether READ ONLY is meant for all of the transaction: `enter` sets it there.
        let read_only = level == 1 && xact::is_read_only();
        let begin = self.begin_statement(read_only);
        if reused && !self.begin_answered(&begin)? {
            // The one silent reconnect: nothing of this transaction has been sent to the shard that could be lost.
            self.connect()?;
            self.queue(&begin, Role::Forget)?;
        } else if !reused {
            self.queue(&begin, Role::Forget)?;
        }
        self.state.borrow_mut().depth.begin(level);
        let pooled = self
            .state
            .borrow()
            .link
            .as_ref()
            .is_some_and(|link| link.pooled);
        if pooled {
            for setting in connect::of_transaction(&self.options) {
                self.queue(&Statement::plain(setting), Role::Forget)?;
            }
        }
        let mut state = self.state.borrow_mut();
        state.read_only_at = read_only.then_some(1);
        Ok(())
    }

    /// Makes the connection if there is none. Returns whether an older one is used again.
    pub(super) fn connect(&self) -> Result<bool> {
        {
            let mut state = self.state.borrow_mut();
            if let Some(link) = &mut state.link {
                // A shard that has gone away in the meantime has often said so.
                let alive = link.connection.consume_input().is_ok() && link.connection.is_ok();
                if alive && state.queue.is_empty() && !self.stale.get() {
                    return Ok(true);
                }
                state.link = None;
            }
            state.queue = Queue::default();
        }
        let application_name = guc::application_name();
        self.forget_relations();
        let link = connect::connect(&self.inputs(self.user.get(), &application_name))?;
        self.state.borrow_mut().link = Some(link);
        Ok(false)
    }

    /// Sends BEGIN alone over a connection that may be dead. False: it is.
    pub(super) fn begin_answered(&self, begin: &Statement) -> Result<bool> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        let sent = self
            .queue(begin, Role::Ticket(ticket))
            .and_then(|()| self.end_message());
        if sent.is_ok() {
            self.wait_until(|state| {
                state.queue.has_answer(ticket) || state.queue.is_empty() || state.link.is_none()
            })?;
        }
        let mut state = self.state.borrow_mut();
        state.lost = None;
        match state.queue.take_answer(ticket) {
            _ if state.link.is_none() => Ok(false),
            Some(Err(error)) => {
                state.link = None;
                if is_farewell(&error) {
                    return Ok(false);
                }
                Err(error)
            }
            Some(Ok(_)) => Ok(true),
            None => Err(sent
                .err()
                .unwrap_or_else(|| self.lost_error(b"BEGIN was not answered"))),
        }
    }

    /// BEGIN with the modes of the local transaction. A local SERIALIZABLE is SERIALIZABLE everywhere; otherwise
    /// REPEATABLE READ lets all scans of a query share a snapshot, unless the option asks for the local level.
    fn begin_statement(&self, read_only: bool) -> Statement {
        let local = xact::isolation_level().clamp(0, 3) as usize;
        let level = match self.options.isolation {
            Isolation::Match => local,
            Isolation::RepeatableRead => local.max(2),
        };
        let mut sql = Sql::from("START TRANSACTION ISOLATION LEVEL ");
        sql.push(ISOLATION_NAMES[level]);
        if read_only {
            sql.push(", READ ONLY");
        }
        if xact::is_deferrable() {
            sql.push(", DEFERRABLE");
        }
        Statement::plain(sql)
    }

    /// Follows a local transaction that has become READ ONLY since the remote one began.
    pub(super) fn enter_read_only(&self, level: i32) -> Result<()> {
        if !xact::is_read_only() || self.state.borrow().read_only_at.is_some() {
            return Ok(());
        }
        // Rows that were kept have been written before.
        self.flush_where(FlushCause::Barrier, |_| true)?;
        self.queue(&Statement::plain("SET TRANSACTION READ ONLY"), Role::Forget)?;
        self.state.borrow_mut().read_only_at = Some(level);
        Ok(())
    }
}
