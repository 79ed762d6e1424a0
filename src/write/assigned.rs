//! The expressions that an UPDATE assigns which a shard does whole, and the types of their columns there.

use crate::model::adjust::{adjusted, ByText, Check, Places};
use crate::model::error::{FdwError, Result};
use crate::model::insert::{checked_types, CheckedType, Form, Target as Column};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::catalog::{self, qualified_type};
use crate::pg::target::Target;
use crate::pg::typio;
use crate::remote::relation::{RemoteRelation, RemoteType};
use crate::remote::session::Session;
use crate::remote::statement::Param;
use crate::remote::tree::remote_relation;
use crate::write::columns::PLAIN_TYPES;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// May the shard make another value of what an expression with the type of the local column gives, or refuse what it takes as text
/// (an enum)?
pub fn depends_on_type(type_oid: Oid) -> bool {
    let is_text = [pg_sys::TEXTOID, pg_sys::VARCHAROID].contains(&type_oid);
    is_text || !PLAIN_TYPES.contains(&type_oid)
}

/// Adjusts the statement to the types of the columns on the shard, and returns the parameters that follow on its own ones, of which
/// there are `parameters`. `relid`: the foreign table; `root`: the relation that the statement names. May ask the shard.
pub fn fit(
    session: &Session,
    sql: &Sql,
    places: &Places,
    relid: Oid,
    root: Oid,
    parameters: usize,
) -> Result<(Sql, Vec<Param>)> {
    let target = Target::known(relid)?;
    let remote = remote_relation(session, &target, relid, root)?;
    let mut ways = Vec::with_capacity(places.assigned.len());
    let mut columns = Vec::with_capacity(places.assigned.len());
    for assigned in &places.assigned {
        let (way, column) = way(&target, &remote, assigned.attnum)?;
        ways.push(way);
        columns.push(column);
    }
    let check = Check {
        schema: &target.remote.schema,
        table: &target.remote.name,
        columns: &columns,
        parameters,
    };
    let sql = adjusted(sql, places, &ways, &check);
    let params = checked_types(&columns).map(Param::null).collect();
    Ok((sql, params))
}

/// How the value of an expression gets into the column, and the column with the type that it has to have still.
fn way(target: &Target, remote: &RemoteRelation, attnum: i16) -> Result<(Option<ByText>, Column)> {
    let columns = target
        .relation
        .column(attnum)
        .zip(target.remote.column(attnum));
    let (local, column) =
        columns.ok_or_else(|| FdwError::internal("an assigned column is unknown"))?;
    let remote_type = remote.columns.get(&column.name);
    let checked = |checked_type| Column {
        name: column.name.clone(),
        form: Form::Inferred,
        checked_type,
    };
    let Some(remote_type) = remote_type else {
        // There is no such column, or it is newer than the snapshot of the remote transaction.
        let is_built_in = local.type_oid.to_u32() < pg_sys::FirstGenbkiObjectId;
        let same = is_built_in.then(|| CheckedType::Itself(local.type_oid.to_u32()));
        return Ok((None, checked(same)));
    };
    let way = match has_same_type(local.type_oid, remote_type) {
        true => None,
        false if remote_type.has_own_text_cast || typio::time_zone_matters(local.type_oid) => {
            return Err(FdwError::unsupported(format!(
                "server \"{}\" cannot compute a value for column \"{}\" of foreign table \"{}\"",
                target.server.display_name(),
                text::from_bytes(&local.name),
                target.relation.display_name(),
            ))
            .with_detail(format!(
                "The column has the type {} here and {}.{} there.",
                text::from_bytes(&catalog::type_name(local.type_oid, -1)),
                text::from_bytes(&remote_type.schema),
                text::from_bytes(&remote_type.name),
            ))
            .with_hint("Give the column the same type on both sides."))
        }
        false => Some(ByText {
            output: catalog::output_function(local.type_oid),
            result: (remote_type.schema.clone(), remote_type.name.clone()),
        }),
    };
    Ok((way, checked(Some(remote_type.checked()))))
}

/// Is it the type of this name, of PostgreSQL's own or of an extension, or a domain over it?
fn has_same_type(local: Oid, remote: &RemoteType) -> bool {
    let (schema, name) = qualified_type(local);
    let is_built_in = local.to_u32() < pg_sys::FirstGenbkiObjectId;
    remote.name == name && (!is_built_in || remote.schema == schema)
}
