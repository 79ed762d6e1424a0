//! Names of relations as written in SQL.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::pg::catalog;
use crate::pg::raise::bytes;
use pgrx::pg_sys;

/// The schema of a name that has none. No search path plays a part, neither here nor on a shard.
const USUAL_SCHEMA: &[u8] = b"public";

/// The parts of a name, folded and unquoted as in SQL. Core's error (42602) if it is none.
pub fn parts(name: &[u8]) -> Result<Vec<Vec<u8>>> {
    let text = catalog::c_string(name)?;
    // SAFETY: the text is NUL-terminated and copied; the list is palloc'd, and so are the strings in it.
    unsafe {
        let list = pg_sys::textToQualifiedNameList(pg_sys::cstring_to_text(text.as_ptr()));
        Ok(catalog::nodes(list)
            .into_iter()
            .map(|node| bytes((*node.cast::<pg_sys::String>()).sval))
            .collect())
    }
}

/// Schema and name of a relation in the form that all its spellings have in common: `"schema"."name"`.
pub fn qualified(name: &[u8]) -> Result<Sql> {
    let parts = parts(name)?;
    let mut sql = Sql::new();
    match parts.as_slice() {
        [name] => sql.push_qualified(USUAL_SCHEMA, name),
        [schema, name] => sql.push_qualified(schema, name),
        _ => {
            return Err(FdwError::local(
                SqlState::SYNTAX_ERROR,
                "improper qualified name (too many dotted names)",
            ))
        }
    };
    Ok(sql)
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::pg_test;

    #[pg_test]
    fn spellings_of_a_name_have_one_form() {
        for name in [
            "ids",
            "IDs",
            "public.ids",
            " \"public\" . \"ids\" ",
            "PUBLIC.\"ids\"",
        ] {
            let form = qualified(name.as_bytes()).expect("a name");
            assert_eq!(form.as_bytes(), b"\"public\".\"ids\"", "{name}");
        }
        let odd = qualified(b"\"My schema\".\"a\"\".b\"").expect("a name");
        assert_eq!(odd.as_bytes(), b"\"My schema\".\"a\"\".b\"");
        let three = qualified(b"a.b.c").expect_err("too long");
        assert_eq!(three.sqlstate(), SqlState::SYNTAX_ERROR);
    }

    #[pg_test(error = "invalid name syntax")]
    fn what_is_no_name_is_refused() {
        let _ = qualified(b"a..b");
    }
}
