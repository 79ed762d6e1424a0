//! The settings of a remote session that the text form of values depends on, and how they are kept as they are meant.
//!
//! Functions on the shard (triggers, defaults, those that a view calls) may change them for the rest of the session. Of some a
//! server reports each change, before the end of the message in which it happened: [`SettingsWatch`]. The others are made again in each
//! transaction.

use crate::model::option::{push_setting, ServerOptions};
use crate::model::sql::Sql;
use crate::pg::typio;
use crate::pq::{Connection, PgResult};
use std::ffi::CStr;
use std::rc::Rc;

/// Settings that the text form of values relies on, but for search_path. Changes of these are reported.
const REPORTED: [Setting; 3] = [
    ("timezone", "UTC"),
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
];

/// The same for those whose changes are not. With lc_monetary C, money has two digits after a point, here as there.
const UNREPORTED: [Setting; 5] = [
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("array_nulls", "on"),
    ("xmloption", "content"),
    ("lc_monetary", "C"),
];

/// What is made when a connection is new: strings are as usual, and a session lives while the local transaction is busy
/// elsewhere.
const ONCE: [Setting; 2] = [
    ("standard_conforming_strings", "on"),
    ("idle_in_transaction_session_timeout", "0"),
];

const SEARCH_PATH: &str = "search_path";

/// Changes of search_path are reported by PostgreSQL 18 and later.
const REPORTS_SEARCH_PATH: i32 = 180_000;

fn search_path(options: &ServerOptions) -> &[u8] {
    let mut given = options.session_settings.iter();
    given
        .find(|setting| setting.name.eq_ignore_ascii_case(SEARCH_PATH.as_bytes()))
        .map_or(b"pg_catalog", |setting| &setting.value)
}

/// What makes the settings when a connection is new: all of ours, then those of the option `session_settings` by a statement
/// each. `for_transaction` is SQL for whether only the running transaction has them.
pub fn first(options: &ServerOptions, for_transaction: &str) -> Vec<Sql> {
    let path = [(SEARCH_PATH, "pg_catalog")];
    let ours = path.iter().chain(&REPORTED).chain(&UNREPORTED).chain(&ONCE);
    let ours = ours.map(bytes);
    let given = options.session_settings.iter().map(|setting| {
        let mut sql = Sql::from("SELECT ");
        setting.push_call(&mut sql, for_transaction);
        sql
    });
    std::iter::once(select(ours, for_transaction))
        .chain(given)
        .collect()
}

/// Name and value.
type Setting = (&'static str, &'static str);

fn bytes<'a>((name, value): &Setting) -> (&'a [u8], &'a [u8]) {
    (name.as_bytes(), value.as_bytes())
}

fn select<'a>(settings: impl Iterator<Item = (&'a [u8], &'a [u8])>, for_transaction: &str) -> Sql {
    let mut sql = Sql::from("SELECT ");
    sql.push_list(", ", settings, |sql, (name, value)| {
        push_setting(sql, name, value, for_transaction);
    });
    sql
}

/// What makes the settings once more, in one statement. They end with the transaction where a pooler may give the server's
/// session to somebody else then.
pub struct Renewal {
    /// What nobody reports: in each transaction.
    pub unreported: Rc<Sql>,
    /// All that values depend on.
    pub all: Rc<Sql>,
}

impl Renewal {
    /// `encoding`: that of the client.
    pub fn new(options: &ServerOptions, encoding: &CStr, version: i32, pooled: bool) -> Renewal {
        let path = (SEARCH_PATH.as_bytes(), search_path(options));
        let others = options
            .session_settings
            .iter()
            .filter(|setting| pooled && !setting.name.eq_ignore_ascii_case(SEARCH_PATH.as_bytes()))
            .map(|setting| (&setting.name[..], &setting.value[..]));
        let ours = REPORTED.iter().chain(&UNREPORTED).map(bytes);
        let once = ONCE.iter().filter(|_| pooled).map(bytes);
        let encoding = (CLIENT_ENCODING.to_bytes(), encoding.to_bytes());
        let all = [encoding, path]
            .into_iter()
            .chain(ours)
            .chain(once)
            .chain(others);
        let unreported = UNREPORTED.iter().map(bytes);
        let path = (version < REPORTS_SEARCH_PATH).then_some(path);
        let for_transaction = if pooled { "true" } else { "false" };
        let all = Rc::new(select(all, for_transaction));
        Renewal {
            unreported: match pooled {
                true => all.clone(),
                false => Rc::new(select(unreported.chain(path), for_transaction)),
            },
            all,
        }
    }
}

/// What a reported setting has to be.
enum Meant {
    Exactly(Vec<u8>),
    /// DateStyle is the style, and an order that does not matter for it.
    Style(&'static [u8]),
}

impl Meant {
    fn is(&self, value: &[u8]) -> bool {
        match self {
            Meant::Exactly(meant) => value == meant,
            Meant::Style(style) => value
                .strip_prefix(*style)
                .is_some_and(|order| order.is_empty() || order.starts_with(b",")),
        }
    }
}

struct Watched {
    name: &'static CStr,
    meant: Meant,
    /// Another value that does not count: a pooler reports what a server's session had before, or has after a transaction.
    stale: Option<Vec<u8>>,
}

impl Watched {
    /// Has the server reported another value?
    fn differs(&mut self, connection: &Connection) -> bool {
        let Some(value) = connection.parameter_status(self.name) else {
            return false;
        };
        if self.meant.is(value) {
            // From here on nobody but a function of the shard brings the other value back.
            self.stale = None;
            return false;
        }
        self.stale.as_deref() != Some(value)
    }
}

/// The settings that a server reports, and whether the session has had others.
pub struct SettingsWatch {
    settings: Vec<Watched>,
    /// Are the settings made for a transaction only?
    pub is_pooled: bool,
    /// Another value has been seen: functions on this shard change settings.
    pub is_unsettled: bool,
}

/// A setting has another value than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Its name, as it is reported.
    pub name: &'static CStr,
    /// What we send may be read wrongly too.
    pub for_both_ways: bool,
}

impl Difference {
    /// May values in this answer have been written under the other setting?
    pub fn concerns(&self, answer: &PgResult) -> bool {
        let mut types = answer.column_types();
        self.name != SEARCH_PATH_REPORT || types.any(typio::remote_names_matter)
    }
}

const SEARCH_PATH_REPORT: &CStr = c"search_path";
const CLIENT_ENCODING: &CStr = c"client_encoding";

impl SettingsWatch {
    /// Of a server of that version. Each setting costs a search in libpq's list at the end of each message. What we send reads
    /// the same with standard_conforming_strings on or off, so that is not watched.
    pub fn new(
        options: &ServerOptions,
        encoding: &CStr,
        version: i32,
        is_pooled: bool,
    ) -> SettingsWatch {
        let exactly = |name, meant: &[u8]| Watched {
            name,
            meant: Meant::Exactly(meant.to_vec()),
            stale: None,
        };
        let search_path = exactly(SEARCH_PATH_REPORT, search_path(options));
        let mut settings = vec![
            exactly(CLIENT_ENCODING, encoding.to_bytes()),
            Watched {
                meant: Meant::Style(b"ISO"),
                ..exactly(c"DateStyle", b"")
            },
            exactly(c"IntervalStyle", b"postgres"),
            exactly(c"TimeZone", b"UTC"),
        ];
        settings.extend((version >= REPORTS_SEARCH_PATH).then_some(search_path));
        SettingsWatch {
            settings,
            is_pooled,
            is_unsettled: false,
        }
    }

    /// At the end of a message: the first setting that is not what it has to be, or None. Of several, search_path comes last,
    /// which matters least.
    #[inline]
    pub fn check(&mut self, connection: &Connection) -> Option<Difference> {
        let mut settings = self.settings.iter_mut();
        let differing =
            settings.find_map(|setting| setting.differs(connection).then_some(setting.name))?;
        self.is_unsettled = true;
        Some(Difference {
            name: differing,
            for_both_ways: differing == CLIENT_ENCODING,
        })
    }

    /// Values other than ours that stand there now say nothing about what follows.
    pub fn disregard(&mut self, connection: &Connection) {
        for setting in &mut self.settings {
            setting.stale = None;
            if setting.differs(connection) {
                setting.stale = connection
                    .parameter_status(setting.name)
                    .map(<[u8]>::to_vec);
            }
        }
        self.is_unsettled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pq::conninfo;

    fn options(settings: &str) -> ServerOptions {
        let pairs = [(b"session_settings".to_vec(), settings.as_bytes().to_vec())];
        ServerOptions::new(&pairs, conninfo::options().unwrap()).unwrap()
    }

    #[test]
    fn each_transaction_gets_what_is_not_reported() {
        let plain = |version| Renewal::new(&options("work_mem=1MB"), c"UTF8", version, false);
        let text = plain(180_000).unreported.to_string();
        for (name, value) in UNREPORTED {
            let call = format!("pg_catalog.set_config('{name}', '{value}', false)");
            assert!(text.contains(&call), "{text}");
        }
        assert!(!text.contains("search_path") && !text.contains("work_mem"));
        let text = plain(170_004).unreported.to_string();
        assert!(text.contains("set_config('search_path', 'pg_catalog', false)"));
        let text = plain(180_000).all.to_string();
        assert!(text.contains("'datestyle'") && text.contains("'search_path'"));
    }

    #[test]
    fn behind_a_pooler_each_transaction_gets_all() {
        let renewal = Renewal::new(
            &options("search_path=app,work_mem=1MB"),
            c"UTF8",
            150_000,
            true,
        );
        let text = renewal.unreported.to_string();
        for setting in [
            "'timezone', 'UTC'",
            "'search_path', 'app'",
            "'work_mem', '1MB'",
        ] {
            let call = format!("set_config({setting}, true)");
            assert!(text.contains(&call), "{text}");
        }
        assert!(!text.contains("false") && !text.contains("'search_path', 'pg_catalog'"));
    }

    #[test]
    fn the_order_of_a_date_style_does_not_matter() {
        let style = Meant::Style(b"ISO");
        assert!(style.is(b"ISO, DMY") && style.is(b"ISO"));
        assert!(!style.is(b"SQL, DMY") && !style.is(b"ISOX, DMY"));
        let exactly = Meant::Exactly(b"UTC".to_vec());
        assert!(exactly.is(b"UTC") && !exactly.is(b"UTC+1"));
    }
}
