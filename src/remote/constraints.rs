//! SET CONSTRAINTS: ALL of the local transaction, which the shards follow, and names of constraints on one of them.

use crate::model::error::Result;
use crate::model::levels::Levels;
use crate::model::sql::Sql;
use crate::pg::xact;
use crate::remote::cache::{self, in_transaction};
use crate::remote::session::{drain_all, Session};
use crate::remote::statement::Statement;
use crate::remote::stats::FlushCause;
use std::cell::{Cell, RefCell};

/// What a SET CONSTRAINTS ALL has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Tells it from others that said the same: it counts for constraints that were named in between.
    number: u64,
    is_deferred: bool,
}

thread_local! {
    /// Those of the local transaction.
    static MODES: RefCell<Levels<Mode>> = const { RefCell::new(Levels::new()) };
    static LAST_NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl Mode {
    pub(super) fn statement(self) -> Statement {
        Statement::plain(match self.is_deferred {
            true => "SET CONSTRAINTS ALL DEFERRED",
            false => "SET CONSTRAINTS ALL IMMEDIATE",
        })
    }
}

/// What counts at this nesting level. None: nothing has been said.
pub(super) fn mode_at(level: i32) -> Option<Mode> {
    MODES.with_borrow(|modes| modes.at(level))
}

pub(super) fn leave_level(level: i32) {
    MODES.with_borrow_mut(|modes| modes.leave_level(level));
}

pub(super) fn undo_level(level: i32) {
    MODES.with_borrow_mut(|modes| modes.undo_level(level));
}

/// The local transaction is over.
pub(super) fn forget() {
    MODES.with_borrow_mut(Levels::clear);
}

/// The local transaction has set all constraints. A shard hears of it with the next message. Those that have been written to
/// check at once what was deferred, and their errors are those of this statement, as they are for local tables.
pub fn set_all(is_deferred: bool) -> Result<()> {
    cache::listen();
    let level = xact::nest_level();
    let sessions = in_transaction();
    let all: Vec<&Session> = sessions.iter().map(|session| &**session).collect();
    if is_deferred {
        // Rows of earlier statements were written under what counted then.
        for session in all {
            session.flush_finished(level)?;
        }
        note(level, is_deferred);
        return Ok(());
    }
    let written_by = xact::current_command_id();
    let mut writers = all;
    writers.retain(|session| session.wrote() || session.has_pending_rows());
    for session in &writers {
        session.enter()?;
        session.flush_where(FlushCause::Barrier, |_| true)?;
        // What deferred triggers write is not for scans that have begun.
        session.declare_where(|cursor| cursor.command_id <= written_by)?;
    }
    note(level, is_deferred);
    for session in &writers {
        session.follow()?;
        session.end_message()?;
    }
    drain_all(&writers)?;
    writers.iter().try_for_each(|session| session.settle())
}

fn note(level: i32, is_deferred: bool) {
    let number = LAST_NUMBER.get() + 1;
    LAST_NUMBER.set(number);
    let mode = Mode {
        number,
        is_deferred,
    };
    MODES.with_borrow_mut(|modes| modes.set(level, mode));
}

/// Sets constraints of the session's shard by their names, which are written as SQL has them.
pub fn set_named(session: &Session, names: &[Sql], is_deferred: bool) -> Result<()> {
    let mut sql = Sql::from("SET CONSTRAINTS ");
    sql.push_list(", ", names.iter(), |sql, name| {
        sql.push_bytes(name.as_bytes());
    });
    sql.push(match is_deferred {
        true => " DEFERRED",
        false => " IMMEDIATE",
    });
    let may_write = !is_deferred && (session.wrote() || session.has_pending_rows());
    session.execute(&Statement {
        written_by: may_write.then(xact::current_command_id),
        ..Statement::plain(sql)
    })?;
    session.settle()
}
