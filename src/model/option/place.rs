//! Where options may stand: our own, and those that libpq alone defines.

use super::table::{find, Context, Kind, Standing, OPTIONS};
use super::LibpqOption;

/// Where an option that only libpq defines may stand, by the rules of postgres_fdw's InitPgFdwOptions (15 to 18): the
/// user and secrets in user mappings, all else on servers. None for those this library sets itself
/// (client_encoding, fallback_application_name, replication), for debug options, and for OAuth, whose built-in flow
/// talks on stderr.
pub fn libpq_context(option: &LibpqOption) -> Option<Context> {
    let keyword = option.keyword.as_str();
    if option.debug
        || keyword.starts_with("oauth_")
        || matches!(
            keyword,
            "client_encoding" | "fallback_application_name" | "replication"
        )
    {
        None
    } else if option.secret || keyword == "user" {
        Some(Context::UserMapping)
    } else {
        Some(Context::Server)
    }
}

/// Is `name` an option for libpq when it stands at an object of the given kind?
pub fn is_libpq(context: Context, name: &[u8], libpq: &[LibpqOption]) -> bool {
    let known = libpq
        .iter()
        .find(|option| option.keyword.as_bytes() == name);
    match (known, find(name)) {
        (Some(_), Some(def)) => def.kind == Kind::Libpq && def.contexts.contains(&context),
        (Some(option), None) => libpq_context(option) == Some(context),
        (None, _) => false,
    }
}

/// Names of the options that may be set at an object of the given kind, our own first.
pub fn valid_names(context: Context, libpq: &[LibpqOption]) -> Vec<&str> {
    let own = OPTIONS.iter().filter(|def| {
        def.contexts.contains(&context)
            && def.standing != Standing::Refused
            && (def.kind != Kind::Libpq || is_libpq(context, def.name.as_bytes(), libpq))
    });
    let of_libpq = libpq.iter().filter(|option| {
        find(option.keyword.as_bytes()).is_none() && libpq_context(option) == Some(context)
    });
    own.map(|def| def.name)
        .chain(of_libpq.map(|option| option.keyword.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn libpq_options_stand_where_postgres_fdw_has_them() {
        let libpq = samples::libpq();
        let server = valid_names(Context::Server, &libpq);
        let mapping = valid_names(Context::UserMapping, &libpq);
        for name in ["host", "sslmode", "options", "application_name", "sslcert"] {
            assert!(server.contains(&name), "{name}");
        }
        for name in [
            "user",
            "password",
            "sslpassword",
            "sslcert",
            "sslkey",
            "gssdelegation",
        ] {
            assert!(mapping.contains(&name), "{name}");
        }
        for name in [
            "client_encoding",
            "fallback_application_name",
            "replication",
            "scram_client_key",
            "oauth_issuer",
            "oauth_client_secret",
            "use_scram_passthrough",
        ] {
            assert!(
                !server.contains(&name) && !mapping.contains(&name),
                "{name}"
            );
        }
        for name in ["user", "password"] {
            assert!(!server.contains(&name), "{name}");
        }
        assert!(!mapping.contains(&"host"));
        assert!(valid_names(Context::Wrapper, &libpq).is_empty());
        assert_eq!(
            valid_names(Context::Column, &libpq),
            ["column_name", "remote_default", "key"]
        );
    }

    #[test]
    fn what_libpq_does_not_know_cannot_be_set() {
        let old: Vec<LibpqOption> = samples::libpq()
            .into_iter()
            .filter(|option| option.keyword != "gssdelegation")
            .collect();
        assert!(!valid_names(Context::Server, &old).contains(&"gssdelegation"));
        assert!(!is_libpq(Context::UserMapping, b"gssdelegation", &old));
        assert!(is_libpq(
            Context::UserMapping,
            b"gssdelegation",
            &samples::libpq()
        ));
    }
}
