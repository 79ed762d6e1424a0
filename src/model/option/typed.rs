//! Options as run-time values. Defaults come from the table; a table's own value goes before its server's.

use super::parse::Value;
use super::place;
use super::settings::SessionSetting;
use super::table::{self, Context, Kind};
use super::validate::{invalid_value, validate};
use super::{GivenOption, LibpqOption};
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::text;

/// Isolation level of remote transactions (a local SERIALIZABLE is SERIALIZABLE with either).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    RepeatableRead,
    /// The level of the local transaction.
    Match,
}

/// How batches travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// As COPY once a stream of rows has shown itself long, where that means the same.
    Auto,
    Insert,
    Copy,
}

/// When rows have to be on the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Before the next row.
    Row,
    /// As `Row` for a statement that calls functions in procedural languages while it writes, else as `Statement`.
    Call,
    /// Before the statement ends.
    Statement,
    /// Before the transaction ends, or anybody could look.
    Transaction,
}

impl FlushPolicy {
    /// The option's value.
    pub fn name(self) -> &'static str {
        match self {
            FlushPolicy::Row => "row",
            FlushPolicy::Call => "call",
            FlushPolicy::Statement => "statement",
            FlushPolicy::Transaction => "transaction",
        }
    }
}

/// What an INSERT or COPY does with a row whose key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    Error,
    Nothing,
    Update,
}

/// How rows are written, and when a batch is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Rows, from 1 up.
    pub batch_size: usize,
    /// Bytes.
    pub batch_bytes: usize,
    pub transport: Transport,
    pub flush_policy: FlushPolicy,
}

/// Options of a server that do not depend on the table.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerOptions {
    pub isolation: Isolation,
    pub session_settings: Vec<SessionSetting>,
    /// Names of extensions whose functions and operators may be sent.
    pub extensions: Vec<Vec<u8>>,
    pub fdw_startup_cost: f64,
    pub fdw_tuple_cost: f64,
    pub keep_connections: bool,
    pub parallel_commit: bool,
    pub parallel_abort: bool,
    /// Keyword and value of each connection option.
    pub libpq: Vec<(String, Vec<u8>)>,
}

/// Options of a foreign table, with those of its server where it has none of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// None: as the foreign table's schema.
    pub schema_name: Option<Vec<u8>>,
    /// None: as the foreign table.
    pub table_name: Option<Vec<u8>>,
    pub updatable: bool,
    pub truncatable: bool,
    pub on_conflict: OnConflict,
    /// Rows, from 1 up.
    pub fetch_size: u32,
    pub write: WriteOptions,
}

/// Options of a column of a foreign table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnOptions {
    /// None: as the local column.
    pub column_name: Option<Vec<u8>>,
    pub remote_default: bool,
    /// Is the column one of those that together name a row of the remote table?
    pub key: bool,
}

/// Options of IMPORT FOREIGN SCHEMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    pub import_collate: bool,
    pub import_default: bool,
    pub import_generated: bool,
    pub import_not_null: bool,
    pub import_remote_default: bool,
}

/// Options of a user mapping. Debug output leaves the values of connection options out.
#[derive(Clone, PartialEq, Eq)]
pub struct MappingOptions {
    pub password_required: bool,
    /// Keyword and value of each connection option, secrets among them.
    pub libpq: Vec<(String, Vec<u8>)>,
}

impl std::fmt::Debug for MappingOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keywords: Vec<&str> = self
            .libpq
            .iter()
            .map(|(keyword, _)| keyword.as_str())
            .collect();
        f.debug_struct("MappingOptions")
            .field("password_required", &self.password_required)
            .field("libpq", &keywords)
            .finish()
    }
}

impl ServerOptions {
    pub fn new(server: &[GivenOption], libpq: &[LibpqOption]) -> Result<ServerOptions> {
        let source = Source::new(Context::Server, server);
        Ok(ServerOptions {
            isolation: match source.choice("isolation")? {
                "match" => Isolation::Match,
                _ => Isolation::RepeatableRead,
            },
            session_settings: source.settings("session_settings")?,
            extensions: source.names("extensions")?,
            fdw_startup_cost: source.cost("fdw_startup_cost")?,
            fdw_tuple_cost: source.cost("fdw_tuple_cost")?,
            keep_connections: source.boolean("keep_connections")?,
            parallel_commit: source.boolean("parallel_commit")?,
            parallel_abort: source.boolean("parallel_abort")?,
            libpq: of_libpq(Context::Server, server, libpq),
        })
    }
}

impl TableOptions {
    pub fn new(table: &[GivenOption], server: &[GivenOption]) -> Result<TableOptions> {
        let source = Source::new(Context::Table, table).over(Context::Server, server);
        Ok(TableOptions {
            schema_name: source.name("schema_name")?,
            table_name: source.name("table_name")?,
            updatable: source.boolean("updatable")?,
            truncatable: source.boolean("truncatable")?,
            on_conflict: match source.choice("on_conflict")? {
                "nothing" => OnConflict::Nothing,
                "update" => OnConflict::Update,
                _ => OnConflict::Error,
            },
            fetch_size: source.count("fetch_size")?,
            write: WriteOptions {
                batch_size: source.count("batch_size")? as usize,
                batch_bytes: source.size("batch_bytes")?,
                transport: match source.choice("transport")? {
                    "insert" => Transport::Insert,
                    "copy" => Transport::Copy,
                    _ => Transport::Auto,
                },
                flush_policy: match source.choice("flush_policy")? {
                    "row" => FlushPolicy::Row,
                    "call" => FlushPolicy::Call,
                    "transaction" => FlushPolicy::Transaction,
                    _ => FlushPolicy::Statement,
                },
            },
        })
    }
}

impl ColumnOptions {
    pub fn new(column: &[GivenOption]) -> Result<ColumnOptions> {
        let source = Source::new(Context::Column, column);
        Ok(ColumnOptions {
            column_name: source.name("column_name")?,
            remote_default: source.boolean("remote_default")?,
            key: source.boolean("key")?,
        })
    }
}

impl ImportOptions {
    /// Core hands these options over unchecked.
    pub fn new(command: &[GivenOption]) -> Result<ImportOptions> {
        for (position, (name, value)) in command.iter().enumerate() {
            validate(Context::Import, name, value, &[])?;
            if command[..position].iter().any(|(other, _)| other == name) {
                return Err(FdwError::local(
                    SqlState::DUPLICATE_OBJECT,
                    format!(
                        "option \"{}\" is given more than once",
                        text::from_bytes(name)
                    ),
                ));
            }
        }
        let source = Source::new(Context::Import, command);
        Ok(ImportOptions {
            import_collate: source.boolean("import_collate")?,
            import_default: source.boolean("import_default")?,
            import_generated: source.boolean("import_generated")?,
            import_not_null: source.boolean("import_not_null")?,
            import_remote_default: source.boolean("import_remote_default")?,
        })
    }
}

impl MappingOptions {
    pub fn new(mapping: &[GivenOption], libpq: &[LibpqOption]) -> Result<MappingOptions> {
        let source = Source::new(Context::UserMapping, mapping);
        Ok(MappingOptions {
            password_required: source.boolean("password_required")?,
            libpq: of_libpq(Context::UserMapping, mapping, libpq),
        })
    }

    /// The password, if the mapping has one that is not empty.
    pub fn password(&self) -> Option<&[u8]> {
        self.libpq
            .iter()
            .find(|(keyword, value)| keyword == "password" && !value.is_empty())
            .map(|(_, value)| value.as_slice())
    }
}

/// All connection options of a server and a user mapping, each keyword once; where both have one, the mapping's.
pub fn conninfo<'a>(
    server: &'a ServerOptions,
    mapping: &'a MappingOptions,
) -> Vec<(&'a str, &'a [u8])> {
    let is_mapped = |keyword: &str| mapping.libpq.iter().any(|(other, _)| other == keyword);
    server
        .libpq
        .iter()
        .filter(|(keyword, _)| !is_mapped(keyword))
        .chain(&mapping.libpq)
        .map(|(keyword, value)| (keyword.as_str(), value.as_slice()))
        .collect()
}

fn of_libpq(
    context: Context,
    given: &[GivenOption],
    libpq: &[LibpqOption],
) -> Vec<(String, Vec<u8>)> {
    libpq
        .iter()
        .filter(|option| place::is_libpq(context, option.keyword.as_bytes(), libpq))
        .filter_map(|option| {
            let (_, value) = given
                .iter()
                .find(|(name, _)| name == option.keyword.as_bytes())?;
            Some((option.keyword.clone(), value.clone()))
        })
        .collect()
}

/// Where values are looked for, in this order.
struct Source<'a>(Vec<(Context, &'a [GivenOption])>);

impl<'a> Source<'a> {
    fn new(context: Context, given: &'a [GivenOption]) -> Source<'a> {
        Source(vec![(context, given)])
    }

    fn over(mut self, context: Context, given: &'a [GivenOption]) -> Source<'a> {
        self.0.push((context, given));
        self
    }

    /// The value that counts; None if the option is not set and has no default.
    fn value(&self, name: &'static str) -> Result<Option<Value>> {
        let def = table::find(name.as_bytes())
            .ok_or_else(|| FdwError::internal(format!("option \"{name}\" is not in the table")))?;
        let set = self
            .0
            .iter()
            .filter(|(context, _)| def.contexts.contains(context))
            .find_map(|(_, given)| given.iter().find(|(set, _)| set == name.as_bytes()))
            .map(|(_, value)| value.as_slice());
        let text = match (set, def.default, def.kind) {
            (Some(text), ..) => text,
            (None, "", Kind::Name) => return Ok(None),
            (None, default, _) => default.as_bytes(),
        };
        match def.kind.parse(text) {
            Ok(value) => Ok(Some(value)),
            Err(refusal) => Err(invalid_value(def, text, refusal)),
        }
    }

    fn boolean(&self, name: &'static str) -> Result<bool> {
        match self.value(name)? {
            Some(Value::Bool(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }

    fn count(&self, name: &'static str) -> Result<u32> {
        match self.value(name)? {
            Some(Value::Int(value)) => u32::try_from(value).map_err(|_| wrong_kind(name)),
            _ => Err(wrong_kind(name)),
        }
    }

    fn size(&self, name: &'static str) -> Result<usize> {
        match self.value(name)? {
            Some(Value::Size(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }

    fn cost(&self, name: &'static str) -> Result<f64> {
        match self.value(name)? {
            Some(Value::Cost(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }

    fn choice(&self, name: &'static str) -> Result<&'static str> {
        match self.value(name)? {
            Some(Value::Choice(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }

    fn name(&self, name: &'static str) -> Result<Option<Vec<u8>>> {
        match self.value(name)? {
            Some(Value::Text(value)) => Ok(Some(value)),
            None => Ok(None),
            _ => Err(wrong_kind(name)),
        }
    }

    fn names(&self, name: &'static str) -> Result<Vec<Vec<u8>>> {
        match self.value(name)? {
            Some(Value::Names(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }

    fn settings(&self, name: &'static str) -> Result<Vec<SessionSetting>> {
        match self.value(name)? {
            Some(Value::Settings(value)) => Ok(value),
            _ => Err(wrong_kind(name)),
        }
    }
}

fn wrong_kind(name: &str) -> FdwError {
    FdwError::internal(format!("option \"{name}\" has another kind of value"))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, given};
    use super::*;

    #[test]
    fn defaults() {
        let server = ServerOptions::new(&[], &samples::libpq()).unwrap();
        assert_eq!(server.isolation, Isolation::RepeatableRead);
        assert!(server.session_settings.is_empty() && server.extensions.is_empty());
        assert_eq!(
            (server.fdw_startup_cost, server.fdw_tuple_cost),
            (100.0, 0.2)
        );
        assert!(server.keep_connections && server.parallel_commit && server.parallel_abort);
        assert!(server.libpq.is_empty());

        let table = TableOptions::new(&[], &[]).unwrap();
        assert_eq!((table.schema_name, table.table_name), (None, None));
        assert!(table.updatable && table.truncatable);
        assert_eq!(table.on_conflict, OnConflict::Error);
        assert_eq!(table.fetch_size, 100);
        assert_eq!(
            table.write,
            WriteOptions {
                batch_size: 1000,
                batch_bytes: 1 << 20,
                transport: Transport::Auto,
                flush_policy: FlushPolicy::Statement,
            }
        );

        let column = ColumnOptions::new(&[]).unwrap();
        assert_eq!(column.column_name, None);
        assert!(!column.remote_default && !column.key);

        let mapping = MappingOptions::new(&[], &samples::libpq()).unwrap();
        assert!(mapping.password_required && mapping.libpq.is_empty());
        assert_eq!(mapping.password(), None);
    }

    #[test]
    fn a_table_goes_before_its_server() {
        let server = given(&[
            ("batch_size", "7"),
            ("batch_bytes", "2kB"),
            ("fetch_size", "50"),
            ("updatable", "false"),
        ]);
        let table = given(&[
            ("batch_size", "2"),
            ("updatable", "on"),
            ("schema_name", "s"),
            ("on_conflict", "update"),
            ("table_name", "t"),
        ]);
        let options = TableOptions::new(&table, &server).unwrap();
        assert_eq!(options.write.batch_size, 2);
        assert_eq!(options.write.batch_bytes, 2048);
        assert_eq!(options.on_conflict, OnConflict::Update);
        assert_eq!(options.fetch_size, 50);
        assert!(options.updatable);
        assert_eq!(options.schema_name.as_deref(), Some(&b"s"[..]));
        assert_eq!(options.table_name.as_deref(), Some(&b"t"[..]));
    }

    #[test]
    fn connection_options_are_merged_for_libpq() {
        let libpq = samples::libpq();
        let server = ServerOptions::new(
            &given(&[
                ("host", "h"),
                ("sslcert", "of the server"),
                ("batch_size", "3"),
                ("user", "not here"),
            ]),
            &libpq,
        )
        .unwrap();
        let mapping = MappingOptions::new(
            &given(&[
                ("user", "u"),
                ("password", "hush"),
                ("sslcert", "of the mapping"),
                ("password_required", "false"),
                ("host", "not here"),
            ]),
            &libpq,
        )
        .unwrap();
        let mut options = conninfo(&server, &mapping);
        options.sort();
        assert_eq!(
            options,
            [
                ("host", &b"h"[..]),
                ("password", b"hush"),
                ("sslcert", b"of the mapping"),
                ("user", b"u"),
            ]
        );
        assert!(!mapping.password_required);
        assert_eq!(mapping.password(), Some(&b"hush"[..]));
        assert!(!format!("{mapping:?}").contains("hush"));
    }

    #[test]
    fn other_values_are_read() {
        let server = ServerOptions::new(
            &given(&[
                ("isolation", "match"),
                ("extensions", "cube, \"My Ext\""),
                ("session_settings", "jit=off"),
                ("keep_connections", "off"),
                ("fdw_tuple_cost", "1.5"),
            ]),
            &samples::libpq(),
        )
        .unwrap();
        assert_eq!(server.isolation, Isolation::Match);
        assert_eq!(server.extensions, [b"cube".to_vec(), b"My Ext".to_vec()]);
        assert_eq!(server.session_settings[0].name, b"jit");
        assert!(!server.keep_connections);
        assert_eq!(server.fdw_tuple_cost, 1.5);

        let column =
            ColumnOptions::new(&given(&[("column_name", "c"), ("remote_default", "true")]))
                .unwrap();
        assert_eq!(column.column_name.as_deref(), Some(&b"c"[..]));
        assert!(column.remote_default && !column.key);
        let column = ColumnOptions::new(&given(&[("key", "on")])).unwrap();
        assert!(column.key && !column.remote_default);
    }

    #[test]
    fn options_of_an_import() {
        let options = ImportOptions::new(&[]).unwrap();
        assert!(options.import_collate && options.import_generated && options.import_not_null);
        assert!(!options.import_default && !options.import_remote_default);
        let options = ImportOptions::new(&given(&[
            ("import_default", "on"),
            ("import_not_null", "0"),
            ("import_remote_default", "true"),
        ]))
        .unwrap();
        assert!(options.import_default && options.import_remote_default);
        assert!(!options.import_not_null);
        let error = |options: &[(&str, &str)]| {
            let diag = ImportOptions::new(&given(options)).unwrap_err().diag();
            let hint = String::from_utf8(diag.hint.unwrap_or_default()).unwrap();
            (diag.sqlstate.unwrap().to_string(), hint)
        };
        let (code, hint) = error(&[("import_defaults", "true")]);
        assert_eq!(code, "HV00D");
        assert_eq!(hint, "Perhaps you meant the option \"import_default\".");
        let (code, hint) = error(&[("import_collate", "perhaps")]);
        assert_eq!(code, "22023");
        assert_eq!(hint, "Valid values are true, false, on, off, 1 and 0.");
        let (code, hint) = error(&[("batch_size", "1")]);
        assert_eq!(code, "HV00D");
        assert_eq!(
            hint,
            "The option can be set for a server or a foreign table."
        );
        let twice = [("import_collate", "true"), ("import_collate", "true")];
        assert_eq!(error(&twice).0, "42710");
    }

    #[test]
    fn a_value_that_was_stored_unchecked_is_an_error() {
        let error = TableOptions::new(&given(&[("batch_size", "many")]), &[]).unwrap_err();
        assert_eq!(error.sqlstate().to_string(), "22023");
    }
}
