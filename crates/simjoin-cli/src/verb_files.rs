//! The files that verbs read and write, and the statements that do so.

use std::path::Path;

use arrow::datatypes::Schema;
use simjoin_files as files;
use simjoin_session::errors::{self, SessionError};
use simjoin_session::verbs::{VerbTable, number_rows, quoted};

use super::exec::Shell;
use super::verb_args::VerbCommand;

impl VerbCommand {
    /// The files that it writes, each with what it has.
    pub(super) fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let result = self.run_args().output.as_deref().map(|file| ("result", file));
        let audit = match self {
            Self::Dedupe(args) => args.audit.as_deref().map(|file| ("dropped rows", file)),
            Self::Evaluate(args) => args.missed.as_deref().map(|file| ("missed pairs", file)),
            _ => None,
        };
        result.into_iter().chain(audit).collect()
    }

    /// Checks the names of these.
    ///
    /// # Errors
    ///
    /// When a name says no format, or both are one file.
    pub(super) fn check_outputs(&self) -> Result<(), SessionError> {
        let outputs = self.outputs();
        if let [(_, one), (_, other)] = outputs.as_slice()
            && one == other
        {
            return Err(SessionError::Usage(
                "two flags name one file, which would have the rows of the last one alone"
                    .to_string(),
            ));
        }
        let inputs = self.files().into_iter().chain(self.pair_files().into_iter().cloned());
        let inputs: Vec<_> = inputs.filter_map(|file| file.canonicalize().ok()).collect();
        for (what, file) in &outputs {
            let is_input = file.canonicalize().is_ok_and(|file| inputs.contains(&file));
            if is_input {
                return Err(SessionError::Usage(format!(
                    "{} is read, and would have the {what} in place of its rows: name another file",
                    file.display()
                )));
            }
        }
        if let Self::Report(args) = self {
            return check_page(args.run.output.as_deref());
        }
        outputs.iter().try_for_each(|(_, file)| check_format(file))
    }
}

/// A name for the table of a file: the stem of its name, which no other one has.
pub(super) fn table_name<'t>(file: &Path, others: impl Iterator<Item = &'t VerbTable>) -> String {
    let others: Vec<&str> = others.map(VerbTable::name).collect();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.filter(|stem| stem != "-").unwrap_or_else(|| "stdin".to_string());
    match others.contains(&stem.as_str()) {
        true => format!("{stem}_{}", others.len() + 1),
        false => stem,
    }
}

/// A file as SQL reads it, and its path.
pub(super) fn source_of(file: &Path) -> Result<(String, String), SessionError> {
    let path = match file == Path::new("-") {
        true => "/dev/stdin".to_string(),
        false => files::path_of_os(file)?.display().to_string(),
    };
    Ok((format!("'{}'", path.replace('\'', "''")), path))
}

/// A file of CSV whose values are texts.
pub(super) struct FileOfTexts {
    /// The name of its table.
    pub name: String,
    /// The statement that declares the table.
    pub declare: String,
}

/// The declaration of a file of CSV that tells rows by texts, as they are written: 1.10 is not 1.1. `None` of another
/// file.
pub(super) fn texts_of(name: &str, path: &str) -> Option<FileOfTexts> {
    let end = Path::new(path).extension()?.to_string_lossy().to_ascii_lowercase();
    if !["csv", "tsv"].contains(&end.as_str()) {
        return None;
    }
    let name = format!("__simjoin_file_{name}");
    let declare = format!(
        "CREATE EXTERNAL TABLE {} STORED AS CSV LOCATION '{}' OPTIONS ('format.schema_infer_max_rec' '0')",
        quoted(&name),
        path.replace('\'', "''")
    );
    Some(FileOfTexts { name, declare })
}

/// Reads a file into a table.
pub(super) async fn read(
    shell: &mut Shell,
    (name, source): (&str, &str),
    path: &str,
) -> Result<Schema, SessionError> {
    let name = quoted(name);
    run_beside(shell, &format!("CREATE TABLE {name} AS SELECT * FROM {source}")).await?;
    let table = shell.ctx.table(name.as_str()).await?;
    let schema = table.schema().as_arrow().clone();
    if !shell.options.quiet && table.limit(0, Some(1))?.count().await? == 0 {
        errors::tell(&format!("Warning: {path} has no rows"));
    }
    Ok(schema)
}

/// Puts folded texts, and the numbers of the rows, behind the columns of a table.
pub(super) async fn fold(
    shell: &mut Shell,
    table: &VerbTable,
    columns: &str,
) -> Result<(), SessionError> {
    if !columns.is_empty() {
        let name = quoted(table.name());
        let select = format!("CREATE TABLE {FOLDED} AS SELECT *{columns} FROM {name}");
        run_beside(shell, &select).await?;
        let folded = shell.ctx.deregister_table(FOLDED)?;
        shell.ctx.deregister_table(name.as_str())?;
        if let Some(folded) = folded {
            shell.ctx.register_table(name.as_str(), folded)?;
        }
    }
    number_rows(&shell.ctx, table.name()).await?;
    Ok(())
}

/// The table with folded texts, until it takes the place of the one without.
const FOLDED: &str = "__simjoin_folded";

/// The schema of a file.
pub(super) async fn schema_of(
    shell: &Shell,
    source: &str,
    path: &str,
) -> Result<Schema, SessionError> {
    if path == "/dev/stdin" {
        return Err(SessionError::Usage(
            "--explain reads the columns of the file, and standard input is read once: name a file"
                .to_string(),
        ));
    }
    let frame = shell.ctx.sql(&format!("SELECT * FROM {source}")).await?;
    Ok(frame.schema().as_arrow().clone())
}

/// Checks the name of a page.
fn check_page(file: Option<&Path>) -> Result<(), SessionError> {
    let end = file.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
    match (file, end.as_deref()) {
        (Some(_), Some("html" | "htm")) => Ok(()),
        (Some(file), _) => Err(SessionError::Usage(format!(
            "{}: a report is a page: name it .html; pairs are written as rows by simjoin pairs",
            file.display()
        ))),
        (None, _) => Err(SessionError::Usage("name the page to write: -o report.html".to_string())),
    }
}

/// Writes a text into a file, which stays as it was until all of it is there.
pub(super) fn write_text(text: &str, file: &Path) -> Result<(), SessionError> {
    // Of a link the file that it leads to.
    let target = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let file = target.as_path();
    let Some(name) = file.file_name() else {
        return Err(SessionError::Usage(format!("{} names no file", file.display())));
    };
    let aside =
        file.with_file_name(format!(".simjoin-{}-{}", std::process::id(), name.to_string_lossy()));
    let written = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, file));
    if written.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&aside);
    }
    written.map_err(|error| SessionError::Usage(format!("{}: {error}", file.display())))
}

/// Checks that a name says a format that can be written.
fn check_format(file: &Path) -> Result<(), SessionError> {
    let end = file.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    let has_format = end.is_some_and(|end| !["xlsx", "xls", "ods", "txt"].contains(&end.as_str()));
    match has_format || file.starts_with("/dev") {
        true => Ok(()),
        false => Err(SessionError::Usage(format!(
            "{}: the name says no format that can be written: name it .csv, .json, .parquet or .arrow",
            file.display()
        ))),
    }
}

/// A statement that writes the rows of a query into a file.
pub(super) fn copy(query: &str, file: &Path) -> Result<String, SessionError> {
    let path = files::path_of_os(file)?.display().to_string();
    Ok(format!("COPY ({query}) TO '{}'", path.replace('\'', "''")))
}

/// Writes the rows of a query into a file, which stays as it was until all of them are there.
pub(super) async fn write(shell: &mut Shell, query: &str, file: &Path) -> Result<(), SessionError> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_file = match file.symlink_metadata() {
        Ok(found) => found.is_file(),
        Err(_) => true,
    };
    let Some(name) = name.filter(|_| is_file) else {
        return run_beside(shell, &copy(query, file)?).await;
    };
    let aside = file.with_file_name(format!(".simjoin-{}-{name}", std::process::id()));
    let written = run_beside(shell, &copy(query, &aside)?).await;
    let moved = written.and_then(|()| std::fs::rename(&aside, file).map_err(SessionError::Io));
    if moved.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&aside);
    }
    moved
}

/// The statements that read files, whose rows are numbered in their order.
pub(super) fn in_order(loads: Vec<String>) -> Vec<String> {
    const PARTITIONS: &str = "datafusion.execution.target_partitions";
    let first = format!("SET {PARTITIONS} = 1");
    [first].into_iter().chain(loads).chain([format!("RESET {PARTITIONS}")]).collect()
}

/// Runs a statement without telling of its rows and its time.
pub(super) async fn run_beside(shell: &mut Shell, sql: &str) -> Result<(), SessionError> {
    let counts = std::mem::replace(&mut shell.options.counts, false);
    let ran = shell.run_sql(sql, 1).await;
    shell.options.counts = counts;
    reported(ran.map(drop), sql)
}

/// Prints the error of a statement with its hint.
pub(super) fn reported(ran: Result<(), SessionError>, sql: &str) -> Result<(), SessionError> {
    match ran {
        Err(error @ (SessionError::Sql(_) | SessionError::Usage(_) | SessionError::Io(_))) => {
            errors::print(&error, None, sql);
            Err(SessionError::Reported)
        }
        ran => ran,
    }
}
