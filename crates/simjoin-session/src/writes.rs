//! Checks statements that write files before they run: for columns that a reader could not find
//! again, types that the format does not have, and folders that refuse new files.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::physical_plan::FileOutputMode;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::dml::{CopyTo, WriteOp};
use datafusion::logical_expr::{DmlStatement, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use simjoin_files as files;

/// The statement with the destination of its COPY as it is meant: names are never patterns, `~` is
/// the home directory, and a pipe takes all rows as they come.
pub fn with_destination(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|plan| match plan {
        LogicalPlan::Copy(copy) => {
            Ok(Transformed::new(LogicalPlan::Copy(destined(copy)?), true, TreeNodeRecursion::Stop))
        }
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Ok(Transformed::no(plan)),
        plan => Ok(Transformed::new(plan, false, TreeNodeRecursion::Stop)),
    })
    .data()
}

fn destined(mut copy: CopyTo) -> Result<CopyTo> {
    if let Some((format, delimiter)) = files::renamed(&copy.file_type) {
        copy.file_type = format;
        if let Some(delimiter) = delimiter {
            let given = copy.options.entry("format.delimiter".to_string());
            given.or_insert_with(|| delimiter.to_string());
        }
    }
    let path = files::path_of(&copy.output_url)?;
    if files::is_written_directly(&path) {
        if !copy.partition_by.is_empty() {
            return plan_err!(
                "{} takes one file, and PARTITIONED BY makes several",
                path.display()
            );
        }
        copy.options.insert(SINGLE_FILE.to_string(), "true".to_string());
    }
    copy.output_url = files::to_write(&copy.output_url)?;
    Ok(copy)
}

/// The option of COPY by which its destination is one file, whatever its name.
const SINGLE_FILE: &str = "single_file_output";

/// A COPY into a pipe or a device.
pub struct ToPipe {
    /// The pipe or the device.
    pub path: PathBuf,
    /// The rows.
    pub input: LogicalPlan,
    /// A pipe gets Arrow as a stream: readers of files look for the end first.
    pub is_arrow: bool,
}

/// The pipe or device that a COPY writes into.
pub fn pipe(plan: &LogicalPlan) -> Option<ToPipe> {
    let LogicalPlan::Copy(copy) = plan else { return None };
    let path = local(&ListingTableUrl::parse(&copy.output_url).ok()?, true)?;
    let is_arrow = copy.file_type.get_ext() == "arrow";
    let input = copy.input.as_ref().clone();
    files::is_written_directly(&path).then_some(ToPipe { path, input, is_arrow })
}

/// Refuses a plan that other machines would write into pipes of theirs.
pub fn check_pipe(path: &Path, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    match writes_here(plan) {
        true => Ok(()),
        false => plan_err!(
            "the machines of the cluster would write into a {} of their own; print the result with \
             --format csv, or copy to a file",
            path.display()
        ),
    }
}

/// Refuses a COPY whose columns a file cannot hold.
pub fn check_columns(plan: &LogicalPlan) -> Result<()> {
    find_copy(plan, |copy| {
        let schema = copy.input.schema();
        distinct_names(schema)?;
        match copy.file_type.get_ext().as_str() {
            "csv" => no_lists(schema, &copy.partition_by),
            _ => Ok(()),
        }
    })
}

/// Calls `found` with the COPY that the plan is, or explains or analyzes.
fn find_copy(plan: &LogicalPlan, mut found: impl FnMut(&CopyTo) -> Result<()>) -> Result<()> {
    plan.apply(|plan| {
        if let LogicalPlan::Copy(copy) = plan {
            found(copy)?;
        }
        Ok(match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => TreeNodeRecursion::Continue,
            _ => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(())
}

/// Readers find columns by name: of two with one name they would find one.
fn distinct_names(schema: &DFSchema) -> Result<()> {
    let columns = schema.columns();
    for (index, column) in columns.iter().enumerate() {
        let Some(first) = columns[..index].iter().find(|c| c.name == column.name) else { continue };
        let renamed = |column: &Column, other: &str| match &column.relation {
            Some(relation) => format!("{} AS {}_{}", column, relation.table(), column.name),
            None => format!("… AS {}_{other}", column.name),
        };
        return plan_err!(
            "COPY would write two columns with the name {}, and one of them could not be read \
             again; give them names of their own, such as {}, {}",
            column.name,
            renamed(first, "1"),
            renamed(column, "2")
        );
    }
    Ok(())
}

fn no_lists(schema: &DFSchema, partition_by: &[String]) -> Result<()> {
    let nested = schema.fields().iter().find(|field| {
        field.data_type().is_nested() && !partition_by.iter().any(|name| name == field.name())
    });
    let Some(field) = nested else { return Ok(()) };
    let name = field.name();
    let (kind, cure) = match field.data_type() {
        DataType::Struct(_) => ("a struct", format!("write its fields, as in {name}['field']")),
        DataType::Map(_, _) => ("a map", format!("write map_keys({name}) or map_values({name})")),
        _ => ("a list", format!("write array_to_string({name}, ' ') AS {name}")),
    };
    plan_err!(
        "CSV has no place for column {name}, which is {kind} ({}); {cure}, or copy to Parquet or \
         JSON",
        field.data_type()
    )
}

/// The local file that a plan writes, or would write beside others.
pub fn destination(plan: &LogicalPlan) -> Result<Option<PathBuf>> {
    let mut file = None;
    find_copy(plan, |copy| {
        let url = ListingTableUrl::parse(&copy.output_url)?;
        let mode = match copy.options.get(SINGLE_FILE).map(String::as_str) {
            Some("true") => FileOutputMode::SingleFile,
            Some("false") => FileOutputMode::Directory,
            _ => FileOutputMode::Automatic,
        };
        let is_file = mode.single_file_output(&url) && copy.partition_by.is_empty();
        file = local(&url, is_file).filter(|file| !files::is_written_directly(file));
        Ok(())
    })?;
    if let LogicalPlan::Dml(DmlStatement { target, op: WriteOp::Insert(_), .. }) = plan
        && let Ok(provider) = source_as_provider(target)
        && let Some(table) = provider.downcast_ref::<ListingTable>()
        && let Some(url) = table.table_paths().first()
        && url.is_collection()
    {
        file = local(url, false);
    }
    Ok(file)
}

/// The path of a local file, or of some file in a local folder.
fn local(url: &ListingTableUrl, is_file: bool) -> Option<PathBuf> {
    if url.scheme() != "file" {
        return None;
    }
    let root = if cfg!(windows) { "" } else { "/" };
    let path = PathBuf::from(format!("{root}{}", url.prefix()));
    Some(if is_file { path } else { path.join("part") })
}

/// Refuses a plan that writes a local file where none can be created: the object store would try
/// that again and again.
pub fn check_destination(file: &Path, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    // On a cluster, other machines write.
    match writes_here(plan) {
        true => try_file(file),
        false => Ok(()),
    }
}

fn writes_here(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DataSinkExec>() || plan.children().into_iter().any(writes_here)
}

/// Creates a file beside that one, with the folders that lead there, as the object store does, and
/// removes it.
fn try_file(file: &Path) -> Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!("#probe{}", std::process::id()));
    let probe = Path::new(&name);
    let folder = probe.parent().unwrap_or(Path::new("/"));
    let created = std::fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).open(probe));
    match created {
        Ok(_) => {
            let _ = std::fs::remove_file(probe);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && probe.exists() => Ok(()),
        Err(error) => {
            plan_err!("no file can be created in {}: {error}", folder.display())
        }
    }
}
