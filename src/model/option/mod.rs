//! Options of the wrapper's objects: one table that drives validation, run-time values, hints and documentation.
//!
//! Names and values are bytes in the encoding of the local database, as the catalogs hold them.

mod parse;
mod place;
#[cfg(test)]
mod readme;
mod settings;
mod suggest;
mod table;
mod typed;
mod validate;

pub use settings::push_setting;
pub use table::Context;
pub use typed::{
    conninfo, ColumnOptions, FlushPolicy, ImportOptions, Isolation, MappingOptions, OnConflict,
    ServerOptions, TableOptions, Transport, WriteOptions,
};
pub use validate::{superuser_only, validate};

/// A connection option that libpq knows, as PQconndefaults reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibpqOption {
    pub keyword: String,
    /// Hidden in dialogs (`*` in dispchar): a password.
    pub secret: bool,
    /// For libpq's developers or set by libpq's users themselves (`D` in dispchar).
    pub debug: bool,
}

/// Name and value of an option as it stands in a catalog.
pub type GivenOption = (Vec<u8>, Vec<u8>);

#[cfg(test)]
pub(crate) mod samples {
    use super::{GivenOption, LibpqOption};

    /// What libpq 18 reports, shortened.
    pub fn libpq() -> Vec<LibpqOption> {
        let plain = [
            "user",
            "dbname",
            "host",
            "hostaddr",
            "port",
            "client_encoding",
            "options",
            "application_name",
            "fallback_application_name",
            "connect_timeout",
            "sslmode",
            "sslcert",
            "sslkey",
            "gssdelegation",
            "oauth_issuer",
        ];
        let mut options: Vec<LibpqOption> = plain
            .iter()
            .map(|keyword| LibpqOption {
                keyword: (*keyword).into(),
                secret: false,
                debug: false,
            })
            .collect();
        for (keyword, secret) in [
            ("password", true),
            ("sslpassword", true),
            ("oauth_client_secret", true),
            ("replication", false),
            ("scram_client_key", false),
        ] {
            options.push(LibpqOption {
                keyword: keyword.into(),
                secret,
                debug: !secret,
            });
        }
        options
    }

    pub fn given(options: &[(&str, &str)]) -> Vec<GivenOption> {
        options
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    }
}
