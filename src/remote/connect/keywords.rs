//! What libpq is told, and what is read back from its options.

use super::Inputs;
use crate::model::application_name::{self, Facts};
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::option;
use std::ffi::{CStr, CString};
use std::time::Duration;

/// Keywords and values of a connection, each keyword once.
///
/// As in postgres_fdw the setting for the application name goes before the option of the server, escapes are
/// replaced in both, and the client's encoding is that of the local database, so that no value is ever converted.
pub fn params(inputs: &Inputs, facts: &Facts, encoding: &CStr) -> Result<Vec<(CString, CString)>> {
    let given = option::conninfo(inputs.options, inputs.mapping);
    let of_server = given
        .iter()
        .find(|(keyword, _)| *keyword == "application_name")
        .map_or(&b""[..], |(_, value)| value);
    let name = application_name::choose([inputs.application_name, of_server], facts);

    let mut params = Vec::with_capacity(given.len() + 3);
    for (keyword, value) in &given {
        if *keyword != "application_name" {
            params.push(param(keyword, value)?);
        }
    }
    if let Some(name) = name {
        params.push(param("application_name", &name)?);
    }
    params.push(param("fallback_application_name", b"shard_fdw")?);
    params.push(param("client_encoding", encoding.to_bytes())?);
    Ok(params)
}

/// The error names the keyword only: the value may be a secret.
fn param(keyword: &str, value: &[u8]) -> Result<(CString, CString)> {
    let pair = CString::new(keyword).and_then(|name| Ok((name, CString::new(value)?)));
    pair.map_err(|_| {
        FdwError::local(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("value of connection option \"{keyword}\" contains a NUL character"),
        )
    })
}

/// Number of hosts that libpq tries: both options are lists, and addresses go before names.
pub fn host_count(hostaddr: Option<&[u8]>, host: Option<&[u8]>) -> u32 {
    let list = hostaddr
        .filter(|list| !list.is_empty())
        .or(host)
        .unwrap_or_default();
    let commas = list.iter().filter(|&&byte| byte == b',').count();
    u32::try_from(commas).unwrap_or(u32::MAX).saturating_add(1)
}

/// `connect_timeout` for all hosts together; None for no limit, which 0 and negative numbers mean. The error is a
/// message for the user.
pub fn time_limit(
    timeout: &[u8],
    hosts: u32,
) -> std::result::Result<Option<Duration>, &'static str> {
    let text = timeout.trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let seconds: i32 = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or("connect_timeout must be a whole number of seconds")?;
    Ok(u32::try_from(seconds)
        .ok()
        .filter(|&seconds| seconds > 0)
        .map(|seconds| Duration::from_secs(u64::from(seconds) * u64::from(hosts))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::option::{LibpqOption, MappingOptions, ServerOptions};

    fn libpq() -> Vec<LibpqOption> {
        [
            ("host", false),
            ("application_name", false),
            ("user", false),
            ("password", true),
        ]
        .map(|(keyword, secret)| LibpqOption {
            keyword: keyword.into(),
            secret,
            debug: false,
        })
        .to_vec()
    }

    fn pairs(options: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        options
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    }

    fn params_of(server: &[(&str, &str)], guc: &str) -> Vec<(String, String)> {
        let options = ServerOptions::new(&pairs(server), &libpq()).unwrap();
        let mapping =
            MappingOptions::new(&pairs(&[("user", "u"), ("password", "hush")]), &libpq()).unwrap();
        let facts = Facts {
            application_name: b"psql".to_vec(),
            ..Facts::default()
        };
        let inputs = Inputs {
            server: "s",
            options: &options,
            mapping: &mapping,
            superuser: false,
            application_name: guc.as_bytes(),
        };
        let mut params: Vec<(String, String)> = params(&inputs, &facts, c"LATIN1")
            .unwrap()
            .into_iter()
            .map(|(keyword, value)| (keyword.into_string().unwrap(), value.into_string().unwrap()))
            .collect();
        params.sort();
        params
    }

    fn find<'a>(params: &'a [(String, String)], keyword: &str) -> Option<&'a str> {
        params
            .iter()
            .find(|(name, _)| name == keyword)
            .map(|(_, value)| value.as_str())
    }

    #[test]
    fn what_libpq_is_told() {
        let params = params_of(&[("host", "a,b")], "");
        let expected = [
            ("client_encoding", "LATIN1"),
            ("fallback_application_name", "shard_fdw"),
            ("host", "a,b"),
            ("password", "hush"),
            ("user", "u"),
        ];
        assert!(params
            .iter()
            .map(|(keyword, value)| (keyword.as_str(), value.as_str()))
            .eq(expected));
    }

    #[test]
    fn the_setting_goes_before_the_option() {
        let params = params_of(&[("application_name", "option")], "of %a");
        assert_eq!(find(&params, "application_name"), Some("of psql"));
        let params = params_of(&[("application_name", "%a 2")], "");
        assert_eq!(find(&params, "application_name"), Some("psql 2"));
        let params = params_of(&[("application_name", "%C")], "%u");
        assert_eq!(find(&params, "application_name"), None);
    }

    #[test]
    fn a_bad_value_does_not_show() {
        let error = param("password", b"hu\0sh").unwrap_err();
        let diag = error.diag();
        assert!(String::from_utf8_lossy(&diag.message).contains("\"password\""));
        assert!(!format!("{diag:?}").contains("sh\""));
    }

    #[test]
    fn addresses_count_before_names() {
        assert_eq!(host_count(None, None), 1);
        assert_eq!(host_count(None, Some(b"a,b,c")), 3);
        assert_eq!(host_count(Some(b"1.2.3.4,5.6.7.8"), Some(b"a,b,c")), 2);
        assert_eq!(host_count(Some(b""), Some(b"a,b,c")), 3);
    }

    #[test]
    fn the_limit_covers_all_hosts() {
        assert_eq!(time_limit(b"2", 3), Ok(Some(Duration::from_secs(6))));
        assert_eq!(time_limit(b" 7 ", 1), Ok(Some(Duration::from_secs(7))));
        assert_eq!(time_limit(b"0", 3), Ok(None));
        assert_eq!(time_limit(b"-1", 3), Ok(None));
        assert_eq!(time_limit(b"", 3), Ok(None));
        assert!(time_limit(b"2s", 3).is_err());
        assert!(time_limit(b"99999999999", 3).is_err());
    }
}
