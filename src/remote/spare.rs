//! Memory of rows that have been sent, for rows to come: memory that is used again need not be cleared by the kernel
//! first, and is still near the processor.

use std::cell::RefCell;

/// How much is kept.
const MOST_BYTES: usize = 8 << 20;
/// What is smaller is not worth it.
const LEAST_BYTES: usize = 16 << 10;

#[derive(Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// An empty buffer, with room if one is there.
pub fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(|spare| {
        let buffer = spare.buffers.pop().unwrap_or_default();
        spare.bytes -= buffer.capacity();
        buffer
    })
}

/// Keeps a buffer that is not used any more.
pub fn put(mut buffer: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        let size = buffer.capacity();
        if size >= LEAST_BYTES && spare.bytes + size <= MOST_BYTES {
            buffer.clear();
            spare.bytes += buffer.capacity();
            spare.buffers.push(buffer);
        }
    });
}

/// Gives everything back to the system.
pub fn clear() {
    SPARE.take();
}
