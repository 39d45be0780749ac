//! Verbs from the command line: a file in, its statements, a result out.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::prelude::ident;
use simjoin_session::errors::{self, SessionError};
use simjoin_session::verbs::{
    AtThreshold, Direction, Evaluation, FOUND, How, JUDGED, Question, ROW, STEPS, Verb, VerbError,
    VerbTable, names, quoted, suggestion,
};

use super::exec::Shell;
use super::output::Stdout;
use super::output::print_line;
use super::verb_args::{QuestionArgs, VerbCommand};
use super::verb_files::{
    copy, fold, in_order, read, reported, run_beside, schema_of, source_of, table_name, write,
};

/// Runs a verb, or prints its statements.
pub(super) async fn run(shell: &mut Shell, command: &VerbCommand) -> Result<(), SessionError> {
    command.check_outputs()?;
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

/// The statements of a verb.
struct Statements<'c> {
    /// Statements that run before the others.
    before: Vec<String>,
    answer: String,
    /// The statement of the dropped rows, and the file for them.
    audit: Option<(String, &'c Path)>,
}

/// The statements of a verb over its tables.
fn statements_of<'c>(
    verb: &Verb<'_>,
    command: &'c VerbCommand,
) -> Result<Statements<'c>, VerbError> {
    let (mut before, mut audit) = (vec![], None);
    let answer = match command {
        VerbCommand::Pairs(_) => verb.pairs()?,
        VerbCommand::Clusters(args) => verb.clusters(args.grouped)?,
        VerbCommand::Link(args) => verb.link(args.how.into())?,
        VerbCommand::Match(_) => verb.matched()?,
        VerbCommand::Nearest(args) => {
            let how = if args.all { How::Left } else { How::Inner };
            let direction = match &args.others {
                Some(_) => Direction::Across,
                None => Direction::Within,
            };
            verb.nearest(args.count as usize, args.with_ties, how, direction)?
        }
        VerbCommand::Thresholds(args) => {
            before = verb.thresholds(args.step)?;
            let order = if verb.question.at_most.is_some() { "" } else { " DESC" };
            format!("SELECT * FROM {STEPS} ORDER BY threshold{order}")
        }
        VerbCommand::Evaluate(args) => {
            let [links, truth] = verb.tables;
            let evaluation = Evaluation { links, truth, is_unordered: args.unordered };
            before = evaluation.judge()?;
            Evaluation::told(&[])
        }
        VerbCommand::Dedupe(args) => {
            before = verb.deduplicate(&args.keep)?;
            if let Some(file) = &args.audit {
                audit = Some((verb.audit()?, file.as_path()));
            }
            verb.kept()
        }
    };
    Ok(Statements { before, answer, audit })
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
    let Statements { before, mut answer, audit } = statements_of(&verb, command).or_else(refuse)?;
    if run.explain {
        let written = |sql: String, file: Option<&Path>| match file {
            Some(file) => copy(&sql, file),
            None => Ok(sql),
        };
        let answer = written(answer, run.output.as_deref())?;
        let audit = audit.map(|(sql, file)| written(sql, Some(file))).transpose()?;
        let all = in_order(loads).into_iter().chain(before).chain([answer]).chain(audit);
        return print_line(Stdout, &all.map(|sql| format!("{sql};\n")).collect::<String>());
    }
    for sql in &before {
        run_beside(shell, sql).await?;
    }
    if let VerbCommand::Evaluate(_) = command {
        answer = Evaluation::told(&thresholds_of_links(shell).await?);
    }
    match &run.output {
        Some(file) => write(shell, &answer, file).await?,
        None => run_told(shell, &answer).await?,
    }
    if let Some((sql, file)) = &audit {
        write(shell, sql, file).await?;
    }
    if run.quiet {
        return Ok(());
    }
    match command {
        VerbCommand::Dedupe(_) => tell_kept(shell).await?,
        VerbCommand::Thresholds(_) => tell_suggestion(shell, &answer).await?,
        _ => {}
    }
    for (what, file) in command.outputs() {
        errors::tell(&format!("{what}: {}", file.display()));
    }
    Ok(())
}

/// Thresholds between the scores of the links; none where they have no scores.
async fn thresholds_of_links(shell: &Shell) -> Result<Vec<f64>, SessionError> {
    let ends = format!("SELECT min(score), max(score) FROM {JUDGED}");
    let ends = shell.ctx.sql(&ends).await?.collect().await?;
    let end = |column: usize| {
        let column = ends.first()?.column(column).as_primitive_opt::<Float64Type>()?;
        column.iter().next().flatten()
    };
    Ok(match (end(0), end(1)) {
        (Some(least), Some(greatest)) => Evaluation::thresholds(least, greatest),
        _ => vec![],
    })
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

async fn run_told(shell: &mut Shell, sql: &str) -> Result<(), SessionError> {
    let ran = shell.run_sql(sql, 1).await;
    reported(ran.map(drop), sql)
}

/// Tells how many rows stay.
async fn tell_kept(shell: &Shell) -> Result<(), SessionError> {
    let found = shell.ctx.table(FOUND).await?;
    let all = found.clone().count().await?;
    let kept = found.filter(ident("is_kept"))?.count().await?;
    errors::tell(&format!("{kept} of {all} rows stay, {} dropped", all - kept));
    Ok(())
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
