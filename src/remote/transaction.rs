//! The ends of local transactions, carried over to all sessions: commit, rollback, and the same for savepoints.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::socket::Interest;
use crate::pg::version::WaitEvent;
use crate::pg::{wait, xact};
use crate::pq::{CancelProgress, CancelRequest};
use crate::remote::autocommit;
use crate::remote::cache::{self, in_transaction};
use crate::remote::constraints;
use crate::remote::queue::COMMIT;
use crate::remote::session::{drain_all, wait_for, Session, SessionRef};
use crate::remote::spare;
use crate::remote::statement::{add_context, Statement};
use crate::remote::stats::FlushCause;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

/// Longest time that cleaning up after an error may take, for all sessions together.
const CLEANUP_LIMIT: Duration = Duration::from_secs(30);

/// Longest time to wait for a savepoint to be set before what follows it is cancelled.
const SAVEPOINT_LIMIT: Duration = Duration::from_secs(5);

/// What happens at the ends of local transactions.
pub const HOOKS: xact::Hooks = xact::Hooks {
    pre_commit,
    pre_prepare,
    commit: forget_all,
    abort,
    pre_commit_sub,
    commit_sub,
    abort_sub,
};

fn borrowed(sessions: &[SessionRef]) -> Vec<&Session> {
    sessions.iter().map(|session| &**session).collect()
}

// Commit ------------------------------------------------------------------------------------------------------------

/// How a session's remote transaction ended.
enum Outcome {
    Committed,
    /// The shard refused; nothing of it stays.
    RolledBack(FdwError),
    /// COMMIT was sent and its answer never seen.
    Unknown(FdwError),
}

fn pre_commit() -> Result<()> {
    let sessions = in_transaction();
    if sessions.is_empty() {
        return Ok(());
    }
    for session in &sessions {
        session.check()?;
        session.flush_kept(1)?;
        if session.has_pending_rows() {
            return Err(FdwError::internal(format!(
                "rows for server \"{}\" were left behind at the end of the transaction",
                session.server().display_name()
            )));
        }
    }
    let all = borrowed(&sessions);
    drain_all(&all)?;
    all.iter().try_for_each(|session| session.settle())?;
    let writers: Vec<&Session> = all
        .iter()
        .copied()
        .filter(|session| session.wrote())
        .collect();
    if writers.len() > 1 {
        check_constraints(&writers)?;
    }
    xact::check_serializable();
    // The last moment for an interrupt that need not tell what has been committed.
    wait::check_for_interrupts();
    // A shard that is already gone has not committed: say so while everything can still be rolled back.
    for session in &all {
        session.look_for_end();
        session.check()?;
    }
    commit(&sessions)?;
    xact::hold_interrupts_until_end();
    Ok(())
}

/// Lets deferred constraints and triggers fail now, while all shards can still roll back.
fn check_constraints(writers: &[&Session]) -> Result<()> {
    for session in writers {
        session.queue_check()?;
        session.end_message()?;
    }
    drain_all(writers)
}

fn commit(sessions: &[SessionRef]) -> Result<()> {
    // Those that have agreed to it commit at the same time, the others one after the other before them.
    let (parallel, single): (Vec<_>, Vec<_>) = sessions
        .iter()
        .cloned()
        .partition(|session| session.options().parallel_commit);
    let mut groups: Vec<Vec<SessionRef>> =
        single.into_iter().map(|session| vec![session]).collect();
    if !parallel.is_empty() {
        groups.push(parallel);
    }
    let mut outcomes: Vec<(SessionRef, bool, Outcome)> = Vec::new();
    for group in groups {
        let failed = outcomes
            .iter()
            .any(|(_, _, outcome)| !matches!(outcome, Outcome::Committed));
        if failed {
            break;
        }
        outcomes.extend(commit_group(&group));
    }
    let failed = outcomes
        .iter()
        .any(|(_, _, outcome)| !matches!(outcome, Outcome::Committed));
    if failed {
        return Err(commit_error(sessions, outcomes));
    }
    Ok(())
}

/// Sends COMMIT to all of the group and waits for the answers. From here on nothing may escape as another error
/// than the one that tells the outcome.
///
/// The end of the process would be such an error: it has to wait until the client has been told.
fn commit_group(group: &[SessionRef]) -> Vec<(SessionRef, bool, Outcome)> {
    let held = wait::hold_interrupts();
    let tickets: Vec<Option<u64>> = group.iter().map(|session| session.send_commit()).collect();
    let all = borrowed(group);
    let waited = catch_unwind(AssertUnwindSafe(|| {
        let done = |session: &Session| {
            held.serve_barrier();
            session.is_quiet() || wait::interrupt_is_due()
        };
        wait_for(&all, done, None)
    }));
    let interrupted = !matches!(waited, Ok(Ok(_))) || wait::interrupt_is_due();
    group
        .iter()
        .zip(tickets)
        .map(|(session, ticket)| {
            let wrote = session.wrote();
            let outcome = outcome(session, ticket, interrupted);
            if !matches!(outcome, Outcome::Unknown(_)) {
                session.end_transaction();
            }
            (session.clone(), wrote, outcome)
        })
        .collect()
}

fn outcome(session: &SessionRef, ticket: Option<u64>, interrupted: bool) -> Outcome {
    let answer = ticket.and_then(|ticket| session.take_answer(ticket));
    match answer {
        Some(Ok(result)) if result.command_tag() == b"COMMIT" => Outcome::Committed,
        Some(Ok(_)) => Outcome::RolledBack(rolled_back(session)),
        Some(Err(error)) if session.is_connected() && !error.is_connection_loss() => {
            Outcome::RolledBack(error)
        }
        other => {
            let error = match other {
                Some(Err(error)) => error,
                _ => session.check().err().unwrap_or_else(|| {
                    let detail: &[u8] = match interrupted {
                        true => b"Waiting for the answer to COMMIT was interrupted.",
                        false => b"",
                    };
                    FdwError::lost(session.server().display_name(), detail)
                }),
            };
            session.give_up(b"the outcome of COMMIT is unknown");
            Outcome::Unknown(error)
        }
    }
}

fn rolled_back(session: &Session) -> FdwError {
    let error = FdwError::local(
        SqlState::parse(b"40000").unwrap_or(SqlState::FDW_ERROR),
        format!(
            "server \"{}\" rolled the transaction back instead of committing it",
            session.server().display_name()
        ),
    );
    add_context(
        error,
        &session.server().name,
        &COMMIT.into(),
        &Default::default(),
    )
}

/// The error of a commit that failed somewhere. It is the shard's own only if no shard can have committed what it
/// was told to write: a client that sees a retryable SQLSTATE will run the transaction again.
fn commit_error(sessions: &[SessionRef], outcomes: Vec<(SessionRef, bool, Outcome)>) -> FdwError {
    let may_have_committed = outcomes
        .iter()
        .any(|(_, wrote, outcome)| *wrote && !matches!(outcome, Outcome::RolledBack(_)));
    if !may_have_committed {
        let first = outcomes
            .into_iter()
            .find_map(|(_, _, outcome)| match outcome {
                Outcome::RolledBack(error) | Outcome::Unknown(error) => Some(error),
                Outcome::Committed => None,
            });
        return first.unwrap_or_else(|| FdwError::internal("a commit failed without an error"));
    }
    let mut detail = Vec::new();
    for session in sessions {
        let outcome = outcomes
            .iter()
            .find(|(of, _, _)| std::rc::Rc::ptr_eq(of, session))
            .map(|(_, _, outcome)| outcome);
        if !detail.is_empty() {
            detail.push(b'\n');
        }
        detail.extend_from_slice(b"Server \"");
        detail.extend_from_slice(&session.server().name);
        match outcome {
            Some(Outcome::Committed) => detail.extend_from_slice(b"\": committed."),
            None => detail.extend_from_slice(b"\": rolled back, COMMIT was not sent."),
            Some(Outcome::RolledBack(error)) => {
                detail.extend_from_slice(b"\": rolled back: ");
                detail.extend_from_slice(&summary(error));
            }
            Some(Outcome::Unknown(error)) => {
                detail.extend_from_slice(b"\": unknown: ");
                detail.extend_from_slice(&summary(error));
            }
        }
    }
    FdwError::Commit {
        message: "could not commit the transaction on all servers".into(),
        detail,
    }
}

/// SQLSTATE and message of an error, for a DETAIL line. Of a session that the shard has ended: what it said.
fn summary(error: &FdwError) -> Vec<u8> {
    let diag = error.diag();
    match error.farewell() {
        Some(farewell) => [diag.message, farewell.summary()].join(&b": "[..]),
        None => diag.summary(),
    }
}

/// Sends everything that waits, and waits for the answers. Returns the number of rows.
pub fn flush_all() -> Result<u64> {
    let sessions = in_transaction();
    let sent = || -> u64 {
        let rows = sessions
            .iter()
            .map(|session| session.counters().writes().rows);
        rows.sum()
    };
    let before = sent();
    for session in &sessions {
        session.check()?;
        session.flush_where(FlushCause::Barrier, |_| true)?;
    }
    drain_all(&borrowed(&sessions))?;
    sessions.iter().try_for_each(|session| session.settle())?;
    Ok(sent() - before)
}

fn pre_prepare() -> Result<()> {
    if in_transaction().is_empty() {
        return Ok(());
    }
    Err(FdwError::unsupported(
        "cannot PREPARE a transaction that has used foreign tables of shard_fdw",
    ))
}

// Rollback ----------------------------------------------------------------------------------------------------------

fn forget_all() -> Result<()> {
    constraints::forget();
    for session in cache::all() {
        session.end_transaction();
    }
    cache::unbind();
    autocommit::end_transaction();
    spare::clear();
    Ok(())
}

fn abort() -> Result<()> {
    constraints::forget();
    // A process that ends in the middle of a wait gets here with its session in use. The shard then sees the
    // connection go, and rolls back by itself.
    let mut sessions = in_transaction();
    sessions.retain(|session| session.is_free());
    clean_up(&sessions, 1, &[Statement::plain("ROLLBACK")]);
    spare::clear();
    cache::unbind();
    autocommit::end_transaction();
    for session in cache::all() {
        if session.is_free() {
            session.end_transaction();
        }
    }
    Ok(())
}

fn pre_commit_sub(level: i32) -> Result<()> {
    let mut keeping = Vec::new();
    for session in in_transaction() {
        if session.flush_kept(level)? {
            keeping.push(session);
        }
    }
    drain_all(&borrowed(&keeping))?;
    for session in &keeping {
        session.settle()?;
        session.drop_kept(level);
    }
    // Also those that have not begun: scans registered with them move up a level.
    cache::all()
        .iter()
        .try_for_each(|session| session.pre_commit_sub(level))
}

/// Nothing can undo the subtransaction any more, so savepoints can be released. Before, an error of one server would have to
/// undo it on those that had released theirs.
fn commit_sub(level: i32) -> Result<()> {
    constraints::leave_level(level);
    for session in cache::all() {
        session.commit_sub(level);
    }
    Ok(())
}

fn abort_sub(level: i32) -> Result<()> {
    constraints::undo_level(level);
    let mut sessions = cache::all();
    sessions.retain(|session| session.is_free());
    let mut used = sessions.clone();
    used.retain(|session| session.abort_sub_locally(level));
    let undo = [
        format!("ROLLBACK TO SAVEPOINT s{level}"),
        format!("RELEASE SAVEPOINT s{level}"),
    ];
    let undo = undo.map(|sql| Statement::plain(sql.as_str()));
    clean_up(&used, level, &undo);
    for session in &sessions {
        session.rolled_back_to(level);
    }
    Ok(())
}

/// Stops what the sessions are doing, and has them run `undo`, which undoes `level`. Whoever does not manage within the limit
/// loses the connection: its state is in doubt.
fn clean_up(sessions: &[SessionRef], level: i32, undo: &[Statement]) {
    let deadline = Instant::now() + CLEANUP_LIMIT;
    let (parallel, single): (Vec<_>, Vec<_>) = sessions
        .iter()
        .cloned()
        .partition(|session| session.options().parallel_abort);
    let groups = single
        .into_iter()
        .map(|session| vec![session])
        .chain([parallel]);
    for group in groups.filter(|group| !group.is_empty()) {
        clean_up_group(&group, level, undo, deadline);
    }
}

fn clean_up_group(group: &[SessionRef], level: i32, undo: &[Statement], deadline: Instant) {
    let all = borrowed(group);
    // Interrupts are held here, so a panic would be a fault of ours: then all sessions are in doubt.
    let _ = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
        cancel(group, deadline)?;
        wait_for(&all, Session::is_quiet, Some(deadline))?;
        for session in all.iter().filter(|session| session.is_quiet()) {
            session.send_undo(level, undo);
        }
        wait_for(&all, Session::is_quiet, Some(deadline))?;
        Ok(())
    }));
    for session in group {
        if !session.is_quiet() {
            session.give_up(b"Cleaning up after an error took too long.");
        } else if !session.undo_succeeded() {
            session.give_up(b"The transaction could not be rolled back.");
        }
    }
}

/// Asks the shards to stop the statements under way. Whether they do shows in the answers.
fn cancel(group: &[SessionRef], deadline: Instant) -> Result<()> {
    for session in group {
        session.stop_sending();
        session.advance();
    }
    // A savepoint that was never set cannot be rolled back to, and all that was before it would be lost.
    let limit = deadline.min(Instant::now() + SAVEPOINT_LIMIT);
    let is_set = |session: &Session| !session.sets_savepoint();
    wait_for(&borrowed(group), is_set, Some(limit))?;
    let mut requests: Vec<CancelRequest> = group
        .iter()
        .filter(|session| session.may_take_long())
        .filter_map(|session| session.start_cancel())
        .collect();
    while Instant::now() < deadline {
        requests.retain(|request| request.socket().is_some());
        let wanted = |request: &CancelRequest| match request.progress() {
            CancelProgress::Wait(interest) => Some((request.socket()?, interest)),
            _ => None,
        };
        let sockets: Vec<_> = requests.iter().filter_map(wanted).collect();
        if sockets.is_empty() {
            break;
        }
        let came = wait::for_sockets(&sockets, Some(deadline), WaitEvent::Cleanup)?;
        // The wait also ends for an interrupt, which is held here. libpq may block when it is asked for the next step of
        // a request whose socket is not ready for it.
        let ready = came.iter().map(|came| *came != Interest::default());
        for (request, _) in requests.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            request.poll();
        }
    }
    Ok(())
}
