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
    Error,
    /// FATAL or PANIC: the server says why it ends the session.
    Fatal,
}

impl Severity {
    fn parse(text: &[u8]) -> Severity {
        match text {
            b"DEBUG" => Severity::Debug,
            b"LOG" => Severity::Log,
            b"INFO" => Severity::Info,
            b"WARNING" => Severity::Warning,
            b"ERROR" => Severity::Error,
            b"FATAL" | b"PANIC" => Severity::Fatal,
            _ => Severity::Notice,
        }
    }

    /// That of an error or notice. What a pooler sends may lack the field whose words are always English.
    ///
    /// # Safety
    /// `result` is valid.
    pub(super) unsafe fn of(result: *const sys::PGresult) -> Severity {
        let field = |letter: u8| {
            // SAFETY: by the contract.
            let text = unsafe { sys::PQresultErrorField(result, c_int::from(letter)) };
            // SAFETY: null, or text that lives as long as the result.
            unsafe { result::bytes(text) }
        };
        let severity = field(sys::field::SEVERITY_NONLOCALIZED);
        let severity = severity.or_else(|| field(sys::field::SEVERITY));
        Severity::parse(severity.unwrap_or_default())
    }
}

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub severity: Severity,
    pub diag: Diag,
}

impl Notice {
    /// Does the session end with it? A backend that has to exit at once, after a crash or for an immediate shutdown, says
    /// so with a warning of class 57P, and gives no context (`quickdie`), which one of a function has.
    fn is_farewell(&self) -> bool {
        let sqlstate = self.diag.sqlstate;
        let is_of_exit = sqlstate.is_some_and(|state| state.as_bytes().starts_with(b"57P"))
            && self.diag.context.is_none();
        self.severity == Severity::Fatal || self.severity == Severity::Warning && is_of_exit
    }
}

/// The newest notices, and how many older ones had to go.
#[derive(Debug, Default)]
pub(super) struct NoticeQueue {
    notices: VecDeque<Notice>,
    bytes: usize,
    dropped: u64,
    /// Stays when the notices are taken.
    farewell: Option<Diag>,
}

impl NoticeQueue {
    fn push(&mut self, notice: Notice) {
        if notice.is_farewell() {
            self.farewell = Some(notice.diag.clone());
        }
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

    /// Why the server ends the session, if it has said so outside of an answer.
    pub fn farewell(&self) -> Option<&Diag> {
        self.farewell.as_ref()
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
    // SAFETY: libpq gives a valid result.
    let severity = unsafe { Severity::of(notice) };
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
    fn a_farewell_outlives_the_notices() {
        let mut queue = NoticeQueue::default();
        let mut warning = Notice {
            severity: Severity::Warning,
            ..notice(b"crash")
        };
        queue.push(warning.clone());
        assert_eq!(queue.farewell(), None);
        warning.diag.sqlstate = crate::model::error::SqlState::parse(b"57P02");
        warning.diag.context = Some(b"PL/pgSQL function f() line 1 at RAISE".to_vec());
        queue.push(warning.clone());
        assert_eq!(queue.farewell(), None);
        warning.diag.context = None;
        queue.push(warning);
        queue.push(notice(b"more"));
        assert_eq!(queue.take().0.len(), 4);
        let farewell = |queue: &NoticeQueue| queue.farewell().map(|diag| diag.message.clone());
        assert_eq!(farewell(&queue), Some(b"crash".to_vec()));
        queue.push(Notice {
            severity: Severity::Fatal,
            ..notice(b"good bye")
        });
        assert_eq!(farewell(&queue), Some(b"good bye".to_vec()));
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
