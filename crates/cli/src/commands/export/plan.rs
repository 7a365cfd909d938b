//! Which flat tables are asked for, and where they go.

use crate::arguments::export::ExportTablesArguments;
#[cfg(feature = "tables")]
use crate::arguments::export::TableFormat;
use crate::arguments::is_standard;
#[cfg(feature = "tables")]
use crate::export::database::{self, DatabaseTables};
use crate::export::flat::Form;
use crate::export::manifest::{Description, Manifest, NAME};
use crate::export::partitions::{Existing, FolderTable};
use crate::failure::Failure;
use blockmill_block::Network;
use blockmill_tables::product::ProductKind;
use std::path::PathBuf;

/// A table that is asked for.
pub(super) struct PlannedTable {
    pub(super) kind: ProductKind,
    pub(super) form: Form,
    /// Its file, or the folder of its partitions.
    pub(super) out: PathBuf,
}

/// How tables are laid out.
enum Layout {
    /// Each in a file.
    Files,
    /// Each in a folder, in partitions of so many blocks.
    Folders { size: u32, existing: Existing },
    /// All in one database, which goes on.
    #[cfg(feature = "tables")]
    Database { is_there: bool },
}

/// The tables that are asked for.
pub(super) struct Plan {
    /// Height of the first block.
    pub(super) from: u32,
    pub(super) tables: Vec<PlannedTable>,
    layout: Layout,
}

/// Refuses what is no folder.
fn check_folder(arguments: &ExportTablesArguments, option: &str) -> Result<(), Failure> {
    match is_standard(&arguments.pass.out) {
        true => Err(Failure::Usage(format!(
            "{option} needs a folder: standard output is one table"
        ))),
        false => Ok(()),
    }
}

/// The tables, each once.
fn kinds(kind: ProductKind, arguments: &ExportTablesArguments) -> Vec<ProductKind> {
    let mut kinds: Vec<ProductKind> = Vec::new();
    for &kind in std::iter::once(&kind).chain(&arguments.and) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The form of a database that goes on, if that is asked for.
#[cfg(feature = "tables")]
fn form_of_database(arguments: &ExportTablesArguments) -> Option<Form> {
    let out = &arguments.pass.out;
    if !arguments.append || arguments.partition.is_some() || is_standard(out) || out.is_dir() {
        return None;
    }
    let form = Form::of_file(out, &arguments.form);
    // What is none needs --partition, which is said.
    form.ok().filter(|form| form.format == TableFormat::Sqlite)
}

impl Plan {
    pub(super) fn new(kind: ProductKind, arguments: &ExportTablesArguments) -> Result<Self, Failure> {
        let kinds = kinds(kind, arguments);
        #[cfg(feature = "tables")]
        if let Some(form) = form_of_database(arguments) {
            return Self::of_database(&kinds, form, arguments);
        }
        match arguments.append || arguments.partition.is_some() {
            true => Self::of_folders(kinds, arguments),
            false => Self::of_files(kinds, arguments),
        }
    }

    fn of_files(kinds: Vec<ProductKind>, arguments: &ExportTablesArguments) -> Result<Self, Failure> {
        let out = &arguments.pass.out;
        let with_tables = |tables| Self {
            from: arguments.pass.from.unwrap_or(0),
            tables,
            layout: Layout::Files,
        };
        if arguments.and.is_empty() {
            let form = Form::of_file(out, &arguments.form)?;
            let table = |kind| PlannedTable {
                kind,
                form,
                out: out.clone(),
            };
            return Ok(with_tables(kinds.into_iter().map(table).collect()));
        }
        let Some(format) = arguments.form.format else {
            return Err(Failure::Usage("--and needs --format: --out is a folder".to_owned()));
        };
        check_folder(arguments, "--and")?;
        let form = Form::new(format, arguments.form.ids())?;
        let table = |kind: ProductKind| PlannedTable {
            kind,
            form,
            out: out.join(format!("{}.{}", kind.table().name, form.ending())),
        };
        let plan = with_tables(kinds.into_iter().map(table).collect());
        let usage = |error| Failure::Usage(format!("--out {}: {error}", out.display()));
        std::fs::create_dir_all(out).map_err(usage)?;
        Ok(plan)
    }

    fn of_folders(kinds: Vec<ProductKind>, arguments: &ExportTablesArguments) -> Result<Self, Failure> {
        let option = if arguments.append { "--append" } else { "--partition" };
        check_folder(arguments, option)?;
        let out = &arguments.pass.out;
        let folder = |kind: &ProductKind| match arguments.and.is_empty() {
            true => out.clone(),
            false => out.join(kind.table().name),
        };
        let mut known = None;
        if arguments.append {
            for kind in &kinds {
                known = known.or(Manifest::read(&folder(kind))?);
            }
        }
        let known = known.as_ref().map(Manifest::defaults);
        let Some(size) = arguments.partition.or(known.and_then(|(_, size, _)| size)) else {
            return Err(Failure::Usage(format!(
                "{}: --append needs --partition, or --format sqlite, or a folder that has a table in partitions already: \
                 there is no {NAME}",
                out.display()
            )));
        };
        let Some(format) = arguments.form.format.or(known.and_then(|(format, ..)| format)) else {
            return Err(Failure::Usage(
                "--partition needs --format: --out is a folder".to_owned(),
            ));
        };
        let form = Form::new(format, arguments.form.ids())?;
        let existing = match (arguments.append, arguments.pass.force.is_given()) {
            (true, _) => Existing::Append,
            (false, true) => Existing::Replace,
            (false, false) => Existing::Refuse,
        };
        let table = |kind: ProductKind| PlannedTable {
            kind,
            form,
            out: folder(&kind),
        };
        let plan = Self {
            from: arguments.pass.from.or(known.map(|(.., from)| from)).unwrap_or(0),
            tables: kinds.into_iter().map(table).collect(),
            layout: Layout::Folders { size, existing },
        };
        // What is refused is refused before blocks are read.
        for table in plan.folder_tables(None).into_iter().flatten() {
            table.read()?;
        }
        Ok(plan)
    }

    #[cfg(feature = "tables")]
    fn of_database(kinds: &[ProductKind], form: Form, arguments: &ExportTablesArguments) -> Result<Self, Failure> {
        let out = &arguments.pass.out;
        let known = database::first_height(out)?;
        let table = |kind: &ProductKind| PlannedTable {
            kind: *kind,
            form,
            out: out.clone(),
        };
        let plan = Self {
            from: arguments.pass.from.or(known).unwrap_or(0),
            tables: kinds.iter().map(table).collect(),
            layout: Layout::Database {
                is_there: known.is_some(),
            },
        };
        // What is refused is refused before blocks are read.
        if let Some(database) = plan.database(None) {
            database.check()?;
        }
        Ok(plan)
    }

    /// What is said if a signal ends the pass early.
    pub(super) fn stopped(&self) -> fn(PathBuf) -> Failure {
        match self.layout {
            Layout::Folders { .. } => Failure::StoppedBetween,
            #[cfg(feature = "tables")]
            Layout::Database { is_there: true } => Failure::StoppedAppend,
            _ => Failure::Stopped,
        }
    }

    /// The tables of a database, in order, if all are in one. The network is known once blocks are.
    #[cfg(feature = "tables")]
    pub(super) fn database(&self, network: Option<Network>) -> Option<DatabaseTables<'_>> {
        let PlannedTable { form, out, .. } = self.tables.first()?;
        let table = |planned: &PlannedTable| {
            let table = planned.kind.table();
            (table, Description::new(table, planned.form, network, None, self.from))
        };
        matches!(self.layout, Layout::Database { .. }).then(|| DatabaseTables {
            path: out,
            ids: form.ids,
            tables: self.tables.iter().map(table).collect(),
        })
    }

    /// The tables of folders, in order, unless each is to be a file. The network is known once
    /// blocks are.
    pub(super) fn folder_tables(&self, network: Option<Network>) -> Option<Vec<FolderTable>> {
        let Layout::Folders { size, existing } = self.layout else {
            return None;
        };
        let table = |planned: &PlannedTable| {
            let (table, form) = (planned.kind.table(), planned.form);
            FolderTable {
                folder: planned.out.clone(),
                table,
                form,
                description: Description::new(table, form, network, Some(size), self.from),
                existing,
            }
        };
        Some(self.tables.iter().map(table).collect())
    }
}
