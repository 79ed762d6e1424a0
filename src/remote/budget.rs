//! Memory that rows take in this backend: those that wait in buffers, and those handed to a connection that have not
//! gone out.

use crate::pg::guc;
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// What one holder takes of the memory; given back when it is dropped.
#[derive(Default)]
pub struct Share(Cell<usize>);

impl Share {
    /// Takes so many bytes from now on.
    pub fn set(&self, bytes: usize) {
        let before = self.0.replace(bytes);
        if before == bytes {
            return;
        }
        let taken = TAKEN.get();
        if bytes < before {
            // Between two decreases the sum only grows, so that looking here finds every peak.
            PEAK.set(PEAK.get().max(taken));
        }
        TAKEN.set((taken + bytes).saturating_sub(before));
    }

    /// Bytes taken now.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The most that has been taken at a time since the backend began.
pub fn peak() -> usize {
    PEAK.get().max(TAKEN.get())
}

/// Is so much taken that a further row of usual size could be more than `shard_fdw.buffer_memory` allows?
#[inline]
pub fn is_exceeded() -> bool {
    let limit = guc::buffer_memory();
    TAKEN.get() > limit - limit / 16
}
