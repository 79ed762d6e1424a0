//! A statement's use of a session.

use crate::model::error::Result;
use crate::remote::cache;
use crate::remote::session::SessionRef;
use crate::remote::stats::WaitStats;
use pgrx::pg_sys::Oid;
use std::cell::Cell;

thread_local! {
    static WRITING: Cell<u32> = const { Cell::new(0) };
}

/// Part of the state of a statement that writes to foreign tables. Core lets it go on when one of its functions makes the
/// transaction READ ONLY, so shards must not hear of that before it is over.
pub struct Writing(());

impl Writing {
    pub fn new() -> Writing {
        WRITING.set(WRITING.get() + 1);
        Writing(())
    }

    /// Is such a statement running?
    pub fn is_going_on() -> bool {
        WRITING.get() > 0
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITING.set(WRITING.get().saturating_sub(1));
    }
}

/// The session that a statement uses for a foreign table: found when first needed, and kept whoever is the current user
/// then.
pub struct Usage {
    server: Oid,
    /// Whose user mapping is used.
    user: Oid,
    session: Option<SessionRef>,
    /// What the session had waited before.
    before: WaitStats,
}

impl Usage {
    pub fn new(server: Oid, user: Oid) -> Usage {
        Usage {
            server,
            user,
            session: None,
            before: WaitStats::default(),
        }
    }

    /// Does not connect.
    pub fn session(&mut self) -> Result<SessionRef> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let session = cache::session(self.server, self.user)?;
        self.before = session.counters().waits();
        self.session = Some(session.clone());
        Ok(session)
    }

    /// The session, if the statement has used it.
    pub fn found(&self) -> Option<&SessionRef> {
        self.session.as_ref()
    }

    /// What the session has waited since the statement first needed it, for whatever table.
    pub fn waits(&self) -> WaitStats {
        self.found().map_or_else(WaitStats::default, |session| {
            session.counters().waits().since(self.before)
        })
    }
}
