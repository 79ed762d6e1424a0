//! Memory contexts: who may free what is in them, and which of them is the current one.

use pgrx::pg_sys;
use std::ffi::CStr;
use std::marker::PhantomData;

/// A memory context of our own. There is one value for it, and who holds that decides when its contents go. Nothing happens
/// on drop: then it goes with its parent.
#[derive(Debug)]
pub struct MemoryContext(pg_sys::MemoryContext);

impl MemoryContext {
    /// A new child of `parent`, with the default block sizes.
    ///
    /// # Safety
    /// `parent` is valid, and not reset or deleted as long as the value is used.
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
    /// `context` is valid as long as the value, and what [`CoreContext::enter`] gives, is used.
    pub unsafe fn of_core(context: pg_sys::MemoryContext) -> CoreContext {
        CoreContext(context)
    }

    pub(super) fn as_ptr(&self) -> pg_sys::MemoryContext {
        self.0
    }

    /// Frees everything allocated in it. What was allocated there is known by pointers only, which nobody follows afterwards.
    pub fn reset(&mut self) {
        // SAFETY: valid by the contract of the constructors, and not the current one, which would be borrowed.
        unsafe { pg_sys::MemoryContextReset(self.0) }
    }

    /// Frees it before its parent does.
    pub(super) fn delete(self) {
        // SAFETY: as for `reset`; there is no other value for it.
        unsafe { pg_sys::MemoryContextDelete(self.0) }
    }

    /// Makes it the current context until the guard is dropped.
    pub fn enter(&self) -> Entered<'_> {
        // SAFETY: valid by the contract of the constructors, and neither reset nor deleted while it is borrowed.
        unsafe { Entered::new(self.0) }
    }
}

/// A memory context that core owns and frees: we may allocate in it.
#[derive(Debug, Clone, Copy)]
pub struct CoreContext(pg_sys::MemoryContext);

impl CoreContext {
    /// Makes it the current context until the guard is dropped.
    pub fn enter(self) -> Entered<'static> {
        // SAFETY: valid by the contract of `MemoryContext::of_core`.
        unsafe { Entered::new(self.0) }
    }
}

/// Guard that makes the former memory context current again, also when unwinding.
pub struct Entered<'a> {
    former: pg_sys::MemoryContext,
    current: PhantomData<&'a MemoryContext>,
}

impl Entered<'_> {
    /// # Safety
    /// `context` is valid as long as the guard lives.
    unsafe fn new<'a>(context: pg_sys::MemoryContext) -> Entered<'a> {
        // SAFETY: a plain variable of the backend; by the contract.
        unsafe {
            let former = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = context;
            Entered {
                former,
                current: PhantomData,
            }
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: the former context is an outer one and outlives the guard.
        unsafe { pg_sys::CurrentMemoryContext = self.former }
    }
}
