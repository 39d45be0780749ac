//! Verbs from the command line: a file in, its statements, a result out.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type, Schema};
use datafusion::prelude::ident;
use simjoin_files as files;
use simjoin_session::errors::{self, SessionError};
use simjoin_session::verbs::{
    AtThreshold, Direction, Evaluation, FOUND, How, JUDGED, Question, ROW, Verb, VerbError,
    VerbTable, names, number_rows, quoted, suggestion,
};

use super::exec::Shell;
use super::output::Stdout;
use super::output::print_line;
use super::verb_args::{QuestionArgs, RunArgs, VerbCommand};

/// Runs a verb, or prints its statements.
pub(super) async fn run(shell: &mut Shell, command: &VerbCommand) -> Result<(), SessionError> {
    let question = match command.question() {
        Some(args) => question_of(args)?,
        None => Question::default(),
    };
    let id = command.pair().and_then(|pair| pair.id.as_deref());
    let id = id.map(|id| Question::parse(&[id.to_string()], None, None, &[]));
    let id = id.transpose().or_else(refuse)?.and_then(|mut id| id.on.pop());
    let id = id.map(|id| [id.left, id.right]);
    let files = command.files();
    let mut tables = vec![];
    let mut loads = vec![];
    for (side, file) in files.iter().enumerate() {
        let name = table_name(file, &tables);
        let (source, path) = source_of(file)?;
        let schema = match command.run_args().explain {
            true => schema_of(shell, &source, &path).await?,
            false => read(shell, (&name, &source), &path).await?,
        };
        let table = VerbTable::new(name, &schema);
        let folded = table.folded(&question, side).or_else(refuse)?;
        let columns: String = folded.iter().map(|column| format!(", {column}")).collect();
        loads.push(format!(
            "CREATE TABLE {} AS SELECT row_number() OVER () AS {ROW}, *{columns} FROM {source}",
            quoted(table.name())
        ));
        if !command.run_args().explain {
            fold(shell, &table, &columns).await?;
        }
        tables.push(table);
    }
    let [first, .., last] = tables.as_slice() else {
        return run_verb(shell, command, (&question, &id), [&tables[0], &tables[0]], loads).await;
    };
    run_verb(shell, command, (&question, &id), [first, last], loads).await
}

/// The question that arguments ask.
fn question_of(args: &QuestionArgs) -> Result<Question, SessionError> {
    let QuestionArgs { on, measure, tokenizer, key, at_least, at_most, fold } = args;
    let question = Question::parse(on, measure.as_deref(), tokenizer.as_deref(), key);
    let question = question.or_else(refuse)?;
    Ok(Question { at_least: *at_least, at_most: *at_most, fold: fold.clone(), ..question })
}

/// Holds links against true pairs.
async fn evaluate(
    shell: &mut Shell,
    [links, truth]: [&VerbTable; 2],
    is_unordered: bool,
    run: &RunArgs,
    loads: Vec<String>,
) -> Result<(), SessionError> {
    let evaluation = Evaluation { links, truth, is_unordered };
    let statements = evaluation.judge().or_else(refuse)?;
    if run.explain {
        let all = in_order(loads).into_iter().chain(statements).chain([Evaluation::told(&[])]);
        return print_line(Stdout, &all.map(|sql| format!("{sql};\n")).collect::<String>());
    }
    for sql in &statements {
        run_beside(shell, sql).await?;
    }
    let mut thresholds = vec![];
    if evaluation.has_scores() {
        let ends = format!("SELECT min(score), max(score) FROM {JUDGED}");
        let ends = shell.ctx.sql(&ends).await?.collect().await?;
        let end = |column: usize| {
            let column = ends.first()?.column(column).as_primitive_opt::<Float64Type>()?;
            column.iter().next().flatten()
        };
        if let (Some(least), Some(greatest)) = (end(0), end(1)) {
            thresholds = Evaluation::thresholds(least, greatest);
        }
    }
    let answer = Evaluation::told(&thresholds);
    match &run.output {
        Some(file) => write(shell, &answer, file).await,
        None => run_told(shell, &answer).await,
    }
}

async fn run_verb(
    shell: &mut Shell,
    command: &VerbCommand,
    (question, id): (&Question, &Option<[String; 2]>),
    tables: [&VerbTable; 2],
    loads: Vec<String>,
) -> Result<(), SessionError> {
    let show = command.pair().and_then(|pair| pair.show.as_deref()).map(names);
    let show = show.transpose().or_else(refuse)?;
    let verb = Verb { question, tables, id: id.as_ref(), show: show.as_deref() };
    let run = command.run_args();
    if let VerbCommand::Evaluate(args) = command {
        return evaluate(shell, tables, args.unordered, run, loads).await;
    }
    let mut statements = if run.explain { in_order(loads) } else { vec![] };
    let mut audit = None;
    let answer = match command {
        VerbCommand::Pairs(_) => verb.pairs(),
        VerbCommand::Clusters(args) => verb.clusters(args.grouped),
        VerbCommand::Link(args) => verb.link(args.how.into()),
        VerbCommand::Match(_) => verb.matched(),
        VerbCommand::Evaluate(_) => return Ok(()),
        VerbCommand::Nearest(args) => {
            let how = if args.all { How::Left } else { How::Inner };
            let direction = match &args.others {
                Some(_) => Direction::Across,
                None => Direction::Within,
            };
            verb.nearest(args.count as usize, args.with_ties, how, direction)
        }
        VerbCommand::Thresholds(args) => {
            let (finding, told) = verb.thresholds(args.step).or_else(refuse)?;
            statements.extend(finding);
            Ok(format!("SELECT * FROM ({told}) ORDER BY threshold{}", order_of(question)))
        }
        VerbCommand::Dedupe(args) => {
            statements.extend(verb.deduplicate(&args.keep).or_else(refuse)?);
            if let Some(file) = &args.audit {
                audit = Some((verb.audit().or_else(refuse)?, file.as_path()));
            }
            Ok(verb.kept())
        }
    };
    let answer = answer.or_else(refuse)?;
    if run.output.is_some() && run.output.as_deref() == audit.as_ref().map(|(_, file)| *file) {
        return Err(SessionError::Usage(
            "-o and --audit name one file, which would have the dropped rows alone".to_string(),
        ));
    }
    if run.explain {
        let written = |sql: &str, file: &Path| copy(sql, file, file);
        let answer = match &run.output {
            Some(file) => written(&answer, file)?,
            None => answer,
        };
        let audit = audit.map(|(sql, file)| written(&sql, file)).transpose()?;
        let all = statements.iter().chain([&answer]).chain(&audit);
        return print_line(Stdout, &all.map(|sql| format!("{sql};\n")).collect::<String>());
    }
    for file in run.output.as_deref().into_iter().chain(audit.as_ref().map(|(_, file)| *file)) {
        check_format(file)?;
    }
    for sql in &statements {
        run_beside(shell, sql).await?;
    }
    match &run.output {
        Some(file) => write(shell, &answer, file).await?,
        None => run_told(shell, &answer).await?,
    }
    if let Some((sql, file)) = &audit {
        write(shell, sql, file).await?;
    }
    match command {
        VerbCommand::Dedupe(_) if !run.quiet => tell_kept(shell).await?,
        VerbCommand::Thresholds(_) if !run.quiet => tell_suggestion(shell, &answer).await?,
        _ => {}
    }
    tell_files(run, audit.is_some(), command)
}

/// The error of words that do not go together.
fn refuse<T>(error: VerbError) -> Result<T, SessionError> {
    let VerbError { text, hint } = error;
    errors::tell(&format!("Error: {text}"));
    if let Some(hint) = hint {
        errors::tell(&format!("Hint: {hint}"));
    }
    Err(SessionError::Reported)
}

/// A name for the table of a file: the stem of its name, which no other one has.
fn table_name(file: &Path, others: &[VerbTable]) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.filter(|stem| stem != "-").unwrap_or_else(|| "stdin".to_string());
    match others.iter().any(|other| other.name() == stem) {
        true => format!("{stem}_{}", others.len() + 1),
        false => stem,
    }
}

/// A file as SQL reads it, and its path.
fn source_of(file: &Path) -> Result<(String, String), SessionError> {
    let path = match file == Path::new("-") {
        true => "/dev/stdin".to_string(),
        false => files::path_of_os(file)?.display().to_string(),
    };
    Ok((format!("'{}'", path.replace('\'', "''")), path))
}

/// Reads a file into a table.
async fn read(
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
async fn fold(shell: &mut Shell, table: &VerbTable, columns: &str) -> Result<(), SessionError> {
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

/// The name of a table on its way.
const FOLDED: &str = "__simjoin_folded";

async fn schema_of(shell: &Shell, source: &str, path: &str) -> Result<Schema, SessionError> {
    if path == "/dev/stdin" {
        return Err(SessionError::Usage(
            "--explain reads the columns of the file, and standard input is read once: name a file"
                .to_string(),
        ));
    }
    let frame = shell.ctx.sql(&format!("SELECT * FROM {source}")).await?;
    Ok(frame.schema().as_arrow().clone())
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

/// A statement that writes the rows of a query for a file into another one.
fn copy(query: &str, file: &Path, to: &Path) -> Result<String, SessionError> {
    check_format(file)?;
    let path = files::path_of_os(to)?.display().to_string();
    Ok(format!("COPY ({query}) TO '{}'", path.replace('\'', "''")))
}

/// Writes the rows of a query into a file, which stays as it was until all of them are there.
async fn write(shell: &mut Shell, query: &str, file: &Path) -> Result<(), SessionError> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_file = match file.symlink_metadata() {
        Ok(found) => found.is_file(),
        Err(_) => true,
    };
    let Some(name) = name.filter(|_| is_file) else {
        return run_beside(shell, &copy(query, file, file)?).await;
    };
    let aside = file.with_file_name(format!(".simjoin-{}-{name}", std::process::id()));
    let written = run_beside(shell, &copy(query, file, &aside)?).await;
    let moved = written.and_then(|()| std::fs::rename(&aside, file).map_err(SessionError::Io));
    if moved.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&aside);
    }
    moved
}

/// The statements that read files, whose rows are numbered in their order.
fn in_order(loads: Vec<String>) -> Vec<String> {
    const PARTITIONS: &str = "datafusion.execution.target_partitions";
    let first = format!("SET {PARTITIONS} = 1");
    [first].into_iter().chain(loads).chain([format!("RESET {PARTITIONS}")]).collect()
}

/// Runs a statement without telling of its rows and its time.
async fn run_beside(shell: &mut Shell, sql: &str) -> Result<(), SessionError> {
    let counts = std::mem::replace(&mut shell.options.counts, false);
    let ran = shell.run_sql(sql, 1).await;
    shell.options.counts = counts;
    reported(ran.map(drop), sql)
}

async fn run_told(shell: &mut Shell, sql: &str) -> Result<(), SessionError> {
    let ran = shell.run_sql(sql, 1).await;
    reported(ran.map(drop), sql)
}

/// Prints the error of a statement with its hint.
fn reported(ran: Result<(), SessionError>, sql: &str) -> Result<(), SessionError> {
    match ran {
        Err(error @ (SessionError::Sql(_) | SessionError::Usage(_) | SessionError::Io(_))) => {
            errors::print(&error, None, sql);
            Err(SessionError::Reported)
        }
        ran => ran,
    }
}

/// Tells how many rows stay.
async fn tell_kept(shell: &Shell) -> Result<(), SessionError> {
    let found = shell.ctx.table(FOUND).await?;
    let all = found.clone().count().await?;
    let kept = found.filter(ident("is_kept"))?.count().await?;
    errors::tell(&format!("{kept} of {all} rows stay, {} dropped", all - kept));
    Ok(())
}

/// The order of thresholds from the strictest on.
fn order_of(question: &Question) -> &'static str {
    if question.at_most.is_some() { "" } else { " DESC" }
}

/// Tells which threshold may be the one, and why.
async fn tell_suggestion(shell: &Shell, answer: &str) -> Result<(), SessionError> {
    let mut steps = vec![];
    for batch in shell.ctx.sql(answer).await?.collect().await? {
        let thresholds = batch.column(0).as_primitive::<Float64Type>();
        let [added, largest] =
            [2, 5].map(|column| batch.column(column).as_primitive::<Int64Type>());
        steps.extend((0..batch.num_rows()).map(|row| AtThreshold {
            threshold: thresholds.value(row),
            added: added.value(row),
            largest: largest.value(row),
        }));
    }
    if let Some((threshold, why)) = suggestion(&steps) {
        errors::tell(&format!("Suggestion: {threshold}, as {why}"));
    }
    Ok(())
}

fn tell_files(run: &RunArgs, has_audit: bool, command: &VerbCommand) -> Result<(), SessionError> {
    if run.quiet {
        return Ok(());
    }
    if let Some(file) = &run.output {
        errors::tell(&format!("result: {}", file.display()));
    }
    if let (true, VerbCommand::Dedupe(args)) = (has_audit, command)
        && let Some(file) = &args.audit
    {
        errors::tell(&format!("dropped rows: {}", file.display()));
    }
    Ok(())
}
