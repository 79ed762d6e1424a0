//! Notices of the server, stored when they come and told later.
//!
//! libpq calls the receiver from inside its own functions, where nothing may be raised, so it only stores.

use crate::model::error::Diag;
use crate::pq::result;
use crate::pq::sys;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};

/// Most notices kept until they are taken.
const MAX_NOTICES: usize = 1000;
/// Most bytes of notices kept; the newest one is kept whatever its size.
const MAX_BYTES: usize = 1024 * 1024;

/// How the sender ranks a notice, whatever the language of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    /// ERROR, FATAL or PANIC outside of a statement: the server says why it closes the connection.
    Error,
}

impl Severity {
    fn parse(text: &[u8]) -> Severity {
        match text {
            b"DEBUG" => Severity::Debug,
            b"LOG" => Severity::Log,
            b"INFO" => Severity::Info,
            b"WARNING" => Severity::Warning,
            b"ERROR" | b"FATAL" | b"PANIC" => Severity::Error,
            _ => Severity::Notice,
        }
    }
}

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub severity: Severity,
    pub diag: Diag,
}

/// The newest notices, and how many older ones had to go.
#[derive(Debug, Default)]
pub(super) struct NoticeQueue {
    notices: VecDeque<Notice>,
    bytes: usize,
    dropped: u64,
}

impl NoticeQueue {
    fn push(&mut self, notice: Notice) {
        self.bytes = self.bytes.saturating_add(size(&notice.diag));
        self.notices.push_back(notice);
        while self.notices.len() > MAX_NOTICES || (self.bytes > MAX_BYTES && self.notices.len() > 1)
        {
            let Some(oldest) = self.notices.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(size(&oldest.diag));
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Empties the queue: the notices, oldest first, and the number of those that were dropped before them.
    pub fn take(&mut self) -> (Vec<Notice>, u64) {
        self.bytes = 0;
        let notices = std::mem::take(&mut self.notices).into();
        (notices, std::mem::take(&mut self.dropped))
    }

    pub fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }
}

fn size(diag: &Diag) -> usize {
    let fields = [
        &diag.detail,
        &diag.hint,
        &diag.context,
        &diag.schema,
        &diag.table,
        &diag.column,
        &diag.datatype,
        &diag.constraint,
    ];
    fields
        .iter()
        .filter_map(|field| field.as_ref())
        .fold(diag.message.len(), |sum, field| {
            sum.saturating_add(field.len())
        })
}

/// The notice receiver of every connection.
///
/// # Safety
/// Called by libpq with the argument given to `PQsetNoticeReceiver`: a pointer to the connection's [`NoticeQueue`],
/// which nobody else uses while libpq runs.
pub(super) unsafe extern "C" fn receive(queue: *mut c_void, notice: *const sys::PGresult) {
    let letter = c_int::from(sys::field::SEVERITY_NONLOCALIZED);
    // SAFETY: libpq gives a valid result.
    let severity = unsafe { sys::PQresultErrorField(notice, letter) };
    // SAFETY: null, or text that lives as long as the result.
    let severity = Severity::parse(unsafe { result::bytes(severity) }.unwrap_or_default());
    // SAFETY: libpq gives a valid result.
    let diag = unsafe { result::diag(notice) };
    // SAFETY: by the contract.
    let queue = unsafe { &mut *queue.cast::<NoticeQueue>() };
    queue.push(Notice { severity, diag });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &[u8]) -> Notice {
        Notice {
            severity: Severity::Notice,
            diag: Diag {
                message: text.to_vec(),
                ..Diag::default()
            },
        }
    }

    #[test]
    fn old_notices_make_room_for_new_ones() {
        let mut queue = NoticeQueue::default();
        for number in 0..MAX_NOTICES + 3 {
            queue.push(notice(number.to_string().as_bytes()));
        }
        let (notices, dropped) = queue.take();
        assert_eq!(dropped, 3);
        assert_eq!(notices.len(), MAX_NOTICES);
        assert_eq!(notices[0].diag.message, b"3");
        assert!(queue.is_empty());
        assert_eq!(queue.take().1, 0);
    }

    #[test]
    fn the_bytes_kept_are_bounded() {
        let mut queue = NoticeQueue::default();
        queue.push(notice(&vec![b'a'; 2 * MAX_BYTES]));
        assert!(!queue.is_empty(), "a single large notice is kept");
        queue.push(notice(b"small"));
        let (notices, dropped) = queue.take();
        assert_eq!((notices.len(), dropped), (1, 1));
        assert_eq!(notices[0].diag.message, b"small");
    }
}
