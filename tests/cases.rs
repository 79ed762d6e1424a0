//! Situations in which writers through foreign tables have been hurt elsewhere. The numbers are those of the collection
//! of such reports that this project was started with.

#[path = "cases/columns.rs"]
mod columns;
#[path = "cases/commit.rs"]
mod commit;
mod common;
#[path = "cases/limits.rs"]
mod limits;
#[path = "cases/rows.rs"]
mod rows;
#[path = "cases/site.rs"]
mod site;
#[path = "cases/triggers.rs"]
mod triggers;
