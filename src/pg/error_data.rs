//! The errors that the backend raises while a callback of ours runs, with all their fields.
//!
//! pgrx has a guard around each call of the backend, which makes a panic of an error and keeps its message, DETAIL and
//! HINT only. Before that, `errfinish` calls the entries of `error_context_stack` from the innermost to the outermost, so
//! an entry of the callback's own sees the complete error, with the CONTEXT lines of all that runs inside the callback and
//! none from outside: those are added when the copy is raised again. PL/pgSQL and others catch errors as well and go on,
//! so a copy is used only for the error that it is a copy of.
//!
//! Not seen is what a parallel worker reports while the callback runs, if the workers were started outside of it: core
//! raises that with the entries of another time. It keeps what pgrx keeps.

use pgrx::pg_sys;
use pgrx::pg_sys::errcodes::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReportWithLevel;
use std::borrow::Cow;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr;

extern "C-unwind" {
    // Not pgrx's bindings: while an error is reported, another guard would lose it.
    fn geterrcode() -> c_int;
    fn CopyErrorData() -> *mut pg_sys::ErrorData;
    fn FreeErrorData(error: *mut pg_sys::ErrorData);
}

/// How many errors are kept at a time. An exception handler can catch others before it raises its own again.
const KEPT: usize = 8;

/// Keeps copies of the errors raised between [`ErrorCopies::begin`] and [`ErrorCopies::end`]. Nothing happens on drop.
pub(super) struct ErrorCopies {
    entry: UnsafeCell<pg_sys::ErrorContextCallback>,
    /// In TopMemoryContext; null where there is none. The newest stands before place `count`, counted modulo [`KEPT`].
    copies: [Cell<*mut pg_sys::ErrorData>; KEPT],
    count: Cell<usize>,
    /// A copy is under way: it could fail and be reported itself.
    is_copying: Cell<bool>,
}

impl ErrorCopies {
    #[inline]
    pub fn new() -> ErrorCopies {
        ErrorCopies {
            entry: UnsafeCell::new(pg_sys::ErrorContextCallback {
                previous: ptr::null_mut(),
                callback: Some(note),
                arg: ptr::null_mut(),
            }),
            copies: [const { Cell::new(ptr::null_mut()) }; KEPT],
            count: Cell::new(0),
            is_copying: Cell::new(false),
        }
    }

    /// # Safety
    /// The value stays where it is until [`ErrorCopies::end`], or until an error leaves its frame.
    #[inline]
    pub unsafe fn begin(&self) {
        // SAFETY: by the contract; the entry is taken off before the frame is left.
        unsafe {
            let entry = self.entry.get();
            (*entry).previous = pg_sys::error_context_stack;
            (*entry).arg = ptr::from_ref(self).cast_mut().cast();
            pg_sys::error_context_stack = entry;
        }
    }

    /// # Safety
    /// To be called once after [`ErrorCopies::begin`], in the same frame.
    #[inline]
    pub unsafe fn end(&self) {
        // SAFETY: the entry below belongs to an outer frame.
        unsafe { pg_sys::error_context_stack = (*self.entry.get()).previous }
    }

    /// The copy of the error that pgrx has caught. The caller frees it by [`free`].
    pub fn take(&self, report: &ErrorReportWithLevel) -> Option<*mut pg_sys::ErrorData> {
        let count = self.count.get();
        (count.saturating_sub(KEPT)..count)
            .rev()
            .map(|number| &self.copies[number % KEPT])
            .find(|place| {
                // SAFETY: what stands there is a valid copy, or null.
                let copy = unsafe { place.get().as_ref() };
                copy.is_some_and(|copy| is_of(copy, report))
            })
            .map(Cell::take)
    }

    /// Frees the copies.
    #[inline]
    pub fn clear(&self) {
        if self.count.get() > 0 {
            self.clear_some();
        }
    }

    #[cold]
    fn clear_some(&self) {
        for place in &self.copies {
            free(place.take());
        }
        self.count.set(0);
    }

    /// Copies the error that is being reported.
    ///
    /// # Safety
    /// To be called from the entry. An error may leave this frame.
    unsafe fn copy(&self) {
        self.is_copying.set(true);
        // SAFETY: the topmost error is the one under way; the context is there as long as the backend.
        unsafe {
            let caller = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = pg_sys::TopMemoryContext;
            let copy = CopyErrorData();
            pg_sys::CurrentMemoryContext = caller;
            self.is_copying.set(false);
            // WARNING and the like come here as well, and FATAL, which nobody catches.
            if (*copy).elevel != pg_sys::PGERROR as c_int {
                FreeErrorData(copy);
                return;
            }
            let count = self.count.get();
            let oldest = self.copies[count % KEPT].replace(copy);
            self.count.set(count + 1);
            if !oldest.is_null() {
                FreeErrorData(oldest);
            }
        }
    }
}

/// The entry of an [`ErrorCopies`]. Only the innermost one copies: through the others goes what it raises again.
///
/// # Safety
/// `argument` is an [`ErrorCopies`] that has begun.
unsafe extern "C-unwind" fn note(argument: *mut c_void) {
    // SAFETY: by the contract; the entries of the stack are those of frames that are alive.
    unsafe {
        let copies = &*argument.cast::<ErrorCopies>();
        let mut entry = pg_sys::error_context_stack;
        while entry != copies.entry.get() {
            if entry.is_null() || is_ours(&*entry) {
                return;
            }
            entry = (*entry).previous;
        }
        // The copy under way has failed itself, for want of memory, and is over; errors after this one are copied again.
        if copies.is_copying.replace(false) {
            return;
        }
        // Messages below WARNING have no code. In a critical section every error ends the server.
        if geterrcode() != 0 && pg_sys::CritSectionCount == 0 {
            copies.copy();
        }
    }
}

fn is_ours(entry: &pg_sys::ErrorContextCallback) -> bool {
    entry
        .callback
        .is_some_and(|callback| ptr::fn_addr_eq(callback, note as unsafe extern "C-unwind" fn(_)))
}

/// Is it a copy of the error that pgrx has caught, as far as pgrx tells?
fn is_of(copy: &pg_sys::ErrorData, report: &ErrorReportWithLevel) -> bool {
    // SAFETY: the fields of a copy are null or strings.
    unsafe {
        PgSqlErrorCode::from(copy.sqlerrcode) == report.sql_error_code()
            && copy.lineno == report.line_number() as c_int
            && lossy(copy.message).is_none_or(|message| message == report.message())
            && lossy(copy.detail).as_deref() == report.detail()
            && lossy(copy.hint).as_deref() == report.hint()
            && lossy(copy.filename).is_none_or(|file| file == report.file())
    }
}

/// As pgrx reads it.
///
/// # Safety
/// `text` is null or a string, which lives as long as what is returned.
unsafe fn lossy<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Frees a copy, if there is one.
pub(super) fn free(copy: *mut pg_sys::ErrorData) {
    if !copy.is_null() {
        // SAFETY: it is a copy that nobody uses any more; freeing raises nothing.
        unsafe { FreeErrorData(copy) }
    }
}

/// The same error with its strings in another memory context, as far as there is room.
///
/// # Safety
/// The fields of `copy` are null or strings.
pub(super) unsafe fn copied(
    copy: &pg_sys::ErrorData,
    context: pg_sys::MemoryContext,
) -> pg_sys::ErrorData {
    // Which catalog of translations it had does not matter any more.
    let mut data = pg_sys::ErrorData {
        domain: ptr::null(),
        ..*copy
    };
    let duplicate = |text: *const c_char| match text.is_null() {
        true => ptr::null_mut(),
        // SAFETY: by the contract.
        false => string(unsafe { CStr::from_ptr(text) }.to_bytes(), context),
    };
    for field in [
        &mut data.message,
        &mut data.detail,
        &mut data.detail_log,
        &mut data.hint,
        &mut data.context,
        &mut data.backtrace,
        &mut data.schema_name,
        &mut data.table_name,
        &mut data.column_name,
        &mut data.datatype_name,
        &mut data.constraint_name,
        &mut data.internalquery,
    ] {
        *field = duplicate(*field);
    }
    for name in [&mut data.filename, &mut data.funcname] {
        if !name.is_null() {
            // SAFETY: by the contract.
            *name = lasting(unsafe { CStr::from_ptr(*name) }.to_bytes());
        }
    }
    data
}

thread_local! {
    /// Names of files and functions in the sources of errors: never many.
    static NAMES: RefCell<HashSet<&'static CStr>> = RefCell::default();
}

/// Such a name, at a place that stays; a NUL inside ends it. Older minor releases, 16.2 for one, take it for a constant: who
/// catches the error copies the pointer alone.
pub(super) fn lasting(name: &[u8]) -> *const c_char {
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = &*CString::new(name).unwrap_or_default();
    NAMES.with_borrow_mut(|names| match names.get(name) {
        Some(known) => known.as_ptr(),
        None => {
            let kept: &'static CStr = Box::leak(name.to_owned().into_boxed_c_str());
            names.insert(kept);
            kept.as_ptr()
        }
    })
}

/// A C string in a memory context; a NUL inside ends it. Null if there is no memory.
pub(super) fn string(text: &[u8], context: pg_sys::MemoryContext) -> *mut c_char {
    let length = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    let flags = pg_sys::MCXT_ALLOC_NO_OOM | pg_sys::MCXT_ALLOC_HUGE;
    // SAFETY: the context is valid; length + 1 bytes are there if the pointer is not null.
    unsafe {
        let target =
            pg_sys::MemoryContextAllocExtended(context, length + 1, flags as c_int).cast::<u8>();
        if !target.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr(), target, length);
            target.add(length).write(0);
        }
        target.cast()
    }
}
