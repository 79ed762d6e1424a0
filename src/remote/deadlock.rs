//! Sessions of this backend that wait for each other.
//!
//! No shard sees such a cycle: one session waits there for a lock of another one, which is idle, and which we will not end before
//! the first has its answer. So whoever waits longer than `deadlock_timeout` asks the shard who blocks it, over a connection of its
//! own, since the other session may be in any state.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::backend;
use crate::remote::autocommit;
use crate::remote::cache;
use crate::remote::session::{Session, SessionRef};
use crate::remote::statement::{Param, Statement};
use std::ffi::CString;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// All sessions that a backend of the shard waits for, directly or not. A prepared transaction has the number 0.
const QUESTION: &str = "\
WITH RECURSIVE b(pid) AS (
  SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1::pg_catalog.int4))
  UNION SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids(b.pid)) FROM b WHERE b.pid OPERATOR(pg_catalog.<>) 0)
SELECT pid FROM b";

/// When a wait is to be looked at.
pub struct Watch {
    next: Instant,
    pause: Duration,
}

impl Watch {
    /// For a wait that begins now.
    pub fn new() -> Watch {
        let pause = Duration::from_millis(backend::deadlock_timeout());
        Watch {
            next: Instant::now() + pause,
            pause,
        }
    }

    pub fn due_at(&self) -> Instant {
        self.next
    }

    /// If it is time: an error (40P01) if one of these sessions waits for another one of this backend. The pauses get longer: a cycle can
    /// close later, and a wait for somebody else can be long.
    pub fn look(&mut self, waiting: &[&Session]) -> Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        for session in waiting {
            if let Some(blocker) = blocker_of(session) {
                return Err(deadlock(session, &blocker));
            }
        }
        self.pause = self.pause.saturating_mul(2);
        self.next = Instant::now() + self.pause;
        Ok(())
    }
}

/// A session of this backend that is idle in its transaction, and that this one waits for. What cannot be asked is not known.
fn blocker_of(session: &Session) -> Option<SessionRef> {
    let waiting = session.place()?;
    let mut others = cache::in_transaction();
    others.retain(|other| {
        let place = other.place();
        other.is_quiet()
            && place.is_some_and(|place| place.server == waiting.server && place.pid != waiting.pid)
    });
    if others.is_empty() {
        return None;
    }
    let blocking = ask(session, waiting.pid)?;
    others.into_iter().find(|other| {
        other
            .place()
            .is_some_and(|place| blocking.contains(&place.pid))
    })
}

fn ask(session: &Session, pid: i32) -> Option<Vec<i32>> {
    let user = session.user();
    let connection = autocommit::connection(session.server().oid, user).ok()?;
    let was_connected = connection.is_connected();
    let question = Statement {
        params: vec![Param::text(CString::new(pid.to_string()).ok())],
        ..Statement::kept(Rc::new(Sql::from(QUESTION)))
    };
    let outcomes = connection.ask(user, true, |_| vec![vec![question.clone()]]);
    if !was_connected {
        connection.disconnect();
    }
    let outcome = outcomes.ok()?.into_iter().next()?;
    let answer = outcome.results.last()?;
    let pid = |row| {
        std::str::from_utf8(answer.value(row, 0)?)
            .ok()?
            .parse()
            .ok()
    };
    Some((0..answer.ntuples()).filter_map(pid).collect())
}

fn deadlock(session: &Session, blocker: &Session) -> FdwError {
    let name = |session: &Session| {
        (
            session.server().display_name(),
            text::from_bytes(&session.remote_user().unwrap_or_default()),
        )
    };
    let (server, user) = name(session);
    let (other_server, other_user) = name(blocker);
    FdwError::local(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(format!(
            "The session with server \"{server}\" as remote user \"{user}\" waits for a lock that the session with server \"{other_server}\" as remote user \"{other_user}\" has, in the same transaction."
        ))
        .with_hint(format!(
            "User mappings with the same options share a session; those for \"{user}\" and \"{other_user}\" cannot."
        ))
}
