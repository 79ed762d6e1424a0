//! Statements, answers, notices and waits on a connection.

// pgrx's macros expand to unsafe code.
#[allow(unsafe_code)]
#[pgrx::pg_schema]
mod tests {
    use super::super::*;
    use crate::model::error::{Diag, SqlState};
    use crate::pq::{CancelProgress, CancelRequest, Notice, Severity};
    use crate::remote::notice;
    use pgrx::pg_test;
    use std::time::{Duration, Instant};

    #[pg_test(error = "canceling statement due to statement timeout")]
    fn waiting_for_an_answer_can_be_interrupted() {
        let mut session = established();
        wait::time_out_after(200);
        run(&mut session.connection, c"SELECT pg_sleep(30)", &[]);
    }

    #[pg_test(error = "canceling statement due to statement timeout")]
    fn waiting_for_several_can_be_interrupted() {
        let session = established();
        let socket = session.connection.socket().expect("an open socket");
        wait::time_out_after(200);
        let _ = wait::for_sockets(
            &[(socket, Interest::READ), (socket, Interest::default())],
            None,
            WaitEvent::Result,
        );
    }

    #[pg_test]
    fn an_error_ends_its_message_only() {
        let mut session = established();
        let connection = &mut session.connection;
        for sql in [c"SELECT 1", c"SELECT 1/0", c"SELECT 2"] {
            connection.send_query_params(sql, &[]).expect("sent");
        }
        connection.pipeline_sync().expect("sent");
        connection
            .send_query_params(c"SELECT 3", &[])
            .expect("sent");
        connection.pipeline_sync().expect("sent");

        let first = answer_of_statement(connection);
        assert_eq!(first.value(0, 0), Some(&b"1"[..]));
        let second = answer_of_statement(connection);
        assert_eq!(second.status(), ResultStatus::FatalError);
        assert_eq!(second.diag().sqlstate, SqlState::parse(b"22012"));
        assert_eq!(second.diag().message, b"division by zero");
        let third = answer_of_statement(connection);
        assert_eq!(third.status(), ResultStatus::PipelineAborted);
        expect_sync(connection);
        let fourth = answer_of_statement(connection);
        assert_eq!(fourth.value(0, 0), Some(&b"3"[..]));
        assert_eq!(fourth.command_tag(), b"SELECT 1");
        expect_sync(connection);
        connection.exit_pipeline().expect("nothing is under way");
    }

    #[pg_test]
    fn errors_keep_their_fields() {
        let mut session = established();
        let result = run(
            &mut session.connection,
            c"DO $$ BEGIN RAISE 'message' USING ERRCODE = 'AB123', DETAIL = 'detail', HINT = 'hint', SCHEMA = 's',
                TABLE = 't', COLUMN = 'c', DATATYPE = 'd', CONSTRAINT = 'n'; END $$",
            &[],
        );
        let diag = result.diag();
        assert_eq!(diag.sqlstate, SqlState::parse(b"AB123"));
        assert_eq!(diag.message, b"message");
        let fields = [
            diag.detail,
            diag.hint,
            diag.schema,
            diag.table,
            diag.column,
            diag.datatype,
            diag.constraint,
        ];
        let fields =
            fields.map(|field| String::from_utf8_lossy(&field.unwrap_or_default()).into_owned());
        assert_eq!(fields, ["detail", "hint", "s", "t", "c", "d", "n"]);
        assert!(diag
            .context
            .is_some_and(|context| context.starts_with(b"PL/pgSQL")));
    }

    #[pg_test]
    fn notices_are_stored() {
        let mut session = established();
        let connection = &mut session.connection;
        assert!(!connection.has_notices());
        run(
            connection,
            c"DO $$ BEGIN RAISE NOTICE 'one' USING HINT = 'h'; RAISE WARNING 'two'; RAISE INFO 'three'; RAISE DEBUG 'no'; END $$",
            &[],
        );
        assert!(connection.has_notices());
        let (notices, dropped) = connection.take_notices();
        let seen: Vec<_> = notices
            .iter()
            .map(|notice| (notice.severity, notice.diag.message.as_slice()))
            .collect();
        assert_eq!(
            seen,
            [
                (Severity::Notice, &b"one"[..]),
                (Severity::Warning, b"two"),
                (Severity::Info, b"three"),
            ]
        );
        assert_eq!(notices[0].diag.hint.as_deref(), Some(&b"h"[..]));
        assert_eq!(dropped, 0);
        assert!(!connection.has_notices());
    }

    /// Relays one notice of each severity, for a client that watches.
    #[pgrx::pg_extern]
    fn relay_samples() {
        let sample = |severity, text: &str| Notice {
            severity,
            diag: Diag {
                sqlstate: SqlState::parse(b"AB123"),
                message: text.into(),
                hint: Some(b"hint".to_vec()),
                ..Diag::default()
            },
        };
        let samples = vec![
            sample(Severity::Warning, "warning"),
            sample(Severity::Notice, "notice"),
            sample(Severity::Info, "info"),
            sample(Severity::Log, "log"),
            sample(Severity::Debug, "debug"),
            sample(Severity::Error, "farewell"),
        ];
        notice::relay("far", samples, 7);
    }

    #[pg_test]
    fn notices_are_relayed_at_their_level() {
        let mut session = established();
        let connection = &mut session.connection;
        let mut relayed = |level: &std::ffi::CStr| {
            run(
                connection,
                c"SELECT set_config('client_min_messages', $1, false)",
                &[Param::text(25, level)],
            );
            run(connection, c"SELECT tests.relay_samples()", &[]);
            let (notices, _) = connection.take_notices();
            notices
        };
        let usual = relayed(c"notice");
        let seen: Vec<_> = usual
            .iter()
            .map(|notice| {
                (
                    notice.severity,
                    String::from_utf8_lossy(&notice.diag.message),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (
                    Severity::Notice,
                    "7 earlier notices of server \"far\" were left out".into()
                ),
                (Severity::Warning, "warning".into()),
                (Severity::Notice, "notice".into()),
                (Severity::Info, "info".into()),
            ]
        );
        let warning = &usual[1].diag;
        assert_eq!(warning.sqlstate, SqlState::parse(b"AB123"));
        assert_eq!(warning.hint.as_deref(), Some(&b"hint"[..]));
        let context = String::from_utf8_lossy(warning.context.as_deref().unwrap_or_default());
        assert!(
            context.starts_with("message from server \"far\""),
            "{context}"
        );

        let all = relayed(c"debug1");
        let details = all
            .iter()
            .filter(|notice| notice.severity == Severity::Debug)
            .filter(|notice| notice.diag.hint.is_some());
        assert_eq!(details.count(), 3);
    }

    #[pg_test]
    fn a_flood_of_notices_is_bounded() {
        let mut session = established();
        let connection = &mut session.connection;
        run(
            connection,
            c"DO $$ BEGIN FOR i IN 1..1500 LOOP RAISE NOTICE '%', i; END LOOP; END $$",
            &[],
        );
        let (notices, dropped) = connection.take_notices();
        assert_eq!((notices.len(), dropped), (1000, 500));
        assert_eq!(notices[999].diag.message, b"1500");
    }

    #[pg_test]
    fn a_terminated_session_says_why() {
        let mut session = established();
        let mut other = established();
        let pid = session.connection.backend_pid().to_be_bytes();
        let ended = run(
            &mut other.connection,
            c"SELECT pg_terminate_backend($1, 10000)",
            &[Param::binary(23, &pid)],
        );
        assert_eq!(ended.value(0, 0), Some(&b"t"[..]));
        let connection = &mut session.connection;
        let socket = connection.socket().expect("an open socket");
        wait::for_socket(socket, Interest::READ, None, WaitEvent::Result);
        while connection.consume_input().is_ok() {
            let _ = connection.is_busy();
        }
        assert!(connection.is_bad());
        assert!(matches!(connection.next_result(), Answer::End));
        let (notices, _) = connection.take_notices();
        let reason = notices.last().expect("a reason");
        assert_eq!(reason.diag.sqlstate, SqlState::parse(b"57P01"));
    }

    #[pg_test]
    fn large_values_pass_both_ways_at_once() {
        let mut session = established();
        let connection = &mut session.connection;
        let large = vec![b'x'; 20 << 20];
        for _ in 0..3 {
            connection
                .send_query_params(c"SELECT $1", &[Param::binary(25, &large)])
                .expect("sent");
        }
        connection.pipeline_sync().expect("sent");
        for _ in 0..3 {
            let result = answer_of_statement(connection);
            assert!(
                result.value(0, 0) == Some(&large[..]),
                "the value came back"
            );
        }
        expect_sync(connection);
    }

    #[pg_test]
    fn parameters_come_in_every_form() {
        let mut session = established();
        let result = run(
            &mut session.connection,
            c"SELECT $1 + 1, $2::text, $3, $4 IS NULL, $5",
            &[
                Param::binary(23, &41i32.to_be_bytes()),
                Param::text(0, c"caf\xc3\xa9"),
                Param::binary(25, b""),
                Param::null(25),
                Param::binary(17, b"\0\x01"),
            ],
        );
        let values: Vec<_> = (0..5).map(|column| result.value(0, column)).collect();
        assert_eq!(
            values,
            [
                Some(&b"42"[..]),
                Some("café".as_bytes()),
                Some(b""),
                Some(b"t"),
                Some(b"\\x0001")
            ]
        );
    }

    #[pg_test]
    fn a_statement_can_be_cancelled() {
        let mut session = established();
        let connection = &mut session.connection;
        connection
            .send_query_params(c"SELECT pg_sleep(600)", &[])
            .expect("sent");
        connection.pipeline_sync().expect("sent");
        // A request that comes before the statement starts has no effect, so wait until it runs.
        let mut other = established();
        let pid = connection.backend_pid().to_be_bytes();
        while run(
            &mut other.connection,
            c"SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'",
            &[Param::binary(23, &pid)],
        )
        .ntuples()
            == 0
        {
            connection.flush().expect("the connection lives");
        }
        let mut cancel = CancelRequest::start(connection).expect("a request");
        let mut progress = cancel.progress();
        while let CancelProgress::Wait(interest) = progress {
            let socket = cancel.socket().expect("an open socket");
            wait::for_socket(socket, interest, None, WaitEvent::Cleanup);
            progress = cancel.poll();
        }
        assert_eq!(progress, CancelProgress::Done);
        let result = answer_of_statement(connection);
        assert_eq!(result.diag().sqlstate, SqlState::parse(b"57014"));
        expect_sync(connection);
    }

    #[pg_test]
    fn several_sockets_are_waited_for_at_once() {
        let mut quick = established();
        let slow = established();
        let quick_socket = quick.connection.socket().expect("an open socket");
        let slow_socket = slow.connection.socket().expect("an open socket");
        let sockets = [
            (slow_socket, Interest::READ),
            (quick_socket, Interest::READ),
        ];
        let soon = Some(Instant::now() + Duration::from_millis(20));
        let came = wait::for_sockets(&sockets, soon, WaitEvent::Result).expect("a wait");
        assert_eq!(came, [Interest::default(); 2]);

        quick
            .connection
            .send_query_params(c"SELECT 1", &[])
            .expect("sent");
        quick.connection.pipeline_sync().expect("sent");
        assert_eq!(quick.connection.flush(), Ok(Flush::Done));
        let came = wait::for_sockets(&sockets, None, WaitEvent::Result).expect("a wait");
        assert_eq!(came, [Interest::default(), Interest::READ]);
        assert!(wait::for_sockets(&[], None, WaitEvent::Result).is_err());
    }
}
