//! Memory contexts: one that is entered is left again when the guard goes, also when unwinding.

use pgrx::pg_sys;
use std::ffi::CStr;

/// A memory context that belongs to its parent and is freed with it. Nothing happens on drop.
#[derive(Debug, Clone, Copy)]
pub struct MemoryContext(pg_sys::MemoryContext);

impl MemoryContext {
    /// A new child of `parent`, with the default block sizes.
    ///
    /// # Safety
    /// `parent` is a valid memory context; the child is used only while it exists.
    pub unsafe fn child_of(parent: pg_sys::MemoryContext, name: &'static CStr) -> MemoryContext {
        // SAFETY: by the contract; the name is never freed.
        MemoryContext(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                parent,
                name.as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        })
    }

    /// A new child of `parent` for little, with small blocks.
    ///
    /// # Safety
    /// As for [`MemoryContext::child_of`].
    pub unsafe fn small_child_of(
        parent: pg_sys::MemoryContext,
        name: &'static CStr,
    ) -> MemoryContext {
        // SAFETY: by the contract; the name is never freed.
        MemoryContext(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                parent,
                name.as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            )
        })
    }

    /// A context that core owns.
    ///
    /// # Safety
    /// `context` is valid for as long as the value is used.
    pub unsafe fn of_core(context: pg_sys::MemoryContext) -> MemoryContext {
        MemoryContext(context)
    }

    pub fn as_ptr(self) -> pg_sys::MemoryContext {
        self.0
    }

    /// Frees everything allocated in it.
    pub fn reset(self) {
        // SAFETY: valid by the contract of the constructors.
        unsafe { pg_sys::MemoryContextReset(self.0) }
    }

    /// Frees it.
    ///
    /// # Safety
    /// It is not core's, and neither it nor a copy is used afterwards.
    pub unsafe fn delete(self) {
        // SAFETY: by the contract.
        unsafe { pg_sys::MemoryContextDelete(self.0) }
    }

    /// Makes it the current context until the guard is dropped.
    pub fn enter(self) -> Entered {
        // SAFETY: a plain variable of the backend; the context is valid by the contract of the constructors.
        unsafe {
            let previous = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.0;
            Entered(previous)
        }
    }
}

/// Guard that makes the former memory context current again.
pub struct Entered(pg_sys::MemoryContext);

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: the former context is an outer one and outlives the guard.
        unsafe { pg_sys::CurrentMemoryContext = self.0 }
    }
}
