//! Making connections, and failing to.

// pgrx's macros expand to unsafe code.
#[allow(unsafe_code)]
#[pgrx::pg_schema]
mod tests {
    use super::super::*;
    use crate::model::error::SqlState;
    use pgrx::pg_test;
    use std::net::TcpListener;

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
        assert!(connection.is_ok());
        assert!(!connection.used_password() && !connection.used_gssapi());
        assert_eq!(
            session.version.to_string(),
            ask("SELECT current_setting('server_version_num')")
        );
        assert_ne!(
            connection.backend_pid().to_string(),
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
                connection.backend_pid().to_string(),
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
    fn the_next_host_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let closed = listener.local_addr().expect("an address").port();
        drop(listener);
        let ports = format!("{closed},{}", own_port());
        let hosts = [("host", "127.0.0.1,127.0.0.1"), ("connect_timeout", "60")];
        let session = connect_to(&ports, &hosts, &[], true).expect("the second host answers");
        assert!(session.connection.is_ok());
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
        wait::time_out_after(200);
        let _ = connect_to(&port, &[], &[], true);
    }
}
