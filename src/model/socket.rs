//! What a wait needs to know of a socket.

/// A socket's file descriptor.
pub type Socket = i32;

/// The events of a socket that are waited for, or that have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    pub const READ: Interest = Interest {
        read: true,
        write: false,
    };
    pub const WRITE: Interest = Interest {
        read: false,
        write: true,
    };
}
