//! Does the shard change every row that an UPDATE or DELETE names by its place? Asked when it has changed fewer.

use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::remote::relation::question_for;
use crate::remote::session::Session;
use crate::remote::statement::{Param, Statement};
use pgrx::pg_sys::Oid;
use std::ffi::CString;
use std::rc::Rc;

/// Whether nothing on the shard can leave out a row, or change it while others of the statement are changed: the table and all below it
/// are tables of the shard itself, without triggers and rules for the event, and without row security; and no foreign key's action
/// comes back to them, or comes to a table with triggers. An UPDATE that moves a row to another partition fires other triggers as well.
/// `tgtype`: INSERT (4), DELETE (8), UPDATE (16), as `catalog/pg_trigger.h` has it.
const QUESTION: &str = "\
WITH RECURSIVE tree AS (
  SELECT c.oid, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2
  UNION SELECT k.oid, k.relkind FROM tree
    JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid JOIN pg_catalog.pg_class k ON k.oid = i.inhrelid),
followed AS (
  SELECT f.conrelid FROM tree JOIN pg_catalog.pg_constraint f ON f.contype = 'f' AND f.confrelid = tree.oid
    WHERE CASE WHEN $3::pg_catalog.bool THEN f.confupdtype ELSE f.confdeltype END IN ('c', 'n', 'd')
  UNION SELECT f.conrelid FROM followed
    JOIN pg_catalog.pg_constraint f ON f.contype = 'f' AND f.confrelid = followed.conrelid
    WHERE f.confupdtype IN ('c', 'n', 'd') OR f.confdeltype IN ('c', 'n', 'd'))
SELECT EXISTS (SELECT FROM tree)
  AND NOT EXISTS (SELECT FROM tree WHERE tree.relkind NOT IN ('r', 'p') OR pg_catalog.row_security_active(tree.oid)
    OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
      WHERE g.tgrelid = tree.oid AND g.tgenabled <> 'D' AND NOT g.tgisinternal
        AND g.tgtype & CASE WHEN NOT $3::pg_catalog.bool THEN 8
          WHEN EXISTS (SELECT FROM tree p WHERE p.relkind = 'p') THEN 28 ELSE 16 END <> 0)
    OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r
      WHERE r.ev_class = tree.oid AND r.ev_enabled <> 'D'
        AND r.ev_type = CASE WHEN $3::pg_catalog.bool THEN '2' ELSE '4' END))
  AND NOT EXISTS (SELECT FROM followed WHERE followed.conrelid IN (SELECT oid FROM tree)
    OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
      WHERE g.tgrelid = followed.conrelid AND g.tgenabled <> 'D' AND NOT g.tgisinternal))";

impl Session {
    /// Does an UPDATE (else a DELETE) of rows of the remote table that are there change each of them? Asks the shard.
    pub fn changes_every_row(
        &self,
        relid: Oid,
        table: &RemoteTable,
        is_update: bool,
    ) -> Result<bool> {
        let text = |text: &[u8]| Param::text(CString::new(text).ok());
        let answer = self.execute_beside(&Statement {
            sql: Rc::new(Sql::from(QUESTION)),
            params: vec![
                text(&table.schema),
                text(&table.name),
                text(if is_update { b"t" } else { b"f" }),
            ],
            written_by: None,
            subject: question_for(Some(relid)),
        })?;
        Ok(answer.value(0, 0) == Some(b"t"))
    }
}
