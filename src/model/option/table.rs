//! The table of options.

/// The kind of object an option belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    Wrapper,
    Server,
    UserMapping,
    Table,
    Column,
    /// The command IMPORT FOREIGN SCHEMA.
    Import,
}

impl Context {
    /// What a message calls the object.
    pub fn noun(self) -> &'static str {
        match self {
            Context::Wrapper => "foreign-data wrapper",
            Context::Server => "server",
            Context::UserMapping => "user mapping",
            Context::Table => "foreign table",
            Context::Column => "column",
            Context::Import => "foreign schema import",
        }
    }
}

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Bool,
    Int {
        min: i32,
        max: i32,
    },
    /// A number of bytes, written with a memory unit or without.
    Size {
        min: usize,
        max: usize,
    },
    /// A planner cost: a finite number from zero up.
    Cost,
    Choice(&'static [&'static str]),
    /// A name of an object, not empty.
    Name,
    /// Names separated by commas, by the rules of SQL identifiers.
    NameList,
    SessionSettings,
    /// Handed to libpq, which judges the value when it connects.
    Libpq,
}

/// What an option does in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Works,
    /// Its values are checked, but nothing reads them yet.
    WithoutEffect,
    /// Setting it is an error, for it would promise something that is not there.
    Refused,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct OptionDef {
    pub name: &'static str,
    pub contexts: &'static [Context],
    pub kind: Kind,
    /// The value of an option that is not set, in its text form; empty means none.
    pub default: &'static str,
    pub standing: Standing,
    /// What it means, in Markdown on one line.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a test compares README.md with the table")
    )]
    pub doc: &'static str,
}

const SERVER: &[Context] = &[Context::Server];
const SERVER_AND_TABLE: &[Context] = &[Context::Server, Context::Table];
const SERVER_AND_MAPPING: &[Context] = &[Context::Server, Context::UserMapping];
const MAPPING: &[Context] = &[Context::UserMapping];
const TABLE: &[Context] = &[Context::Table];
const COLUMN: &[Context] = &[Context::Column];
const IMPORT: &[Context] = &[Context::Import];

const fn works(
    name: &'static str,
    contexts: &'static [Context],
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> OptionDef {
    OptionDef {
        name,
        contexts,
        kind,
        default,
        standing: Standing::Works,
        doc,
    }
}

const fn without_effect(
    name: &'static str,
    contexts: &'static [Context],
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> OptionDef {
    OptionDef {
        name,
        contexts,
        kind,
        default,
        standing: Standing::WithoutEffect,
        doc,
    }
}

/// Every option but those that libpq alone defines.
pub static OPTIONS: &[OptionDef] = &[
    works(
        "schema_name",
        TABLE,
        Kind::Name,
        "",
        "schema of the remote table; without it, the schema of the foreign table",
    ),
    works(
        "table_name",
        TABLE,
        Kind::Name,
        "",
        "name of the remote table; without it, the name of the foreign table",
    ),
    works(
        "column_name",
        COLUMN,
        Kind::Name,
        "",
        "name of the remote column; without it, the name of the column",
    ),
    works(
        "remote_default",
        COLUMN,
        Kind::Bool,
        "false",
        "left out of an INSERT or COPY that does not name the column, so that the shard's default, serial or identity fills it; a column that is named is sent as it is, NULL included, and as by OVERRIDING SYSTEM VALUE: an identity column GENERATED ALWAYS takes it too, by INSERT and by COPY",
    ),
    works(
        "key",
        COLUMN,
        Kind::Bool,
        "false",
        "one of the columns that together identify a row of the remote table where its ctid cannot, as for a view or a foreign table; those by which `on_conflict` finds the row that is there",
    ),
    works(
        "batch_size",
        SERVER_AND_TABLE,
        Kind::Int {
            min: 1,
            max: 1_000_000,
        },
        "1000",
        "most rows of one remote INSERT, UPDATE or DELETE; 1 turns batching off",
    ),
    works(
        "batch_bytes",
        SERVER_AND_TABLE,
        Kind::Size {
            min: 1 << 10,
            max: 256 << 20,
        },
        "1MB",
        "a batch is sent when its rows take this much room, however few they are; a number without unit counts bytes",
    ),
    works(
        "transport",
        SERVER_AND_TABLE,
        Kind::Choice(&["auto", "insert", "copy"]),
        "auto",
        "how batches travel: as multi-row INSERT, as COPY, or as COPY once a statement has sent many rows to a table for which both mean the same; see *Transport* below",
    ),
    works(
        "flush_policy",
        SERVER_AND_TABLE,
        Kind::Choice(&["row", "call", "statement", "transaction"]),
        "statement",
        "when rows have to be on the shard: each at once; at once if the statement calls functions in procedural languages while it writes; when the statement ends; when the transaction ends; see *Flush policies* below",
    ),
    works(
        "on_conflict",
        TABLE,
        Kind::Choice(&["error", "nothing", "update"]),
        "error",
        "what INSERT and COPY do with a row whose `key` columns are those of a row that is there: fail, leave that row alone, or give its other columns the values of the new row; see *Upsert* below",
    ),
    works(
        "fetch_size",
        SERVER_AND_TABLE,
        Kind::Int {
            min: 1,
            max: i32::MAX,
        },
        "100",
        "rows fetched from the remote cursor at a time; UPDATE and DELETE fetch up to ten times as many while the rows are small",
    ),
    works(
        "updatable",
        SERVER_AND_TABLE,
        Kind::Bool,
        "true",
        "whether INSERT, UPDATE, DELETE and COPY may write to the table",
    ),
    works(
        "truncatable",
        SERVER_AND_TABLE,
        Kind::Bool,
        "true",
        "whether TRUNCATE may empty the table",
    ),
    works(
        "isolation",
        SERVER,
        Kind::Choice(&["repeatable_read", "match"]),
        "repeatable_read",
        "isolation level of the remote transaction; `match` takes the local one; a local SERIALIZABLE is SERIALIZABLE either way",
    ),
    works(
        "session_settings",
        SERVER,
        Kind::SessionSettings,
        "",
        "settings made on the remote session after connecting, see below",
    ),
    works(
        "extensions",
        SERVER,
        Kind::NameList,
        "",
        "extensions that local and remote server have in the same version, so that their immutable functions and operators can be sent",
    ),
    works(
        "fdw_startup_cost",
        SERVER,
        Kind::Cost,
        "100",
        "added to the startup cost of every foreign scan",
    ),
    works(
        "fdw_tuple_cost",
        SERVER,
        Kind::Cost,
        "0.2",
        "added to the cost of every row of a foreign scan",
    ),
    works(
        "keep_connections",
        SERVER,
        Kind::Bool,
        "true",
        "whether a connection stays open for the next transaction",
    ),
    works(
        "parallel_commit",
        SERVER,
        Kind::Bool,
        "true",
        "whether the remote transaction is committed at the same time as those of other servers",
    ),
    works(
        "parallel_abort",
        SERVER,
        Kind::Bool,
        "true",
        "whether the remote transaction is rolled back at the same time as those of other servers",
    ),
    works(
        "password_required",
        MAPPING,
        Kind::Bool,
        "true",
        "whether a user who is not a superuser must connect with a password; only a superuser may set it to false",
    ),
    works(
        "sslcert",
        SERVER_AND_MAPPING,
        Kind::Libpq,
        "",
        "client certificate; in a user mapping only a superuser may set it",
    ),
    works(
        "sslkey",
        SERVER_AND_MAPPING,
        Kind::Libpq,
        "",
        "key of the client certificate; in a user mapping only a superuser may set it",
    ),
    works(
        "gssdelegation",
        SERVER_AND_MAPPING,
        Kind::Libpq,
        "",
        "whether GSSAPI credentials are passed on (libpq of PostgreSQL 16 and later)",
    ),
    without_effect(
        "use_remote_estimate",
        SERVER_AND_TABLE,
        Kind::Bool,
        "false",
        "whether the planner asks the shard for costs",
    ),
    without_effect(
        "async_capable",
        SERVER_AND_TABLE,
        Kind::Bool,
        "false",
        "whether scans of several servers may run at the same time",
    ),
    without_effect(
        "analyze_sampling",
        SERVER_AND_TABLE,
        Kind::Choice(&["off", "auto", "random", "system", "bernoulli"]),
        "auto",
        "how ANALYZE takes its sample on the shard",
    ),
    works(
        "import_collate",
        IMPORT,
        Kind::Bool,
        "true",
        "whether columns get the collations they have on the shard",
    ),
    works(
        "import_default",
        IMPORT,
        Kind::Bool,
        "false",
        "whether columns get the DEFAULT they have on the shard, to be evaluated here",
    ),
    works(
        "import_generated",
        IMPORT,
        Kind::Bool,
        "true",
        "whether generated columns are generated here too; else they are plain columns",
    ),
    works(
        "import_not_null",
        IMPORT,
        Kind::Bool,
        "true",
        "whether columns are NOT NULL as on the shard",
    ),
    works(
        "import_remote_default",
        IMPORT,
        Kind::Bool,
        "false",
        "whether serial, identity and defaulted columns get the option `remote_default`; they get no DEFAULT then, whatever `import_default` says",
    ),
    OptionDef {
        name: "use_scram_passthrough",
        contexts: SERVER_AND_MAPPING,
        kind: Kind::Bool,
        default: "false",
        standing: Standing::Refused,
        doc: "whether to connect with the SCRAM keys of the client's own login",
    },
];

/// The row of an option, wherever it may stand.
pub fn find(name: &[u8]) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|def| def.name.as_bytes() == name)
}

impl Kind {
    /// The values that are allowed, as the end of a sentence.
    pub fn allowed(&self) -> String {
        match self {
            Kind::Bool => "true, false, on, off, 1 and 0".into(),
            Kind::Int { min, max: i32::MAX } => format!("integers from {min} up"),
            Kind::Int { min, max } => format!("integers from {min} to {max}"),
            Kind::Size { min, max } => format!(
                "sizes from {} to {}, with the units B, kB, MB and GB",
                size_text(*min),
                size_text(*max)
            ),
            Kind::Cost => "finite numbers greater than or equal to zero".into(),
            Kind::Choice(words) => match words.split_last() {
                Some((last, [])) => (*last).to_string(),
                Some((last, others)) => format!("{} and {last}", others.join(", ")),
                None => String::new(),
            },
            Kind::Name => "names that are not empty".into(),
            Kind::NameList => "lists of names separated by commas".into(),
            Kind::SessionSettings => "lists of name=value separated by commas; a value with commas, spaces or quotes stands in double quotes, inner ones doubled".into(),
            Kind::Libpq => "those of libpq".into(),
        }
    }
}

/// A size in the largest unit that shows it as an integer.
fn size_text(bytes: usize) -> String {
    for (factor, unit) in [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")] {
        if bytes >= factor && bytes % factor == 0 {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_stands_once() {
        for (position, def) in OPTIONS.iter().enumerate() {
            assert!(
                OPTIONS[..position]
                    .iter()
                    .all(|other| other.name != def.name),
                "{}",
                def.name
            );
            assert!(!def.contexts.is_empty() && !def.doc.contains('\n'));
        }
    }

    #[test]
    fn sizes_are_shown_in_their_largest_unit() {
        assert_eq!(size_text(1 << 10), "1kB");
        assert_eq!(size_text(256 << 20), "256MB");
        assert_eq!(size_text(1500), "1500B");
    }
}
