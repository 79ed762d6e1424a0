//! Connecting and the beginning of remote transactions.

use super::follow::Told;
use super::Session;
use crate::model::error::{FdwError, Result};
use crate::model::option::Isolation;
use crate::model::sql::Sql;
use crate::pg::{backend, guc, xact};
use crate::remote::connect;
use crate::remote::queue::{Queue, Role, BEGINNING};
use crate::remote::statement::Statement;
use crate::remote::stats::FlushCause;
use crate::remote::usage::Writing;

/// Names of the levels in `access/xact.h`, from `XACT_READ_UNCOMMITTED` (0) to `XACT_SERIALIZABLE` (3).
const ISOLATION_NAMES: [&str; 4] = [
    "READ UNCOMMITTED",
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
];

impl Session {
    pub(super) fn begin(&self, level: i32) -> Result<()> {
        let mut reused = self.connect()?;
        // Inside a savepoint nobody can tell whether READ ONLY is meant for all of the transaction: `enter` sets it there.
        let read_only = level == 1 && xact::is_read_only() && !Writing::is_going_on();
        let begin = self.begin_statement(read_only);
        if reused && !self.begin_answered(&begin)? {
            // The one silent reconnect: nothing of this transaction has been sent to the shard that could be lost.
            self.connect()?;
            reused = false;
        }
        {
            let mut state = self.state.borrow_mut();
            state.depth.begin(level);
            state.told = Told::default();
        }
        if !reused {
            self.queue_begin(&begin, Role::Forget)?;
        }
        let mut state = self.state.borrow_mut();
        state.read_only_at = read_only.then_some(1);
        Ok(())
    }

    /// Adds BEGIN, and the settings that may have been changed since they were made.
    fn queue_begin(&self, begin: &Statement, role: Role) -> Result<()> {
        let settings = {
            let mut state = self.state.borrow_mut();
            state.link.as_mut().map(|link| {
                let is_unsettled = link.watch.is_unsettled;
                if link.pooled {
                    // Those of another session.
                    link.watch.disregard(&link.connection);
                }
                match is_unsettled {
                    true => link.renewal.all.clone(),
                    false => link.renewal.unreported.clone(),
                }
            })
        };
        self.queue_for(BEGINNING, begin, role)?;
        match settings {
            Some(settings) => self.queue_for(BEGINNING, &Statement::kept(settings), Role::Forget),
            None => Ok(()),
        }
    }

    /// Makes the settings once more where functions on the shard are known to change them: before rows are asked for, and
    /// before rows are written, which may call functions.
    pub(in crate::remote) fn renew_settings(&self) -> Result<()> {
        let settings = {
            let state = self.state.borrow();
            let link = state.link.as_ref();
            link.filter(|link| link.watch.is_unsettled && state.depth.is_open())
                .map(|link| link.renewal.all.clone())
        };
        match settings {
            Some(settings) => {
                self.queue(&Statement::kept(settings), Role::Forget)?;
                self.has_renewed();
                self.follow()
            }
            None => Ok(()),
        }
    }

    /// Makes the connection if there is none. Returns whether an older one is used again.
    pub(super) fn connect(&self) -> Result<bool> {
        // Who has waited for the server when the statement was planned does not wait for it again.
        if let Some((statement, error)) = self.unreachable.take() {
            if statement == backend::statement_start() {
                return Err(error);
            }
        }
        {
            let mut state = self.state.borrow_mut();
            if let Some(link) = &mut state.link {
                let alive = link.connection.is_alive();
                if alive && state.queue.is_empty() && !self.stale.get() {
                    return Ok(true);
                }
                state.link = None;
            }
            state.queue = Queue::default();
        }
        let application_name = guc::application_name();
        self.forget_relations();
        let (user, mapping) = self.asker.borrow().clone();
        let link = connect::connect(&self.inputs(user, &mapping, &application_name))?;
        self.locale.replace(Some(link.locale.clone()));
        self.state.borrow_mut().link = Some(link);
        Ok(false)
    }

    /// Sends BEGIN alone over a connection that may be dead. False: it is.
    pub(super) fn begin_answered(&self, begin: &Statement) -> Result<bool> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        let sent = self
            .queue_begin(begin, Role::Ticket(ticket))
            .and_then(|()| self.end_message());
        if sent.is_ok() {
            self.wait_until(|state| {
                state.queue.has_answer(ticket) || state.queue.is_empty() || state.link.is_none()
            })?;
        }
        let mut state = self.state.borrow_mut();
        match state.queue.take_answer(ticket) {
            Some(Err(error)) => {
                state.link = None;
                Err(error)
            }
            _ if state.link.is_none() => Ok(false),
            Some(Ok(_)) => Ok(true),
            None => Err(sent
                .err()
                .unwrap_or_else(|| FdwError::lost(&self.name, b"BEGIN was not answered"))),
        }
    }

    /// Level of the remote transaction, as an index of [`ISOLATION_NAMES`].
    fn isolation_level(&self) -> usize {
        let local = xact::isolation_level().clamp(0, 3) as usize;
        match self.options.isolation {
            Isolation::Match => local,
            Isolation::RepeatableRead => local.max(2),
        }
    }

    /// Do all statements of the remote transaction see the same snapshot?
    pub fn has_one_snapshot(&self) -> bool {
        self.isolation_level() >= 2
    }

    /// BEGIN with the modes of the local transaction. A local SERIALIZABLE is SERIALIZABLE everywhere; otherwise
    /// REPEATABLE READ lets all scans of a query share a snapshot, unless the option asks for the local level.
    fn begin_statement(&self, read_only: bool) -> Statement {
        let mut sql = Sql::from("START TRANSACTION ISOLATION LEVEL ");
        sql.push(ISOLATION_NAMES[self.isolation_level()]);
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
        let is_news = xact::is_read_only() && self.state.borrow().read_only_at.is_none();
        if !is_news || Writing::is_going_on() {
            return Ok(());
        }
        // Rows that were kept have been written before.
        self.flush_where(FlushCause::Barrier, |_| true)?;
        self.queue(&Statement::plain("SET TRANSACTION READ ONLY"), Role::Forget)?;
        self.state.borrow_mut().read_only_at = Some(level);
        Ok(())
    }
}
