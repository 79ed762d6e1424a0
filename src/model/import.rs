//! Text of the commands that IMPORT FOREIGN SCHEMA runs.

use crate::model::option::ImportOptions;
use crate::model::sql::Sql;

/// When a generated column gets its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generated {
    /// When a row is written.
    Stored,
    /// When a row is read (18 and later).
    Virtual,
}

/// A column of a table on the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedColumn {
    pub name: Vec<u8>,
    /// As the shard prints it when only pg_catalog is in its search path.
    pub type_name: Vec<u8>,
    /// Schema and name, where it is not that of the type.
    pub collation: Option<(Vec<u8>, Vec<u8>)>,
    /// The expression of a default or a generated column.
    pub expression: Option<Vec<u8>>,
    pub generated: Option<Generated>,
    pub not_null: bool,
    /// Does the shard give the column a value of its own when an INSERT leaves it out?
    pub has_default: bool,
}

/// Where the foreign tables come from and what they can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import<'a> {
    /// Local name of the server.
    pub server: &'a [u8],
    /// Remote schema.
    pub schema: &'a [u8],
    pub options: ImportOptions,
    /// Can a foreign table have virtual generated columns here?
    pub has_virtual_columns: bool,
}

impl Import<'_> {
    /// `CREATE FOREIGN TABLE "table" (…) SERVER "server" OPTIONS (…)`.
    pub fn create_table(&self, table: &[u8], columns: &[ImportedColumn]) -> Sql {
        let mut sql = Sql::from("CREATE FOREIGN TABLE ");
        sql.push_ident(table)
            .push(" (")
            .push_list(", ", columns, |sql, column| self.push_column(sql, column))
            .push(") SERVER ")
            .push_ident(self.server)
            .push(" OPTIONS (schema_name ")
            .push_literal(self.schema)
            .push(", table_name ")
            .push_literal(table)
            .push(")");
        sql
    }

    fn push_column(&self, sql: &mut Sql, column: &ImportedColumn) {
        let generated = column
            .generated
            .filter(|_| self.options.import_generated)
            .zip(column.expression.as_ref());
        // A generated column that is imported as a plain one must be left out of INSERTs, too.
        let is_filled_there = self.options.import_remote_default
            && generated.is_none()
            && (column.has_default || column.generated.is_some());

        sql.push_ident(&column.name)
            .push(" ")
            .push_bytes(&column.type_name)
            .push(" OPTIONS (column_name ")
            .push_literal(&column.name);
        if is_filled_there {
            sql.push(", remote_default 'true'");
        }
        sql.push(")");
        if let Some((schema, name)) = &column.collation {
            if self.options.import_collate {
                sql.push(" COLLATE ").push_qualified(schema, name);
            }
        }
        if let Some((kind, expression)) = generated {
            sql.push(" GENERATED ALWAYS AS (")
                .push_bytes(expression)
                .push(match kind {
                    // The value is never sent, so that it makes no difference to the shard.
                    Generated::Virtual if self.has_virtual_columns => ") VIRTUAL",
                    _ => ") STORED",
                });
        } else if let Some(expression) = &column.expression {
            if self.options.import_default && column.generated.is_none() && !is_filled_there {
                sql.push(" DEFAULT ").push_bytes(expression);
            }
        }
        if column.not_null && self.options.import_not_null {
            sql.push(" NOT NULL");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: ImportOptions = ImportOptions {
        import_collate: true,
        import_default: false,
        import_generated: true,
        import_not_null: true,
        import_remote_default: false,
    };

    fn column(name: &str, type_name: &str) -> ImportedColumn {
        ImportedColumn {
            name: name.into(),
            type_name: type_name.into(),
            collation: None,
            expression: None,
            generated: None,
            not_null: false,
            has_default: false,
        }
    }

    fn import(options: ImportOptions) -> Import<'static> {
        Import {
            server: b"s",
            schema: b"r",
            options,
            has_virtual_columns: false,
        }
    }

    /// The column as the command defines it, less its name, type and `column_name`.
    fn definition(import: Import, column: ImportedColumn) -> String {
        let sql = import.create_table(b"t", &[column]).to_string();
        let start = sql.find("column_name 'c'").expect("the column's option") + 15;
        let end = sql.find(") SERVER").expect("the end of the columns");
        sql[start..end].into()
    }

    #[test]
    fn names_are_quoted() {
        let import = Import {
            server: b"S\"1",
            schema: b"it's",
            ..import(DEFAULTS)
        };
        assert_eq!(
            import
                .create_table(
                    b"back\\slash",
                    &[
                        column("A b", "character varying(10)"),
                        column("it's", "public.\"X\"[]")
                    ]
                )
                .to_string(),
            "CREATE FOREIGN TABLE \"back\\slash\" (\"A b\" character varying(10) OPTIONS (column_name 'A b'), \
             \"it's\" public.\"X\"[] OPTIONS (column_name 'it''s')) \
             SERVER \"S\"\"1\" OPTIONS (schema_name 'it''s', table_name E'back\\\\slash')"
        );
        assert_eq!(
            import.create_table(b"t", &[]).to_string(),
            "CREATE FOREIGN TABLE \"t\" () SERVER \"S\"\"1\" OPTIONS (schema_name 'it''s', table_name 't')"
        );
    }

    #[test]
    fn collations_and_not_null() {
        let given = ImportedColumn {
            collation: Some((b"pg_catalog".to_vec(), b"C".to_vec())),
            not_null: true,
            ..column("c", "text")
        };
        assert_eq!(
            definition(import(DEFAULTS), given.clone()),
            ") COLLATE \"pg_catalog\".\"C\" NOT NULL"
        );
        let neither = ImportOptions {
            import_collate: false,
            import_not_null: false,
            ..DEFAULTS
        };
        assert_eq!(definition(import(neither), given), ")");
    }

    #[test]
    fn defaults_are_taken_over_or_left_to_the_shard() {
        let given = ImportedColumn {
            expression: Some(b"now()".to_vec()),
            has_default: true,
            ..column("c", "timestamp with time zone")
        };
        let with = |import_default, import_remote_default| {
            import(ImportOptions {
                import_default,
                import_remote_default,
                ..DEFAULTS
            })
        };
        let definition = |default, remote| definition(with(default, remote), given.clone());
        assert_eq!(definition(false, false), ")");
        assert_eq!(definition(true, false), ") DEFAULT now()");
        assert_eq!(definition(false, true), ", remote_default 'true')");
        assert_eq!(definition(true, true), ", remote_default 'true')");
    }

    #[test]
    fn an_identity_column_has_no_expression() {
        let given = ImportedColumn {
            has_default: true,
            not_null: true,
            ..column("c", "bigint")
        };
        let options = ImportOptions {
            import_default: true,
            ..DEFAULTS
        };
        assert_eq!(definition(import(options), given.clone()), ") NOT NULL");
        let options = ImportOptions {
            import_remote_default: true,
            ..DEFAULTS
        };
        assert_eq!(
            definition(import(options), given),
            ", remote_default 'true') NOT NULL"
        );
    }

    #[test]
    fn generated_columns() {
        let given = |kind| ImportedColumn {
            expression: Some(b"(a * 2)".to_vec()),
            generated: Some(kind),
            ..column("c", "integer")
        };
        let (stored, virtual_one) = (given(Generated::Stored), given(Generated::Virtual));
        let new = Import {
            has_virtual_columns: true,
            ..import(DEFAULTS)
        };
        let as_stored = ") GENERATED ALWAYS AS ((a * 2)) STORED";
        assert_eq!(definition(import(DEFAULTS), stored.clone()), as_stored);
        assert_eq!(definition(new, stored.clone()), as_stored);
        assert_eq!(definition(import(DEFAULTS), virtual_one.clone()), as_stored);
        assert_eq!(
            definition(new, virtual_one),
            ") GENERATED ALWAYS AS ((a * 2)) VIRTUAL"
        );
        let without = ImportOptions {
            import_default: true,
            import_generated: false,
            ..DEFAULTS
        };
        assert_eq!(definition(import(without), stored.clone()), ")");
        let remote = ImportOptions {
            import_remote_default: true,
            ..without
        };
        assert_eq!(
            definition(import(remote), stored.clone()),
            ", remote_default 'true')"
        );
        let both = ImportOptions {
            import_remote_default: true,
            ..DEFAULTS
        };
        assert_eq!(definition(import(both), stored), as_stored);
    }
}
