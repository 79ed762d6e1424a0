//! Where the local transaction stands, and the callbacks at its ends.

use crate::model::error::Result;
use crate::pg::raise::{contained, guarded};
use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::c_void;

extern "C-unwind" {
    /// Not in pgrx's bindings.
    fn PreCommit_CheckForSerializationFailure();
}

/// What remote transactions do at the ends of local ones. Errors of the `pre_` hooks abort the local (sub)transaction;
/// those of the others become warnings.
#[derive(Clone, Copy)]
pub struct Hooks {
    pub pre_commit: fn() -> Result<()>,
    pub pre_prepare: fn() -> Result<()>,
    pub commit: fn() -> Result<()>,
    pub abort: fn() -> Result<()>,
    /// Argument: nesting level of the subtransaction that ends (2 for the first below the top).
    pub pre_commit_sub: fn(i32) -> Result<()>,
    pub commit_sub: fn(i32) -> Result<()>,
    pub abort_sub: fn(i32) -> Result<()>,
}

static HOOKS: OnceCell<Hooks> = OnceCell::new();

thread_local! {
    /// Are interrupts held until the local commit is done?
    static HOLDS_INTERRUPTS: Cell<bool> = const { Cell::new(false) };
}

/// Registers the hooks, once per backend.
pub fn register(hooks: Hooks) {
    if HOOKS.set(hooks).is_ok() {
        // SAFETY: plain registrations of functions that live as long as the process (the library is never unloaded).
        unsafe {
            pg_sys::RegisterXactCallback(Some(xact_callback), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subxact_callback), std::ptr::null_mut());
        }
    }
}

unsafe extern "C-unwind" fn xact_callback(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    let Some(hooks) = HOOKS.get() else { return };
    match event {
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT => {
            // SAFETY: this frame holds no destructors.
            unsafe { guarded(hooks.pre_commit) }
        }
        pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE => {
            // SAFETY: this frame holds no destructors.
            unsafe { guarded(hooks.pre_prepare) }
        }
        // What `pre_prepare` lets pass has used no session, but may have left something to forget.
        pg_sys::XactEvent::XACT_EVENT_PREPARE => {
            contained(hooks.commit);
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT => {
            contained(hooks.commit);
            if HOLDS_INTERRUPTS.take() {
                // SAFETY: pairs with `hold_interrupts_until_end`.
                unsafe { pg_sys::InterruptHoldoffCount -= 1 };
            }
        }
        pg_sys::XactEvent::XACT_EVENT_ABORT => {
            // The error that led here has let go of them.
            HOLDS_INTERRUPTS.set(false);
            contained(hooks.abort);
        }
        // Parallel workers have no sessions.
        _ => {}
    }
}

unsafe extern "C-unwind" fn subxact_callback(
    event: pg_sys::SubXactEvent::Type,
    _my_subid: pg_sys::SubTransactionId,
    _parent_subid: pg_sys::SubTransactionId,
    _arg: *mut c_void,
) {
    let Some(hooks) = HOOKS.get() else { return };
    match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_PRE_COMMIT_SUB => {
            let level = nest_level();
            // SAFETY: this frame holds no destructors.
            unsafe { guarded(|| (hooks.pre_commit_sub)(level)) }
        }
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => {
            let level = nest_level();
            contained(|| (hooks.commit_sub)(level));
        }
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => {
            let level = nest_level();
            contained(|| (hooks.abort_sub)(level));
        }
        _ => {}
    }
}

/// Holds interrupts until the running commit is over: once shards have committed, nothing that can wait may come between
/// them and the local commit. To be called at PRE_COMMIT.
pub fn hold_interrupts_until_end() {
    // SAFETY: a plain counter of the backend; an error resets it.
    unsafe { pg_sys::InterruptHoldoffCount += 1 };
    HOLDS_INTERRUPTS.set(true);
}

/// Lets a serialization failure of the local transaction come now. Core looks for it after PRE_COMMIT, when shards have
/// committed already: a client that is told to try again would store its rows twice. A second look does no harm.
pub fn check_serializable() {
    // SAFETY: a C function behind pgrx's guard; it does nothing in transactions that are not serializable.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| PreCommit_CheckForSerializationFailure()) }
}

/// Nesting level of the current transaction: 1 at the top, 0 outside of any.
pub fn nest_level() -> i32 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// The command id that a write of the running command carries (`GetCurrentCommandId(false)`).
pub fn current_command_id() -> u32 {
    // SAFETY: with `used` false a plain read.
    unsafe { pg_sys::GetCurrentCommandId(false) }
}

/// Is the local transaction READ ONLY at this moment?
pub fn is_read_only() -> bool {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::XactReadOnly }
}

/// Is the local transaction DEFERRABLE?
pub fn is_deferrable() -> bool {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::XactDeferrable }
}

/// The local isolation level: `XACT_READ_UNCOMMITTED` (0) to `XACT_SERIALIZABLE` (3) of `access/xact.h`.
pub fn isolation_level() -> i32 {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::XactIsoLevel }
}
