//! The option `session_settings`: settings to be made on the remote session after connecting.

use super::parse::{is_space, quoted_part, trim};
use super::validate;
use crate::model::sql::Sql;

/// A setting of the remote session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetting {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
}

impl SessionSetting {
    /// Adds a call of set_config() that makes the setting; `for_transaction` is SQL for whether only the running
    /// transaction has it. Unlike `SET name = 'value'`, which takes the quoted text as one element, set_config() reads
    /// the value of a list setting such as search_path as a list.
    pub fn push_call(&self, sql: &mut Sql, for_transaction: &str) {
        push_setting(sql, &self.name, &self.value, for_transaction);
    }
}

/// The same for a setting of our own.
pub fn push_setting(sql: &mut Sql, name: &[u8], value: &[u8], for_transaction: &str) {
    sql.push("pg_catalog.set_config(")
        .push_literal(name)
        .push(", ")
        .push_literal(value)
        .push(", ")
        .push(for_transaction)
        .push(")");
}

/// Settings that decide how values look in text, both ways: another value would change what is stored or read.
/// array_nulls is one of them because arrays travel as text inside of arrays.
const TEXT_FORMS: [&str; 10] = [
    "client_encoding",
    "datestyle",
    "intervalstyle",
    "extra_float_digits",
    "timezone",
    "bytea_output",
    "standard_conforming_strings",
    "array_nulls",
    "xmloption",
    "lc_monetary",
];

/// Settings that replace the user whom the user mapping names.
const IDENTITY: [&str; 2] = ["role", "session_authorization"];

/// Modes of the remote transaction: each BEGIN states them, from the local transaction and the option `isolation`.
/// transaction_timeout is no mode but a limit, and may be set.
const TRANSACTION_MODES: [&str; 6] = [
    "transaction_isolation",
    "transaction_read_only",
    "transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "default_transaction_deferrable",
];

/// Reads `name=value, name="a value"`. The error says what is wrong without showing any value, as one could be secret.
pub fn parse(text: &[u8]) -> Result<Vec<SessionSetting>, String> {
    let mut settings: Vec<SessionSetting> = Vec::new();
    let mut rest = trim(text);
    if rest.is_empty() {
        return Ok(settings);
    }
    loop {
        let number = settings.len() + 1;
        let end = rest
            .iter()
            .position(|byte| *byte == b'=' || *byte == b',')
            .unwrap_or(rest.len());
        let name = trim(&rest[..end]);
        if !is_setting_name(name) {
            return Err(format!(
                "Item {number} does not begin with the name of a setting."
            ));
        }
        let name = name.to_vec();
        let shown = validate::shown(&name);
        check_allowed(&name, &shown)?;
        if settings
            .iter()
            .any(|earlier| earlier.name.eq_ignore_ascii_case(&name))
        {
            return Err(format!("Setting \"{shown}\" is given more than once."));
        }
        let Some(b'=') = rest.get(end) else {
            return Err(format!("Setting \"{shown}\" is not followed by \"=\"."));
        };
        let (value, after) = value(trim(&rest[end + 1..]), &shown)?;
        settings.push(SessionSetting { name, value });
        match trim(after) {
            [] => return Ok(settings),
            [b',', more @ ..] => rest = trim(more),
            _ => {
                return Err(format!(
                    "The value of setting \"{shown}\" is not followed by a comma."
                ))
            }
        }
    }
}

/// The value at the start of `text`, and what follows it.
fn value<'a>(text: &'a [u8], setting: &str) -> Result<(Vec<u8>, &'a [u8]), String> {
    if let [b'"', quoted @ ..] = text {
        return quoted_part(quoted).ok_or_else(|| {
            format!("The value of setting \"{setting}\" lacks its closing double quote.")
        });
    }
    let end = text
        .iter()
        .position(|byte| *byte == b',' || is_space(*byte))
        .unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    if value.is_empty() {
        return Err(format!(
            "Setting \"{setting}\" has no value; an empty one is written as \"\"."
        ));
    }
    if value.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return Err(format!(
            "The value of setting \"{setting}\" holds a quote and does not stand in double quotes."
        ));
    }
    Ok((value.to_vec(), after))
}

/// The form of a setting's name: identifiers joined by dots, as valid_custom_variable_name of guc.c has it.
fn is_setting_name(name: &[u8]) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
    name.split(|byte| *byte == b'.').all(|part| match part {
        [first, others @ ..] => {
            is_first(*first)
                && others
                    .iter()
                    .all(|byte| is_first(*byte) || byte.is_ascii_digit() || *byte == b'$')
        }
        [] => false,
    })
}

fn check_allowed(name: &[u8], shown: &str) -> Result<(), String> {
    let is_one_of = |list: &[&str]| {
        list.iter()
            .any(|refused| name.eq_ignore_ascii_case(refused.as_bytes()))
    };
    if is_one_of(&TEXT_FORMS) {
        Err(format!(
            "Setting \"{shown}\" cannot be changed, because the text form of values depends on it."
        ))
    } else if is_one_of(&IDENTITY) {
        Err(format!(
            "Setting \"{shown}\" cannot be changed, because the user mapping names the remote user."
        ))
    } else if is_one_of(&TRANSACTION_MODES) {
        Err(format!(
            "Setting \"{shown}\" cannot be changed, because the remote transaction follows the local one."
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        parse(text.as_bytes()).map(|settings| {
            settings
                .iter()
                .map(|setting| (text_of(&setting.name), text_of(&setting.value)))
                .collect()
        })
    }

    fn pairs(items: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        Ok(items
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect())
    }

    #[test]
    fn items_are_separated_by_commas() {
        assert_eq!(read(""), pairs(&[]));
        assert_eq!(read(" \n"), pairs(&[]));
        assert_eq!(read("work_mem=64MB"), pairs(&[("work_mem", "64MB")]));
        assert_eq!(
            read(" a = 1 ,b.c=x-y , Jit=off"),
            pairs(&[("a", "1"), ("b.c", "x-y"), ("Jit", "off")])
        );
        assert_eq!(read("a=b=c"), pairs(&[("a", "b=c")]));
    }

    #[test]
    fn quoted_values_hold_anything() {
        assert_eq!(
            read("search_path=\"r, public\",x=1"),
            pairs(&[("search_path", "r, public"), ("x", "1")])
        );
        assert_eq!(
            read("search_path=\"\"\"My Schema\"\", public\""),
            pairs(&[("search_path", "\"My Schema\", public")])
        );
        assert_eq!(
            read("a=\"\" , b=\"it's\""),
            pairs(&[("a", ""), ("b", "it's")])
        );
    }

    #[test]
    fn broken_lists_are_refused() {
        for (text, part) in [
            (",", "Item 1"),
            ("a=1,", "Item 2"),
            ("a=1,,b=2", "Item 2"),
            ("=1", "Item 1"),
            ("1a=1", "Item 1"),
            ("a..b=1", "Item 1"),
            ("a b=1", "Item 1"),
            ("a;drop=1", "Item 1"),
            ("a", "followed by \"=\""),
            ("a,b=1", "followed by \"=\""),
            ("a=", "no value"),
            ("a=,b=1", "no value"),
            ("a=1 2", "followed by a comma"),
            ("a=\"x\"y", "followed by a comma"),
            ("a=\"x", "closing"),
            ("a=x\"y", "quote"),
            ("a='x'", "quote"),
            ("a=1,A=2", "more than once"),
        ] {
            let reason = read(text).unwrap_err();
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn errors_show_no_value() {
        for text in [
            "my.token=hush\"hush",
            "my.token=\"hush",
            "my.token=hush hush",
        ] {
            assert!(!read(text).unwrap_err().contains("hush"), "{text}");
        }
    }

    #[test]
    fn settings_of_ours_are_refused_in_any_case() {
        for name in [
            "client_encoding",
            "DateStyle",
            "IntervalStyle",
            "extra_float_digits",
            "TimeZone",
            "TIMEZONE",
            "bytea_output",
            "standard_conforming_strings",
            "array_nulls",
            "XmlOption",
            "lc_monetary",
            "role",
            "session_authorization",
            "transaction_isolation",
            "transaction_read_only",
            "transaction_deferrable",
            "default_transaction_isolation",
            "default_transaction_read_only",
            "default_transaction_deferrable",
        ] {
            let reason = read(&format!("x=1,{name}=1")).unwrap_err();
            assert!(
                reason.contains(name) && reason.contains("cannot"),
                "{reason}"
            );
        }
        for name in [
            "transaction_timeout",
            "statement_timeout",
            "my.role",
            "search_path",
        ] {
            assert!(read(&format!("{name}=1")).is_ok(), "{name}");
        }
    }

    #[test]
    fn list_values_go_through_set_config() {
        let mut sql = Sql::from("SELECT ");
        let settings = parse(b"search_path=\"r, public\",a.b=\"it's\"").unwrap();
        sql.push_list(", ", &settings, |sql, setting| {
            setting.push_call(sql, "false")
        });
        assert_eq!(
            sql.to_string(),
            "SELECT pg_catalog.set_config('search_path', 'r, public', false), \
             pg_catalog.set_config('a.b', 'it''s', false)"
        );
    }
}
