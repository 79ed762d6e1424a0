//! Keeping the memory for rows within its bound.

use crate::model::error::Result;
use crate::remote::session::{wait_for, Session};
use crate::remote::stats::FlushCause;
use crate::remote::{budget, cache};

/// After a row has been added: sends the largest buffers, and waits until the sockets have taken enough, if more is held
/// than `shard_fdw.buffer_memory` allows. One row that is larger goes alone.
#[inline]
pub fn make_room() -> Result<()> {
    if !budget::is_exceeded() {
        return Ok(());
    }
    send_largest()
}

#[cold]
fn send_largest() -> Result<()> {
    let sessions = cache::in_transaction();
    let all: Vec<&Session> = sessions.iter().map(|session| &**session).collect();
    while budget::is_exceeded() {
        let largest = all
            .iter()
            .filter_map(|session| Some((session, session.largest_pending()?)))
            .max_by_key(|(_, rows)| rows.bytes());
        let is_last = largest.is_none();
        if let Some((session, rows)) = largest {
            session.flush(&rows, FlushCause::Memory)?;
        }
        let done = |session: &Session| !budget::is_exceeded() || !session.has_unsent();
        wait_for(&all, done, None)?;
        all.iter().try_for_each(|session| session.check_level())?;
        if is_last {
            break;
        }
    }
    Ok(())
}
