//! Tests that connect to the cluster they run in. What they do there commits at once, so they leave nothing behind.

// pgrx's macros expand to unsafe code, and a timeout is set by hand.
#[allow(unsafe_code)]
#[pgrx::pg_schema]
mod tests {
    use crate::model::error::{FdwError, SqlState};
    use crate::model::option::{MappingOptions, ServerOptions};
    use crate::model::socket::Interest;
    use crate::pg::version::WaitEvent;
    use crate::pg::wait;
    use crate::pq::conninfo;
    use crate::pq::{
        Answer, CancelProgress, CancelRequest, Connection, Flush, Param, PgResult, ResultStatus,
        Severity, TransactionStatus,
    };
    use crate::remote::connect::{connect, Established, Inputs};
    use pgrx::{pg_test, Spi};
    use std::ffi::c_int;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn ask(sql: &str) -> String {
        Spi::get_one::<String>(sql)
            .expect("the query works")
            .expect("the answer is not null")
    }

    fn pairs(options: &[(&str, &str)]) -> Pairs {
        options
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    }

    /// Connects to `port` of this host.
    fn connect_to(
        port: &str,
        server: &[(&str, &str)],
        mapping: &[(&str, &str)],
        superuser: bool,
    ) -> Result<Established, FdwError> {
        let libpq = conninfo::options().expect("libpq has options");
        let mut of_server = pairs(&[
            ("host", "127.0.0.1"),
            ("port", port),
            ("dbname", &ask("SELECT current_database()::text")),
        ]);
        of_server.extend(pairs(server));
        let mut of_mapping = pairs(&[("user", &ask("SELECT current_user::text"))]);
        of_mapping.extend(pairs(mapping));
        connect(&Inputs {
            server: "loopback",
            options: &ServerOptions::new(&of_server, libpq).expect("valid server options"),
            mapping: &MappingOptions::new(&of_mapping, libpq).expect("valid mapping options"),
            superuser,
            application_name: b"",
        })
    }

    fn own_port() -> String {
        ask("SELECT current_setting('port')")
    }

    fn established() -> Established {
        connect_to(&own_port(), &[], &[], true).expect("the cluster takes connections")
    }

    fn error_of(outcome: Result<Established, FdwError>) -> FdwError {
        match outcome {
            Ok(_) => panic!("the connection should have failed"),
            Err(error) => error,
        }
    }

    /// The next answer, sending and receiving as the socket allows.
    fn answer(connection: &mut Connection) -> Option<PgResult> {
        loop {
            let flush = connection.flush().expect("the connection lives");
            match connection.next_result() {
                Answer::Result(result) => return Some(result),
                Answer::End => return None,
                Answer::Pending => {}
            }
            let interest = Interest {
                read: true,
                write: flush == Flush::Pending,
            };
            let socket = connection.socket().expect("an open socket");
            let came = wait::for_socket(socket, interest, None, WaitEvent::Result);
            if came.is_some_and(|came| came.read) {
                connection.consume_input().expect("the connection lives");
            }
        }
    }

    /// The one answer to a statement, without the end that follows it.
    fn answer_of_statement(connection: &mut Connection) -> PgResult {
        let result = answer(connection).expect("an answer");
        assert!(answer(connection).is_none(), "one answer to a statement");
        result
    }

    fn expect_sync(connection: &mut Connection) {
        let result = answer(connection).expect("an answer");
        assert_eq!(result.status(), ResultStatus::PipelineSync);
    }

    /// Runs one statement as a message of its own.
    fn run(connection: &mut Connection, sql: &std::ffi::CStr, params: &[Param]) -> PgResult {
        connection
            .send_query_params(sql, params)
            .expect("the statement is sent");
        connection.pipeline_sync().expect("the sync is sent");
        let result = answer_of_statement(connection);
        expect_sync(connection);
        result
    }

    extern "C-unwind" {
        fn enable_timeout_after(id: c_int, milliseconds: c_int);
    }

    /// `TimeoutId` of utils/timeout.h, the same from 15 to 18.
    const STATEMENT_TIMEOUT: c_int = 3;

    /// Makes the statement time out as `statement_timeout` does, which takes effect at its start only.
    fn time_out_soon() {
        // SAFETY: every backend registers this timeout.
        unsafe { enable_timeout_after(STATEMENT_TIMEOUT, 200) };
    }

    #[pg_test]
    fn a_session_is_set_up() {
        let mut session = connect_to(
            &own_port(),
            &[
                ("application_name", "of %u"),
                ("session_settings", "search_path=\"a, b\",work_mem=77kB"),
            ],
            &[],
            true,
        )
        .expect("the cluster takes connections");
        let connection = &mut session.connection;
        assert!(connection.is_ok() && connection.in_pipeline());
        assert_eq!(connection.transaction_status(), TransactionStatus::Idle);
        assert!(!connection.used_password() && !connection.used_gssapi());
        assert!(!connection.ssl_in_use());
        assert_eq!(
            session.version.to_string(),
            ask("SELECT current_setting('server_version_num')")
        );
        assert_ne!(
            session.backend_pid.to_string(),
            ask("SELECT pg_backend_pid()::text")
        );
        let result = run(
            connection,
            c"SELECT pg_backend_pid(), current_setting('application_name'), current_setting('search_path'),
                current_setting('work_mem'), current_setting('TimeZone'), current_setting('DateStyle'),
                current_setting('IntervalStyle'), current_setting('extra_float_digits'),
                current_setting('idle_in_transaction_session_timeout'), current_setting('client_encoding'), NULL",
            &[],
        );
        assert_eq!(result.status(), ResultStatus::TuplesOk);
        assert_eq!((result.ntuples(), result.nfields()), (1, 11));
        assert_eq!(result.affected_rows(), Some(1));
        let text = |column| result.value(0, column).map(String::from_utf8_lossy);
        let values: Vec<_> = (0..10)
            .map(|column| text(column).expect("a value"))
            .collect();
        let user = ask("SELECT session_user::text");
        let encoding = ask("SELECT getdatabaseencoding()::text");
        assert_eq!(
            values,
            [
                session.backend_pid.to_string(),
                format!("of {user}"),
                "a, b".to_owned(),
                "77kB".to_owned(),
                "UTC".to_owned(),
                ask("SELECT 'ISO, ' || split_part(current_setting('DateStyle'), ', ', 2)"),
                "postgres".to_owned(),
                "3".to_owned(),
                "0".to_owned(),
                encoding,
            ]
        );
        assert_eq!(text(10), None);
        assert_eq!(result.value(1, 0), None);
        assert_eq!(result.value(0, 11), None);
    }

    #[pg_test]
    fn a_refused_setting_is_named() {
        let error = error_of(connect_to(
            &own_port(),
            &[("session_settings", "work_mem=1MB,lock_timeout=soon")],
            &[],
            true,
        ));
        let diag = error.diag();
        assert_eq!(diag.sqlstate, Some(SqlState::INVALID_PARAMETER_VALUE));
        assert_eq!(
            diag.context.as_deref(),
            Some(
                &b"setting \"lock_timeout\" of option session_settings of server \"loopback\""[..]
            )
        );
    }

    #[pg_test]
    fn an_unreachable_server_is_an_error_without_secrets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mapping = [("password", "hush"), ("sslpassword", "hush")];
        let error = error_of(connect_to(&port.to_string(), &[], &mapping, false));
        assert_eq!(error.sqlstate(), SqlState::CONNECTION_UNABLE);
        let diag = error.diag();
        assert_eq!(diag.message, b"could not connect to server \"loopback\"");
        let detail = String::from_utf8(diag.detail.expect("libpq's text")).expect("plain text");
        assert!(detail.contains(&port.to_string()), "{detail}");
        assert!(
            !detail.ends_with('\n') && !detail.contains("hush"),
            "{detail}"
        );
    }

    #[pg_test]
    fn a_refused_startup_is_an_error_of_the_connection() {
        let error = error_of(connect_to(
            &own_port(),
            &[("options", "-c no_such_setting=1")],
            &[],
            true,
        ));
        assert_eq!(error.sqlstate(), SqlState::CONNECTION_UNABLE);
        let detail = error.diag().detail.unwrap_or_default();
        assert!(String::from_utf8_lossy(&detail).contains("no_such_setting"));
    }

    #[pg_test]
    fn others_than_superusers_must_use_a_password() {
        // The test cluster trusts everybody, so it never asks.
        for mapping in [&[][..], &[("password", "hush")], &[("password", "")]] {
            let error = error_of(connect_to(&own_port(), &[], mapping, false));
            assert_eq!(error.sqlstate(), SqlState::PASSWORD_REQUIRED);
            assert!(!format!("{:?}", error.diag()).contains("hush"));
        }
        let trusted = [("password_required", "false")];
        assert!(connect_to(&own_port(), &[], &trusted, false).is_ok());
    }

    #[pg_test]
    fn a_silent_server_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener
            .local_addr()
            .expect("an address")
            .port()
            .to_string();
        let error = error_of(connect_to(&port, &[("connect_timeout", "1")], &[], true));
        assert_eq!(error.sqlstate(), SqlState::CONNECTION_UNABLE);
        let diag = error.diag();
        let detail = String::from_utf8(diag.detail.expect("a reason")).expect("plain text");
        assert!(detail.contains("did not answer within 1 s"), "{detail}");
        assert!(diag.hint.is_some());
    }

    #[pg_test(error = "canceling statement due to statement timeout")]
    fn connecting_can_be_interrupted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener
            .local_addr()
            .expect("an address")
            .port()
            .to_string();
        time_out_soon();
        let _ = connect_to(&port, &[], &[], true);
    }

    #[pg_test(error = "canceling statement due to statement timeout")]
    fn waiting_for_an_answer_can_be_interrupted() {
        let mut session = established();
        time_out_soon();
        run(&mut session.connection, c"SELECT pg_sleep(30)", &[]);
    }

    #[pg_test(error = "canceling statement due to statement timeout")]
    fn waiting_for_several_can_be_interrupted() {
        let session = established();
        let socket = session.connection.socket().expect("an open socket");
        time_out_soon();
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
        let fields = fields.map(|field| String::from_utf8(field.unwrap_or_default()).unwrap());
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
        let pid = session.backend_pid.to_be_bytes();
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
        let farewell = connection.farewell().expect("a reason");
        assert_eq!(farewell.sqlstate, SqlState::parse(b"57P01"));
    }

    #[pg_test]
    fn large_values_pass_both_ways_at_once() {
        let mut session = established();
        let connection = &mut session.connection;
        let large = vec![b'x'; 20 << 20];
        for _ in 0..3 {
            connection
                .send_query_params(c"SELECT $1", &[Param::characters(&large)])
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
                Param::characters(b""),
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
        let pid = session.backend_pid.to_be_bytes();
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
