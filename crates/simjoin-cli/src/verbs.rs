//! Verbs from the command line: a file in, its statements, a result out.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use datafusion::prelude::ident;
use simjoin_session::errors::{self, SessionError};
use simjoin_session::report::PageWords;
use simjoin_session::table::MaxRows;
use simjoin_session::verbs::{
    COMPARED, Direction, Evaluation, FOUND, How, Labels, MARKED, Question, ROW, ReportStatements,
    STEPS, Verb, VerbError, VerbTable, WeighedTables, best_f1, count_of, have_common_rows, names,
    quoted, suggestion_of, thresholds_of_links,
};

use super::exec::Shell;
use super::output::Stdout;
use super::output::print_line;
use super::verb_args::{CompareArgs, EvaluateArgs, Grouped, QuestionArgs, VerbCommand};
use super::verb_files::{
    copy, fold, in_order, read, reported, run_beside, schema_of, source_of, table_name, texts_of,
    write, write_text,
};

/// Runs a verb, or prints its statements.
pub(super) async fn run(shell: &mut Shell, command: &VerbCommand) -> Result<(), SessionError> {
    command.check_outputs()?;
    if let VerbCommand::Compare(args) = command {
        args.check()?;
        // The lines belong together.
        shell.options.maxrows = MaxRows::Unlimited;
    }
    let question = match command.question() {
        Some(args) => question_of(args)?,
        None => Question::default(),
    };
    let id = command.id().map(|id| Question::parse(&[id.to_string()], None, None, &[]));
    let id = id.transpose().or_else(refuse)?.and_then(|mut id| id.on.pop());
    let id = id.map(|id| [id.left, id.right]);
    let show = command.pair().and_then(|pair| pair.show.as_deref()).map(names);
    let show = show.transpose().or_else(refuse)?;
    let mut loaded = Loaded::default();
    for (side, file) in command.files().iter().enumerate() {
        loaded.rows(shell, command, (file, side), &question).await?;
    }
    for file in command.pair_files() {
        loaded.pairs(shell, command, file).await?;
    }
    let labels = match command {
        VerbCommand::Evaluate(_) => None,
        _ => loaded.pairs.first().map(|table| Labels { table }),
    };
    let tables = match loaded.tables.as_slice() {
        [first, .., last] => Some([first, last]),
        [only] => Some([only, only]),
        [] => None,
    };
    let weighed = tables.map(|tables| WeighedTables::of(&question, tables));
    let weighed = weighed.transpose().or_else(refuse)?.flatten();
    let tables = match &weighed {
        Some(WeighedTables { tables: [left, right], .. }) => Some([left, right]),
        None => tables,
    };
    let (id, show) = (id.as_ref(), show.as_deref());
    let told_by = id.map_or("row", |[id, _]| id.as_str());
    if let Some(labels) = labels.filter(|_| !command.run_args().explain) {
        labels.check(&shell.ctx, told_by).await?.or_else(refuse)?;
    }
    let verb = tables.map(|tables| Verb { question: &question, tables, id, show, labels });
    let weigh = weighed.as_ref().map_or(&[][..], |weighed| &weighed.statements);
    run_verb(shell, command, verb.as_ref(), (&loaded, weigh)).await
}

/// The tables of the files of a verb.
#[derive(Default)]
struct Loaded {
    /// Tables whose rows are compared.
    tables: Vec<VerbTable>,
    /// Tables of pairs.
    pairs: Vec<VerbTable>,
    /// The statements that read them.
    loads: Vec<String>,
}

impl Loaded {
    /// Reads a file into a table of that name, or looks at its columns where statements are printed alone. The values of
    /// CSV may be taken `as_texts`.
    async fn table(
        &mut self,
        shell: &mut Shell,
        command: &VerbCommand,
        (file, as_texts): (&Path, bool),
    ) -> Result<(VerbTable, String), SessionError> {
        let others = self.tables.iter().chain(&self.pairs);
        let name = table_name(file, others);
        let (mut source, path) = source_of(file)?;
        if let Some(texts) = as_texts.then(|| texts_of(&name, &path)).flatten() {
            run_beside(shell, &texts.declare).await?;
            source = quoted(&texts.name);
            self.loads.push(texts.declare);
        }
        let schema = match command.run_args().explain {
            true => schema_of(shell, &source, &path).await?,
            false => read(shell, (&name, &source), &path).await?,
        };
        let told = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let table = VerbTable::new(name.clone(), &schema).told(told.unwrap_or(name));
        Ok((table, source))
    }

    /// Reads the rows of a side.
    async fn rows(
        &mut self,
        shell: &mut Shell,
        command: &VerbCommand,
        (file, side): (&Path, usize),
        question: &Question,
    ) -> Result<(), SessionError> {
        let (table, source) = self.table(shell, command, (file, false)).await?;
        let folded = table.folded(question, side).or_else(refuse)?;
        let columns: String = folded.iter().map(|column| format!(", {column}")).collect();
        self.loads.push(format!(
            "CREATE TABLE {} AS SELECT row_number() OVER () AS {ROW}, *{columns} FROM {source}",
            quoted(table.name())
        ));
        if !command.run_args().explain {
            fold(shell, &table, &columns).await?;
        }
        self.tables.push(table);
        Ok(())
    }

    /// Reads pairs.
    async fn pairs(
        &mut self,
        shell: &mut Shell,
        command: &VerbCommand,
        file: &Path,
    ) -> Result<(), SessionError> {
        let (table, source) = self.table(shell, command, (file, true)).await?;
        let load = format!("CREATE TABLE {} AS SELECT * FROM {source}", quoted(table.name()));
        self.loads.push(load);
        self.pairs.push(table);
        Ok(())
    }
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
    /// The statement of further rows, and the file for them.
    beside: Option<(String, &'c Path)>,
    /// A page, which is made of several answers.
    report: Option<ReportStatements>,
}

/// The statements of a verb over its tables.
fn statements_of<'c>(
    verb: &Verb<'_>,
    command: &'c VerbCommand,
) -> Result<Statements<'c>, VerbError> {
    let (mut before, mut beside, mut report) = (vec![], None, None);
    let answer = match command {
        VerbCommand::Pairs(_) => verb.pairs()?,
        VerbCommand::Clusters(args) => {
            before = verb.clusters(args.grouped)?;
            before.pop().unwrap_or_default()
        }
        VerbCommand::Link(args) => verb.link(args.how.into())?,
        VerbCommand::Join(args) => verb.joined(args.how.into())?,
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
            before = verb.thresholds(args.step, args.others.is_none())?;
            let order = if verb.question.at_most.is_some() { "" } else { " DESC" };
            format!("SELECT * FROM {STEPS} ORDER BY threshold{order}")
        }
        VerbCommand::Dedupe(args) => {
            before = verb.deduplicate(&args.keep)?;
            if let Some(file) = &args.audit {
                beside = Some((verb.audit()?, file.as_path()));
            }
            verb.kept()
        }
        VerbCommand::Compare(args) => {
            before = verb.pick(args.pair())?;
            verb.compare()?
        }
        VerbCommand::Report(args) => {
            let mut page = verb.report(args.down_to, args.most as usize, args.others.is_none())?;
            before = std::mem::take(&mut page.before);
            let answer = page.pairs.clone();
            report = Some(page);
            answer
        }
        VerbCommand::Evaluate(_) => {
            return Err(VerbError { text: "evaluate joins no rows".to_string(), hint: None });
        }
    };
    Ok(Statements { before, answer, beside, report })
}

/// The statements of an evaluation; `asked` are the rows and the question of its links.
fn evaluation_of<'c>(
    args: &'c EvaluateArgs,
    pairs: &[VerbTable],
    asked: Option<&Verb<'_>>,
) -> Result<Statements<'c>, VerbError> {
    let [links, truth] = pairs else {
        return Err(VerbError { text: "evaluate reads two files".to_string(), hint: None });
    };
    let is_grouped = |which| args.groups.is_some_and(|own| own == which || own == Grouped::Both);
    let evaluation = Evaluation {
        links,
        truth,
        is_unordered: args.unordered,
        is_distance: args.is_distance(),
        are_groups: [is_grouped(Grouped::Links), is_grouped(Grouped::Truth)],
    };
    let missed = args.missed.as_ref().map(|file| Ok((Evaluation::missed(asked)?, file.as_path())));
    Ok(Statements {
        before: evaluation.judge()?,
        answer: Evaluation::told(&[], false),
        beside: missed.transpose()?,
        report: None,
    })
}

async fn run_verb(
    shell: &mut Shell,
    command: &VerbCommand,
    verb: Option<&Verb<'_>>,
    (loaded, weigh): (&Loaded, &[String]),
) -> Result<(), SessionError> {
    let run = command.run_args();
    let statements = match (command, verb) {
        (VerbCommand::Evaluate(args), asked) => evaluation_of(args, &loaded.pairs, asked),
        (_, Some(verb)) => statements_of(verb, command),
        (_, None) => {
            Err(VerbError { text: "there is no file to compare rows of".to_string(), hint: None })
        }
    };
    let Statements { mut before, mut answer, beside, report } = statements.or_else(refuse)?;
    before.splice(0..0, weigh.iter().cloned());
    if run.explain {
        let written = |sql: String, file: Option<&Path>| match file {
            Some(file) if report.is_none() => copy(&sql, file),
            _ => Ok(sql),
        };
        let answer = written(answer, run.output.as_deref())?;
        let beside = beside.map(|(sql, file)| written(sql, Some(file))).transpose()?;
        let loads = in_order(loaded.loads.clone());
        let all = loads.into_iter().chain(before).chain([answer]).chain(beside);
        if let VerbCommand::Evaluate(_) = command {
            print_line(
                Stdout,
                "-- Links with scores are evaluated at thresholds between these: evaluate(…, …, [0.9, 0.8])",
            )?;
        }
        return print_line(Stdout, &all.map(|sql| format!("{sql};\n")).collect::<String>());
    }
    for sql in &before {
        run_beside(shell, sql).await?;
    }
    match command {
        VerbCommand::Evaluate(args) => {
            let thresholds = thresholds_of_links(&shell.ctx).await?;
            answer = Evaluation::told(&thresholds, args.is_distance());
        }
        VerbCommand::Compare(args) => check_rows(shell, args).await?,
        _ => {}
    }
    match (&run.output, &report) {
        (Some(file), Some(report)) => {
            let all = in_order(loaded.loads.clone()).into_iter().chain(before.clone());
            let sql = all.map(|sql| format!("{sql};\n")).collect::<String>();
            let words = words_of(command, sql);
            let page = simjoin_session::report::page(&shell.ctx, report, &words).await?;
            write_text(&page, file)?;
        }
        (Some(file), None) => write(shell, &answer, file).await?,
        (None, _) => run_told(shell, &answer).await?,
    }
    if let Some((sql, file)) = &beside {
        write(shell, sql, file).await?;
    }
    if run.quiet {
        return Ok(());
    }
    if let Some(table) = verb.and_then(|verb| verb.labels).map(|labels| labels.table)
        && !matches!(command, VerbCommand::Report(_))
    {
        tell_marks(shell, table.name()).await?;
    }
    match (command, &report) {
        (VerbCommand::Dedupe(_), _) => tell_kept(shell).await?,
        (VerbCommand::Evaluate(_), _) => tell_evaluated(shell, &answer).await?,
        (VerbCommand::Thresholds(_), _) => tell_suggestion(shell, &answer).await?,
        (VerbCommand::Report(args), Some(report)) => {
            tell_pairs(shell, &report.count, args.most).await?
        }
        _ => {}
    }
    for (what, file) in command.outputs() {
        errors::tell(&format!("{what}: {}", file.display()));
    }
    Ok(())
}

/// The words of a page: its title and its command.
fn words_of(command: &VerbCommand, sql: String) -> PageWords {
    let name = |file: &PathBuf| match file.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => file.display().to_string(),
    };
    let inputs: Vec<String> = command.files().iter().map(name).collect();
    let plain = |word: &String| {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./,=:+".contains(c);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    let words: Vec<String> = std::env::args().skip(1).map(|word| plain(&word)).collect();
    PageWords {
        title: inputs.join(" and "),
        inputs,
        command: format!("simjoin {}", words.join(" ")),
        sql,
        rows: "row",
    }
}

/// Checks that each row to compare is there, once.
async fn check_rows(shell: &Shell, args: &CompareArgs) -> Result<(), SessionError> {
    let files = args.files();
    for (side, (table, row)) in COMPARED.into_iter().zip(args.pair()).enumerate() {
        let file = files.get(side).or(files.first()).map(|file| file.display().to_string());
        let (what, count) =
            (args.id.as_deref().unwrap_or("number"), shell.ctx.table(table).await?.count().await?);
        let file = file.unwrap_or_default();
        if count != 1 {
            let text = match count {
                0 => format!("{file} has no row of the {what} {row}"),
                _ => format!("{file} has {count} rows of the {what} {row}"),
            };
            let hint = match (count, &args.id) {
                (0, None) => {
                    "rows are numbered from 1 on; --id COLUMN tells them by a column".to_string()
                }
                (0, Some(_)) => "the values are compared as texts, case counts".to_string(),
                _ => "without --id rows are told by their numbers, from 1 on".to_string(),
            };
            return refuse(VerbError { text, hint: Some(hint) });
        }
    }
    Ok(())
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

/// Tells the best F1, and warns where links and true pairs have no row in common.
async fn tell_evaluated(shell: &Shell, answer: &str) -> Result<(), SessionError> {
    if answer.contains("threshold")
        && let Some((threshold, f1)) = best_f1(&shell.ctx, answer).await?
    {
        errors::tell(&format!("Best F1: {f1:.4} at {threshold}"));
    }
    if !have_common_rows(&shell.ctx).await? {
        errors::tell(
            "Warning: no row of a true pair is a row of a link: are both told by the same column or number?",
        );
    }
    Ok(())
}

/// Tells how many pairs a page has.
async fn tell_pairs(shell: &Shell, count: &str, most: u32) -> Result<(), SessionError> {
    let counted = count_of(&shell.ctx, count).await?;
    let shown = counted.min(i64::from(most));
    let left_out = match counted - shown {
        0 => String::new(),
        weaker => format!(", {weaker} weaker ones left out (--most)"),
    };
    errors::tell(&format!("{shown} pairs on the page{left_out}"));
    Ok(())
}

/// Tells how many of the marked pairs are used.
async fn tell_marks(shell: &Shell, table: &str) -> Result<(), SessionError> {
    let all = shell.ctx.table(quoted(table).as_str()).await?.count().await?;
    let used = shell.ctx.table(MARKED).await?.count().await?;
    let others = match all.cmp(&used) {
        Ordering::Equal => "",
        Ordering::Less => "; several rows have one value of --id: marks join or part all of them",
        Ordering::Greater => {
            "; others name no row (--id tells rows by a column), are repeated, or are unsure"
        }
    };
    errors::tell(&format!("{used} of {all} marked pairs are used{others}"));
    Ok(())
}

/// Tells which threshold may be the one, and why.
async fn tell_suggestion(shell: &Shell, answer: &str) -> Result<(), SessionError> {
    if let Some((threshold, why)) = suggestion_of(&shell.ctx, answer).await? {
        errors::tell(&format!("Suggestion: {threshold}, as {why}"));
    }
    Ok(())
}
