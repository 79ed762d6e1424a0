//! Waiting for sockets so that cancel, timeouts and the postmaster's death are noticed.
//!
//! Every wait may raise PostgreSQL's error for an interrupt, as a panic of pgrx that unwinds: the caller's state must
//! be consistent whenever it waits. Where interrupts are held (abort processing) only deadline and sockets end a wait.

use crate::model::error::{FdwError, Result};
use crate::model::socket::{Interest, Socket};
use crate::pg::version::{self, WaitEvent};
use pgrx::pg_sys;
use std::ffi::{c_int, c_long, c_void};
use std::time::{Duration, Instant};

/// Milliseconds after which a wait without a near deadline looks again, so that the number always fits.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Events that every wait has besides its sockets.
const ALWAYS: u32 = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;

/// Waits until one of the events of `interest` has come on `socket`, and returns those that have. None: the deadline
/// has passed and nothing had come by then.
pub fn for_socket(
    socket: Socket,
    interest: Interest,
    deadline: Option<Instant>,
    event: WaitEvent,
) -> Option<Interest> {
    let events = ALWAYS | socket_events(interest) | pg_sys::WL_TIMEOUT;
    loop {
        let (timeout, is_last) = remaining(deadline);
        // SAFETY: the latch is this process's own, and the socket is open.
        let woken = unsafe {
            pg_sys::WaitLatchOrSocket(
                latch(),
                events as c_int,
                socket,
                timeout,
                version::wait_event(event),
            )
        } as u32;
        if woken & pg_sys::WL_LATCH_SET != 0 {
            serve_latch();
        }
        let came = interest_of(woken);
        if came != Interest::default() {
            return Some(came);
        }
        if woken & pg_sys::WL_TIMEOUT != 0 && is_last {
            return None;
        }
    }
}

/// Waits until something has come on one of the sockets, and returns what, in the order of `sockets`; all empty: the
/// deadline has passed, or an interrupt has come that is held. With no sockets at all it waits for the deadline, which
/// must be given then.
pub fn for_sockets(
    sockets: &[(Socket, Interest)],
    deadline: Option<Instant>,
    event: WaitEvent,
) -> Result<Vec<Interest>> {
    if sockets.is_empty() && deadline.is_none() {
        return Err(FdwError::internal("a wait for nothing would never end"));
    }
    let set = WaitSet::new(sockets)?;
    let mut occurred = vec![pg_sys::WaitEvent::default(); sockets.len() + 1];
    loop {
        let (timeout, is_last) = remaining(deadline);
        let count = set.wait(timeout, &mut occurred, event);
        let mut came = vec![Interest::default(); sockets.len()];
        let mut interrupted = false;
        for happened in &occurred[..count] {
            if happened.events & pg_sys::WL_LATCH_SET != 0 {
                serve_latch();
                interrupted = interrupt_is_due() || barrier_is_due();
            }
            let place = (happened.user_data as usize).wrapping_sub(1);
            if let Some(interest) = came.get_mut(place) {
                *interest = interest_of(happened.events);
            }
        }
        let something = came.iter().any(|one| *one != Interest::default());
        if something || interrupted || (count == 0 && is_last) {
            return Ok(came);
        }
    }
}

/// Are interrupts held, so that no error may come out of a wait?
pub fn are_interrupts_held() -> bool {
    // SAFETY: a plain counter of the backend.
    unsafe { pg_sys::InterruptHoldoffCount > 0 }
}

/// Interrupts wait for as long as this lives. Where what has happened must be told before the process may end.
pub struct HeldInterrupts(());

/// Holds interrupts. Waits go on serving sockets, and return when one has come.
pub fn hold_interrupts() -> HeldInterrupts {
    // SAFETY: a plain counter of the backend.
    unsafe { pg_sys::InterruptHoldoffCount += 1 };
    HeldInterrupts(())
}

impl HeldInterrupts {
    /// Other processes may wait until each has passed a barrier: holding interrupts must not hold them.
    pub fn serve_barrier(&self) {
        if barrier_is_due() {
            // SAFETY: an ordinary call; an error is raised as a panic of pgrx.
            unsafe { pg_sys::ProcessProcSignalBarrier() };
        }
    }
}

impl Drop for HeldInterrupts {
    fn drop(&mut self) {
        // SAFETY: a plain counter of the backend.
        let count = unsafe { pg_sys::InterruptHoldoffCount };
        // An error has reset the counter already.
        // SAFETY: as before.
        unsafe { pg_sys::InterruptHoldoffCount = count.saturating_sub(1) };
    }
}

/// Whether a cancel request, a timeout or a termination waits to be handled.
pub fn interrupt_is_due() -> bool {
    // SAFETY: a plain variable of the backend, set by signal handlers and read as a whole.
    let cancel = unsafe { pg_sys::QueryCancelPending };
    // SAFETY: as before.
    let die = unsafe { pg_sys::ProcDiePending };
    cancel != 0 || die != 0
}

fn barrier_is_due() -> bool {
    // SAFETY: as for the other signs of interrupts.
    unsafe { pg_sys::ProcSignalBarrierPending != 0 }
}

/// Whether the other side has closed these sockets; None where the platform cannot tell. Nothing is read and nothing is
/// waited for, so whatever is under way on them goes on undisturbed.
pub fn closed(sockets: &[Socket]) -> Option<Vec<bool>> {
    // SAFETY: says what the server was built with.
    let can_tell = unsafe { pg_sys::WaitEventSetCanReportClosed() };
    let size = c_int::try_from(sockets.len()).ok()?;
    if !can_tell {
        return None;
    }
    let mut closed = vec![false; sockets.len()];
    if sockets.is_empty() {
        return Some(closed);
    }
    let set = WaitSet {
        raw: version::create_wait_event_set(size),
    };
    for (place, socket) in sockets.iter().enumerate() {
        let none = std::ptr::null_mut();
        set.add(pg_sys::WL_SOCKET_CLOSED, *socket, none, place);
    }
    let mut occurred = vec![pg_sys::WaitEvent::default(); sockets.len()];
    let count = set.wait(0, &mut occurred, WaitEvent::Result);
    for happened in &occurred[..count] {
        if let Some(closed) = closed.get_mut(happened.user_data as usize) {
            *closed = true;
        }
    }
    Some(closed)
}

/// Handles interrupts that are due, without waiting: for loops that never have to wait.
pub fn check_for_interrupts() {
    pg_sys::check_for_interrupts!();
}

fn serve_latch() {
    // SAFETY: the latch is this process's own.
    unsafe { pg_sys::ResetLatch(latch()) };
    check_for_interrupts();
}

fn latch() -> *mut pg_sys::Latch {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::MyLatch }
}

/// Milliseconds to wait at most, rounded up, and whether the deadline has passed then.
fn remaining(deadline: Option<Instant>) -> (c_long, bool) {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let (wait, is_last) = match left {
        Some(left) if left <= LONGEST_WAIT => (left, true),
        _ => (LONGEST_WAIT, false),
    };
    let milliseconds = wait.as_micros().div_ceil(1000);
    (
        c_long::try_from(milliseconds).unwrap_or(c_long::MAX),
        is_last,
    )
}

fn socket_events(interest: Interest) -> u32 {
    let mut events = 0;
    if interest.read {
        events |= pg_sys::WL_SOCKET_READABLE;
    }
    if interest.write {
        events |= pg_sys::WL_SOCKET_WRITEABLE;
    }
    events
}

fn interest_of(events: u32) -> Interest {
    Interest {
        read: events & pg_sys::WL_SOCKET_READABLE != 0,
        write: events & pg_sys::WL_SOCKET_WRITEABLE != 0,
    }
}

/// A WaitEventSet of the latch, the postmaster and some sockets. Freed on success and on unwind by Drop, as no
/// resource owner has it.
struct WaitSet {
    raw: *mut pg_sys::WaitEventSet,
}

impl WaitSet {
    fn new(sockets: &[(Socket, Interest)]) -> Result<WaitSet> {
        let size = c_int::try_from(sockets.len() + 2)
            .map_err(|_| FdwError::internal("too many sockets to wait for"))?;
        let set = WaitSet {
            raw: version::create_wait_event_set(size),
        };
        // Mark 0 is for events of our own, sockets are counted from 1.
        set.add(pg_sys::WL_LATCH_SET, pg_sys::PGINVALID_SOCKET, latch(), 0);
        set.add(
            pg_sys::WL_EXIT_ON_PM_DEATH,
            pg_sys::PGINVALID_SOCKET,
            std::ptr::null_mut(),
            0,
        );
        for (place, (socket, interest)) in sockets.iter().enumerate() {
            let events = socket_events(*interest);
            // Core wants at least one event of each socket.
            if events != 0 {
                set.add(events, *socket, std::ptr::null_mut(), place + 1);
            }
        }
        Ok(set)
    }

    /// `mark` comes back with the event.
    fn add(&self, events: u32, socket: Socket, latch: *mut pg_sys::Latch, mark: usize) {
        // SAFETY: the set is valid and was made large enough; the mark is never dereferenced.
        unsafe {
            pg_sys::AddWaitEventToSet(self.raw, events, socket, latch, mark as *mut c_void);
        }
    }

    /// Number of entries of `occurred` that were filled; 0 after `timeout` milliseconds.
    fn wait(&self, timeout: c_long, occurred: &mut [pg_sys::WaitEvent], event: WaitEvent) -> usize {
        // SAFETY: the set is valid, and the array has the length given.
        let count = unsafe {
            pg_sys::WaitEventSetWait(
                self.raw,
                timeout,
                occurred.as_mut_ptr(),
                occurred.len() as c_int,
                version::wait_event(event),
            )
        };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        // SAFETY: owned and not used afterwards. FreeWaitEventSet closes a descriptor and frees memory; it does not
        // raise.
        unsafe { pg_sys::FreeWaitEventSet(self.raw) }
    }
}

/// Makes the running statement time out after so many milliseconds. `statement_timeout` itself takes effect at the start
/// of a statement only.
#[cfg(feature = "pg_test")]
pub fn time_out_after(milliseconds: c_int) {
    extern "C-unwind" {
        fn enable_timeout_after(id: c_int, milliseconds: c_int);
    }
    /// `TimeoutId` of utils/timeout.h, the same from 15 to 18.
    const STATEMENT_TIMEOUT: c_int = 3;
    // SAFETY: every backend registers this timeout.
    unsafe { enable_timeout_after(STATEMENT_TIMEOUT, milliseconds) };
}
