//! Telling the local client and log what a shard had to say.

use crate::model::error::Diag;
use crate::model::text;
use crate::pg::raise;
use crate::pq::{Notice, Severity};
use pgrx::pg_sys;

/// Reports notices taken from a connection, each once, with a CONTEXT that names the server. To be called where an
/// interrupt may unwind, and with nothing borrowed of the session: reporting may wait for the client.
pub fn relay(server: &str, notices: Vec<Notice>, dropped: u64) {
    if dropped > 0 {
        let note = Diag {
            message: format!("{dropped} earlier notices of server \"{server}\" were left out")
                .into(),
            ..Diag::default()
        };
        raise::report(pg_sys::NOTICE, &note);
    }
    for notice in notices {
        raise::report(level(notice.severity), &with_context(server, notice.diag));
    }
}

/// The local level of a notice. What the shard would put in its own log is of no concern to the local client and
/// log unless they ask for details. The same goes for the shard's farewell, which is news only if the connection is
/// still needed, and then an error says so.
fn level(severity: Severity) -> u32 {
    match severity {
        Severity::Warning => pg_sys::WARNING,
        Severity::Notice => pg_sys::NOTICE,
        Severity::Info => pg_sys::INFO,
        Severity::Log | Severity::Debug | Severity::Error | Severity::Fatal => pg_sys::DEBUG1,
    }
}

fn with_context(server: &str, mut diag: Diag) -> Diag {
    let line = text::to_bytes(&format!("message from server \"{server}\""));
    match &mut diag.context {
        Some(context) => {
            context.push(b'\n');
            context.extend_from_slice(&line);
        }
        None => diag.context = Some(line),
    }
    diag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_clients_reaches_them_by_default() {
        assert_eq!(level(Severity::Warning), pg_sys::WARNING);
        assert_eq!(level(Severity::Notice), pg_sys::NOTICE);
        assert_eq!(level(Severity::Info), pg_sys::INFO);
        for severity in [
            Severity::Log,
            Severity::Debug,
            Severity::Error,
            Severity::Fatal,
        ] {
            assert!(level(severity) <= pg_sys::DEBUG1);
        }
    }

    #[test]
    fn the_server_is_named_after_the_remote_context() {
        let diag = with_context("s", Diag::default());
        assert_eq!(
            diag.context.as_deref(),
            Some(&b"message from server \"s\""[..])
        );
        let diag = with_context("s", diag);
        let context = String::from_utf8(diag.context.unwrap_or_default()).unwrap();
        assert_eq!(context.lines().count(), 2);
    }
}
