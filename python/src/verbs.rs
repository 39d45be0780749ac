//! Verbs of the engine over tables of a session: pairs, groups, links, thresholds, evaluations, comparisons, pages.

use datafusion::common::DataFusionError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use simjoin_session::host::Host;
use simjoin_session::report::{PageWords, page};
use simjoin_session::verbs::{
    AtThreshold, ComparedColumn, Direction, Evaluation, FOUND, Fold, How, Keep, Labels, Question,
    ReportStatements, STEPS, Verb, VerbError, VerbTable, WeighedTables, quoted, suggestion,
    thresholds_of_links,
};

use crate::errors::{ErrorClass, exception, of_engine, raise, warn};
use crate::frame::Frame;
use crate::runtime::wait;

/// A compared column: its name on both sides, the measure, the tokenizer, the weight.
type On = (String, String, Option<String>, Option<String>, Option<f64>);

/// The words of a verb, as Python has them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct VerbWords {
    /// Tables of the session, each with its name in messages.
    tables: Vec<(String, String)>,
    on: Vec<On>,
    keys: Vec<(String, String)>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    fold: Vec<String>,
    /// Whether thresholds are taken as they are: Python has judged them.
    any_bound: bool,
    id: Option<(String, String)>,
    show: Option<Vec<String>>,
    /// Tables of pairs: marked ones, or links and true pairs.
    pairs: Vec<(String, String)>,
    /// Further words, by their places: counts and steps, switches, orders and names.
    numbers: Vec<f64>,
    flags: Vec<bool>,
    texts: Vec<String>,
}

/// The result of a verb: its rows, and what is said of them.
#[pyclass(frozen, get_all, module = "simjoin._native")]
pub(crate) struct VerbAnswer {
    rows: Option<Py<Frame>>,
    text: Option<String>,
}

/// The statements of a verb.
struct Job {
    before: Vec<String>,
    answer: Option<String>,
    report: Option<ReportStatements>,
}

/// A reason for which a verb does not run.
enum Failure {
    Words(VerbError),
    Host(simjoin_session::host::HostError),
    Engine(DataFusionError),
}

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        Self::Words(error)
    }
}

impl Failure {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Words(VerbError { text, hint }) => {
                let hint = hint.as_deref().map(keywords);
                exception(py, ErrorClass::Plan, &keywords(&text), hint.as_deref())
            }
            Self::Host(error) => raise(py, &error),
            Self::Engine(error) => of_engine(py, error),
        }
    }
}

/// A message with keywords of Python in place of flags: `at_least` for `--at-least`.
fn keywords(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        words.push_str(&rest[..at]);
        let flag = &rest[at + 2..];
        let is_letter = |c: char| c.is_ascii_lowercase() || c == '-';
        let end = flag.find(|c| !is_letter(c)).unwrap_or(flag.len());
        words.push_str(&flag[..end].replace('-', "_"));
        rest = &flag[end..];
    }
    words + rest
}

/// Runs a verb over tables that are numbered, and gives its rows or its text.
pub(crate) fn run(
    py: Python<'_>,
    host: &Host,
    name: String,
    words: &Bound<'_, PyDict>,
) -> PyResult<VerbAnswer> {
    let words: VerbWords = words.extract()?;
    let task = {
        let host = host.clone();
        async move { answer(&host, &name, words).await }
    };
    let (frame, warnings, sql, text) = wait(py, task)?.map_err(|failure| failure.raise(py))?;
    warn(py, &warnings)?;
    let rows = match frame {
        Some(frame) => Some(Py::new(py, Frame::new(host.clone(), frame, sql))?),
        None => None,
    };
    Ok(VerbAnswer { rows, text })
}

type Answer = (Option<datafusion::dataframe::DataFrame>, Vec<String>, String, Option<String>);

async fn answer(host: &Host, name: &str, words: VerbWords) -> Result<Answer, Failure> {
    let question = question(&words)?;
    let mut tables = vec![];
    for (side, (name, told)) in words.tables.iter().enumerate() {
        tables.push(table(host, (name, told), &question, side).await?);
    }
    let mut pairs = vec![];
    for (name, told) in &words.pairs {
        pairs.push(table(host, (name, told), &Question::default(), 0).await?);
    }
    let id = words.id.clone().map(|(left, right)| [left, right]);
    let sides = match tables.as_slice() {
        [first, .., last] => Some([first, last]),
        [only] => Some([only, only]),
        [] => None,
    };
    let weighed = sides.map(|tables| WeighedTables::of(&question, tables)).transpose()?.flatten();
    let made = Made::new(host, weighed.as_ref());
    let sides = match &weighed {
        Some(WeighedTables { tables: [left, right], .. }) => Some([left, right]),
        None => sides,
    };
    let verb = sides.map(|tables| Verb {
        question: &question,
        tables,
        id: id.as_ref(),
        show: words.show.as_deref(),
        labels: pairs.first().filter(|_| name != "evaluate").map(|table| Labels { table }),
    });
    if let Some(labels) = verb.as_ref().and_then(|verb| verb.labels) {
        let told_by = words.texts.get(2).map_or("place", String::as_str);
        labels.check(host.context(), told_by).await.map_err(Failure::Engine)??;
    }
    let mut job = match (name, &verb) {
        ("evaluate", asked) => evaluation(&words, &pairs, asked.as_ref())?,
        (_, Some(verb)) => job(name, verb, &words, &tables)?,
        (_, None) => {
            return Err(VerbError { text: format!("{name} has no table"), hint: None }.into());
        }
    };
    job.before.splice(0..0, weighed.map(|weighed| weighed.statements).unwrap_or_default());
    let answer = run_job(host, job, &words).await;
    // A frame has the rows of its tables.
    drop(made);
    answer
}

/// Tables of a call, which are gone after it.
struct Made<'a> {
    host: &'a Host,
    names: Vec<String>,
}

impl<'a> Made<'a> {
    fn new(host: &'a Host, weighed: Option<&WeighedTables>) -> Self {
        Self { host, names: weighed.map(|weighed| weighed.made.clone()).unwrap_or_default() }
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // A statement that failed has made none.
            let _ = self.host.context().deregister_table(quoted(name).as_str());
        }
    }
}

/// The statements of an evaluation.
fn evaluation(
    words: &VerbWords,
    pairs: &[VerbTable],
    asked: Option<&Verb<'_>>,
) -> Result<Job, VerbError> {
    let [links, truth] = pairs else {
        return Err(VerbError { text: "evaluate has two tables".to_string(), hint: None });
    };
    let flag = |place: usize| words.flags.get(place).copied().unwrap_or_default();
    let evaluation = Evaluation {
        links,
        truth,
        is_unordered: flag(0),
        is_distance: flag(4),
        are_groups: [flag(1), flag(2)],
    };
    let answer = if flag(3) { Some(Evaluation::missed(asked)?) } else { None };
    Ok(Job { before: evaluation.judge()?, answer, report: None })
}

fn question(words: &VerbWords) -> Result<Question, VerbError> {
    let on = words.on.iter().cloned().map(|(left, right, measure, tokenizer, weight)| {
        ComparedColumn { left, right, measure, tokenizer, weight }
    });
    let fold = words.fold.iter().map(|fold| fold_of(fold));
    Ok(Question {
        on: on.collect(),
        keys: words.keys.iter().map(|(left, right)| [left.clone(), right.clone()]).collect(),
        at_least: words.at_least,
        at_most: words.at_most,
        fold: fold.collect::<Result<_, _>>()?,
        any_bound: words.any_bound,
    })
}

/// A measure: name, function, family, whether it is a distance, usual threshold, whether it is symmetric, and a similarity up to
/// 1 of the same values.
type Measure =
    (&'static str, &'static str, &'static str, bool, Option<f64>, bool, Option<&'static str>);

/// The measures of the engine.
#[pyfunction]
pub(crate) fn measures() -> Vec<Measure> {
    let words = simjoin_session::verbs::measures().into_iter().map(|m| {
        (m.name, m.function, m.family, m.is_distance, m.threshold, m.is_symmetric, m.similarity)
    });
    words.collect()
}

/// A threshold that may be the one, and why, of figures: the threshold, the pairs added, the largest group.
#[pyfunction]
pub(crate) fn suggest(steps: Vec<(f64, i64, i64)>) -> Option<(f64, String)> {
    let steps: Vec<AtThreshold> = steps
        .into_iter()
        .map(|(threshold, added, largest)| AtThreshold { threshold, added, largest })
        .collect();
    suggestion(&steps)
}

fn fold_of(fold: &str) -> Result<Fold, VerbError> {
    fold.parse()
        .map_err(|text| VerbError { text: format!("fold has {fold:?}: {text}"), hint: None })
}

/// A table of the session, with the folded texts of a question.
async fn table(
    host: &Host,
    (name, told): (&str, &str),
    question: &Question,
    side: usize,
) -> Result<VerbTable, Failure> {
    let ctx = host.context();
    let quoted = quoted(name);
    let frame = ctx.table(quoted.as_str()).await.map_err(Failure::Engine)?;
    let table = VerbTable::new(name, frame.schema().as_arrow()).told(told);
    let folded = table.folded(question, side)?;
    if !folded.is_empty() {
        let aside = format!("{name}_folded");
        let sql =
            format!("CREATE TABLE \"{aside}\" AS SELECT *, {} FROM {quoted}", folded.join(", "));
        run_all(host, &[sql]).await?;
        let provider = ctx.deregister_table(aside.as_str()).map_err(Failure::Engine)?;
        ctx.deregister_table(quoted.as_str()).map_err(Failure::Engine)?;
        if let Some(provider) = provider {
            ctx.register_table(quoted.as_str(), provider).map_err(Failure::Engine)?;
        }
    }
    Ok(table)
}

/// The statements of a verb.
fn job(
    name: &str,
    verb: &Verb<'_>,
    words: &VerbWords,
    tables: &[VerbTable],
) -> Result<Job, VerbError> {
    let number = |place: usize| words.numbers.get(place).copied();
    let text = |place: usize| words.texts.get(place).map_or("", String::as_str);
    let plain =
        |before: Vec<String>, answer: String| Job { before, answer: Some(answer), report: None };
    let how = || match text(0) {
        "left" => How::Left,
        "right" => How::Right,
        "full" | "outer" => How::Full,
        "semi" => How::Semi,
        "anti" => How::Anti,
        _ => How::Inner,
    };
    Ok(match name {
        "pairs" => plain(vec![], verb.pairs()?),
        "groups" => {
            let mut statements = verb.groups()?;
            let answer = statements.pop().unwrap_or_default();
            plain(statements, answer)
        }
        "link" => plain(vec![], verb.link(how())?),
        "match" => plain(vec![], verb.matched()?),
        "nearest" => {
            let flag = |place: usize| words.flags.get(place).copied().unwrap_or_default();
            let direction = if flag(1) { Direction::Within } else { Direction::Across };
            let count = number(0).unwrap_or(1.0) as usize;
            plain(vec![], verb.nearest(count, flag(0), how(), direction)?)
        }
        "deduplicate" => {
            let keep = text(0).parse::<Keep>();
            let keep = keep.map_err(|hint| VerbError {
                text: format!("keep={:?} is no order", text(0)),
                hint: Some(hint),
            })?;
            plain(verb.deduplicate(&keep)?, format!("SELECT * FROM {FOUND} ORDER BY dropped_row"))
        }
        "thresholds" => {
            let order = if verb.question.at_most.is_some() { "" } else { " DESC" };
            plain(
                verb.thresholds(number(0), tables.len() == 1)?,
                format!("SELECT * FROM {STEPS} ORDER BY threshold{order}"),
            )
        }
        "compare" => plain(verb.pick([text(0), text(1)])?, verb.compare()?),
        "report" => {
            let most = number(0).unwrap_or(100_000.0) as usize;
            let mut report = verb.report(number(1), most, tables.len() == 1)?;
            Job { before: std::mem::take(&mut report.before), answer: None, report: Some(report) }
        }
        _ => {
            return Err(VerbError { text: format!("there is no verb {name}"), hint: None });
        }
    })
}

async fn run_job(host: &Host, job: Job, words: &VerbWords) -> Result<Answer, Failure> {
    run_all(host, &job.before).await?;
    if let Some(report) = &job.report {
        let told = words.tables.iter().map(|(_, told)| told.clone());
        let words = PageWords {
            title: words.texts.first().cloned().unwrap_or_default(),
            inputs: told.collect(),
            command: words.texts.get(1).cloned().unwrap_or_default(),
            sql: job.before.join(";\n\n"),
            rows: "place",
        };
        let page = page(host.context(), report, &words).await.map_err(Failure::Engine)?;
        return Ok((None, vec![], String::new(), Some(page)));
    }
    let is_distance = words.flags.get(4).copied().unwrap_or_default();
    let sql = match job.answer {
        Some(sql) => sql,
        None if words.numbers.is_empty() => {
            let thresholds = thresholds_of_links(host.context()).await.map_err(Failure::Engine)?;
            Evaluation::told(&thresholds, is_distance)
        }
        None => Evaluation::told(&words.numbers, is_distance),
    };
    let outcome = host.run(&sql, None).await.map_err(Failure::Host)?;
    Ok((Some(outcome.frame), outcome.warnings, sql, None))
}

async fn run_all(host: &Host, statements: &[String]) -> Result<(), Failure> {
    for sql in statements {
        host.run(sql, None).await.map_err(Failure::Host)?;
    }
    Ok(())
}
