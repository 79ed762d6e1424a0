//! Checks of options when they are set.

use super::parse::Refusal;
use super::place;
use super::suggest::closest;
use super::table::{self, Context, Kind, OptionDef, Standing};
use super::LibpqOption;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::text;

/// Most bytes of a value that a message repeats.
const SHOWN_BYTES: usize = 100;

/// Checks one option of an object of the given kind. Errors name the option and what is allowed: HV00D for a name or
/// place, 22023 for a value (the codes of postgres_fdw), 0A000 for an option that is refused for now.
pub fn validate(context: Context, name: &[u8], value: &[u8], libpq: &[LibpqOption]) -> Result<()> {
    if place::is_libpq(context, name, libpq) {
        return Ok(());
    }
    let def = table::find(name)
        .filter(|def| def.contexts.contains(&context) && def.kind != Kind::Libpq)
        .ok_or_else(|| invalid_name(context, name, libpq))?;
    if def.standing == Standing::Refused {
        return Err(FdwError::unsupported(format!(
            "option \"{}\" is not supported yet",
            def.name
        )));
    }
    match def.kind.parse(value) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(invalid_value(def, value, refusal)),
    }
}

/// The error for a user who is not a superuser, if only superusers may set this value: both options would let a user
/// connect with means of the operating system user that runs the server.
pub fn superuser_only(context: Context, name: &[u8], value: &[u8]) -> Option<FdwError> {
    if context != Context::UserMapping {
        return None;
    }
    let (message, hint) = match name {
        b"password_required" if Kind::Bool.parse(value) == Ok(super::parse::Value::Bool(false)) => (
            "password_required=false is superuser-only",
            "Only a superuser may create or change a user mapping whose option password_required is false.",
        ),
        b"sslcert" | b"sslkey" => (
            "sslcert and sslkey are superuser-only",
            "Only a superuser may create or change a user mapping that has the option sslcert or sslkey.",
        ),
        _ => return None,
    };
    Some(FdwError::local(SqlState::INSUFFICIENT_PRIVILEGE, message).with_hint(hint))
}

/// The error for a value that [`Kind::parse`] refused. The options of libpq, among them the secrets, never get here.
pub(super) fn invalid_value(def: &OptionDef, value: &[u8], refusal: Refusal) -> FdwError {
    // What could hold a secret is not repeated: a list of settings, and anything in a user mapping.
    let is_private =
        def.kind == Kind::SessionSettings || def.contexts.contains(&Context::UserMapping);
    let message = if is_private {
        format!("invalid value for option \"{}\"", def.name)
    } else {
        format!(
            "invalid value for option \"{}\": \"{}\"",
            def.name,
            shown(value)
        )
    };
    FdwError::Option {
        sqlstate: SqlState::INVALID_PARAMETER_VALUE,
        message,
        detail: refusal.reason,
        hint: Some(format!("Valid values are {}.", def.kind.allowed())),
    }
}

fn invalid_name(context: Context, name: &[u8], libpq: &[LibpqOption]) -> FdwError {
    let valid = place::valid_names(context, libpq);
    let elsewhere: Vec<&str> = [
        Context::Server,
        Context::UserMapping,
        Context::Table,
        Context::Column,
        Context::Import,
    ]
    .into_iter()
    .filter(|other| {
        place::valid_names(*other, libpq)
            .iter()
            .any(|candidate| candidate.as_bytes() == name)
    })
    .map(Context::noun)
    .collect();
    let hint = if valid.is_empty() {
        Some("There are no valid options in this context.".to_string())
    } else if !elsewhere.is_empty() {
        Some(format!(
            "The option can be set for a {}.",
            elsewhere.join(" or a ")
        ))
    } else {
        closest(name, valid.iter().copied())
            .map(|candidate| format!("Perhaps you meant the option \"{candidate}\"."))
    };
    FdwError::Option {
        sqlstate: SqlState::INVALID_OPTION_NAME,
        message: format!("invalid option \"{}\"", shown(name)),
        detail: (!valid.is_empty()).then(|| {
            format!(
                "Valid options for a {} are: {}.",
                context.noun(),
                valid.join(", ")
            )
        }),
        hint,
    }
}

/// Bytes for a message: not too many. A long text may have been cut inside of a character.
pub(super) fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_BYTES {
        return text::from_bytes(bytes);
    }
    let mut text = String::new();
    for chunk in Sql::from(bytes.to_vec())
        .shortened(SHOWN_BYTES)
        .utf8_chunks()
    {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn check(context: Context, name: &str, value: &str) -> Result<()> {
        validate(
            context,
            name.as_bytes(),
            value.as_bytes(),
            &samples::libpq(),
        )
    }

    /// SQLSTATE, message, detail and hint of the error.
    fn fields(context: Context, name: &str, value: &str) -> (String, String, String, String) {
        let diag = check(context, name, value).unwrap_err().diag();
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default()).unwrap();
        (
            diag.sqlstate
                .map(|code| code.to_string())
                .unwrap_or_default(),
            text(Some(diag.message)),
            text(diag.detail),
            text(diag.hint),
        )
    }

    #[test]
    fn every_default_is_valid_where_the_option_may_stand() {
        for def in table::OPTIONS {
            if def.default.is_empty() || def.standing == Standing::Refused {
                continue;
            }
            for context in def.contexts {
                assert!(
                    check(*context, def.name, def.default).is_ok(),
                    "{} = {}",
                    def.name,
                    def.default
                );
            }
        }
    }

    #[test]
    fn good_options() {
        for (context, name, value) in [
            (Context::Server, "host", "example.org"),
            (Context::Server, "batch_size", "1000000"),
            (Context::Table, "batch_bytes", "256MB"),
            (Context::Table, "schema_name", "s"),
            (Context::Column, "column_name", "c"),
            (Context::Column, "remote_default", "on"),
            (Context::Column, "key", "true"),
            (Context::UserMapping, "user", "u"),
            (Context::UserMapping, "password", ""),
            (Context::UserMapping, "gssdelegation", "1"),
            (Context::UserMapping, "password_required", "false"),
            (Context::Server, "isolation", "match"),
            (Context::Server, "extensions", ""),
            (
                Context::Server,
                "session_settings",
                "search_path=\"r, public\"",
            ),
            (Context::Table, "analyze_sampling", "system"),
        ] {
            assert!(check(context, name, value).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_wrong_value_tells_what_is_allowed() {
        let (code, message, detail, hint) = fields(Context::Table, "batch_size", "0");
        assert_eq!(code, "22023");
        assert_eq!(message, "invalid value for option \"batch_size\": \"0\"");
        assert_eq!(detail, "");
        assert_eq!(hint, "Valid values are integers from 1 to 1000000.");
        let (.., hint) = fields(Context::Server, "fetch_size", "-1");
        assert_eq!(hint, "Valid values are integers from 1 up.");
        let (.., hint) = fields(Context::Server, "batch_bytes", "1GB");
        assert_eq!(
            hint,
            "Valid values are sizes from 1kB to 256MB, with the units B, kB, MB and GB."
        );
        let (.., hint) = fields(Context::Server, "isolation", "serializable");
        assert_eq!(hint, "Valid values are repeatable_read and match.");
        let (.., hint) = fields(Context::Server, "updatable", "yes");
        assert_eq!(hint, "Valid values are true, false, on, off, 1 and 0.");
    }

    #[test]
    fn wrong_settings_are_explained_and_not_repeated() {
        let (code, message, detail, hint) = fields(
            Context::Server,
            "session_settings",
            "my.token=hush,role=admin",
        );
        assert_eq!(code, "22023");
        assert_eq!(message, "invalid value for option \"session_settings\"");
        assert!(detail.starts_with("Setting \"role\" cannot be changed"));
        assert!(hint.starts_with("Valid values are lists of name=value"));
        assert!(!format!("{message}{detail}{hint}").contains("hush"));
    }

    #[test]
    fn an_unknown_name_gets_the_closest_one() {
        let (code, message, detail, hint) = fields(Context::Table, "batchsize", "1");
        assert_eq!(code, "HV00D");
        assert_eq!(message, "invalid option \"batchsize\"");
        assert!(
            detail.starts_with("Valid options for a foreign table are: schema_name, table_name, ")
        );
        assert_eq!(hint, "Perhaps you meant the option \"batch_size\".");
        let (.., hint) = fields(Context::UserMapping, "pasword", "hush");
        assert_eq!(hint, "Perhaps you meant the option \"password\".");
        let (.., hint) = fields(Context::Server, "nothing_like_any_of_them", "1");
        assert_eq!(hint, "");
    }

    #[test]
    fn options_of_later_versions_are_unknown() {
        assert_eq!(fields(Context::Server, "two_phase_commit", "on").0, "HV00D");
    }

    #[test]
    fn an_option_in_the_wrong_place_is_sent_to_the_right_one() {
        let (code, message, _, hint) = fields(Context::Server, "password", "hush");
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("HV00D", "invalid option \"password\"")
        );
        assert_eq!(hint, "The option can be set for a user mapping.");
        let (.., hint) = fields(Context::Column, "batch_size", "1");
        assert_eq!(
            hint,
            "The option can be set for a server or a foreign table."
        );
        assert!(check(Context::UserMapping, "host", "h").is_err());
        assert!(check(Context::Table, "column_name", "c").is_err());
    }

    #[test]
    fn the_wrapper_itself_has_no_options() {
        let (code, _, detail, hint) = fields(Context::Wrapper, "host", "h");
        assert_eq!(code, "HV00D");
        assert_eq!(detail, "");
        assert_eq!(hint, "There are no valid options in this context.");
    }

    #[test]
    fn scram_pass_through_is_refused() {
        for context in [Context::Server, Context::UserMapping] {
            let (code, message, ..) = fields(context, "use_scram_passthrough", "true");
            assert_eq!(code, "0A000");
            assert_eq!(
                message,
                "option \"use_scram_passthrough\" is not supported yet"
            );
        }
        assert_eq!(
            fields(Context::Table, "use_scram_passthrough", "true").0,
            "HV00D"
        );
    }

    #[test]
    fn options_set_by_this_library_or_hidden_are_unknown() {
        for name in [
            "client_encoding",
            "fallback_application_name",
            "replication",
            "oauth_issuer",
            "scram_client_key",
        ] {
            assert_eq!(fields(Context::Server, name, "x").0, "HV00D", "{name}");
            assert_eq!(fields(Context::UserMapping, name, "x").0, "HV00D", "{name}");
        }
    }

    #[test]
    fn secrets_are_never_repeated() {
        for (context, name) in [
            (Context::Server, "password"),
            (Context::Server, "sslpassword"),
            (Context::UserMapping, "passwort"),
            (Context::Table, "password"),
            (Context::UserMapping, "password_required"),
        ] {
            let (code, message, detail, hint) = fields(context, name, "hush");
            assert!(
                !format!("{code}{message}{detail}{hint}").contains("hush"),
                "{name}"
            );
        }
    }

    #[test]
    fn what_only_superusers_may_set() {
        let error = |context, name: &str, value: &str| {
            superuser_only(context, name.as_bytes(), value.as_bytes())
        };
        let mapping = Context::UserMapping;
        assert!(error(mapping, "password_required", "off").is_some());
        assert!(error(mapping, "password_required", "true").is_none());
        assert!(error(mapping, "sslcert", "f").is_some());
        assert!(error(mapping, "sslkey", "f").is_some());
        assert!(error(mapping, "user", "f").is_none());
        assert!(error(Context::Server, "sslcert", "f").is_none());
        let code = error(mapping, "sslkey", "f").map(|error| error.sqlstate());
        assert_eq!(code, Some(SqlState::INSUFFICIENT_PRIVILEGE));
    }

    #[test]
    fn odd_bytes_and_long_values_are_shown_safely() {
        assert_eq!(shown("naïve".as_bytes()), "naïve");
        assert_eq!(text::to_bytes(&shown(b"na\xefve")), b"na\xefve");
        // Where a text is cut, a character of another encoding may be cut, too.
        let long = [&b"\xef"[..], &[b'x'; 200]].concat();
        assert!(shown(&long).starts_with("\\xefxxx"));
        assert_eq!(shown(&[b'x'; 200]).len(), SHOWN_BYTES + 3);
    }
}
