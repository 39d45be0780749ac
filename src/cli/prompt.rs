//! The prompt: history, statements over several lines, completion and colours.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::commands::{self, Next};
use super::errors::{self, CliError};
use super::exec::Shell;
use super::input::is_complete;
use super::output::print_line;

/// Reads and runs statements and commands until the user leaves. Errors are told, and do not end
/// it.
pub(super) async fn run(shell: &mut Shell, color: bool) -> Result<(), CliError> {
    if !shell.options.quiet {
        let version = env!("CARGO_PKG_VERSION");
        let datafusion = datafusion::DATAFUSION_VERSION;
        let banner =
            format!("simjoin {version}, DataFusion {datafusion}. \\? for help, \\q to quit.");
        print_line(std::io::stdout(), &banner)?;
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(5000)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(from_editor)?
        .build();
    let mut editor: Editor<PromptHelper, DefaultHistory> =
        Editor::with_config(config).map_err(from_editor)?;
    editor.set_helper(Some(PromptHelper::new(shell.ctx.clone(), color)));
    let history = history_file();
    if let Some(path) = &history {
        // There is none at the first start.
        let _ = editor.load_history(path);
    }
    let result = read_loop(shell, &mut editor).await;
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        eprintln!("Error: the history could not be saved to {}: {error}", path.display());
    }
    result
}

async fn read_loop(
    shell: &mut Shell,
    editor: &mut Editor<PromptHelper, DefaultHistory>,
) -> Result<(), CliError> {
    loop {
        let text = match editor.readline("> ") {
            Ok(text) => text,
            // Ctrl-C empties the line, Ctrl-D leaves.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(from_editor(error)),
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        // A history that cannot grow is no reason to stop.
        let _ = editor.add_history_entry(text);
        let result = match text.starts_with('\\') {
            true => Box::pin(commands::run(shell, text)).await,
            false => shell.run_sql(text, 1).await,
        };
        match result {
            Ok(Next::Continue) | Err(CliError::Reported) => {}
            Ok(Next::Quit) => return Ok(()),
            Err(CliError::ClosedPipe) => return Err(CliError::ClosedPipe),
            Err(CliError::Interrupted) => eprintln!("Cancelled."),
            Err(error) => errors::print(&error, None, text),
        }
    }
}

fn from_editor(error: ReadlineError) -> CliError {
    match error {
        ReadlineError::Io(error) => CliError::Io(error),
        error => CliError::Usage(format!("prompt: {error}")),
    }
}

fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".simjoin_history"))
}

/// What the editor asks about the text.
struct PromptHelper {
    ctx: SessionContext,
    files: FilenameCompleter,
    color: bool,
}

impl PromptHelper {
    fn new(ctx: SessionContext, color: bool) -> Self {
        Self { ctx, files: FilenameCompleter::new(), color }
    }

    /// Names that start with the text, in lower case: functions, tables and options of the
    /// session, and keywords in the case of the text.
    fn names(&self, start: &str) -> BTreeSet<String> {
        let state = self.ctx.state();
        let upper = start.chars().all(|c| !c.is_lowercase());
        let keywords = KEYWORDS.iter().map(|k| match upper {
            true => (*k).to_string(),
            false => k.to_ascii_lowercase(),
        });
        let functions = [state.scalar_functions().keys()]
            .into_iter()
            .flatten()
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys())
            .chain(state.table_functions().keys())
            .cloned();
        let catalogs = state.catalog_list();
        let tables = catalogs
            .catalog_names()
            .into_iter()
            .filter_map(|name| catalogs.catalog(&name))
            .flat_map(|catalog| {
                let schemas = catalog.schema_names().into_iter();
                schemas.filter_map(|name| catalog.schema(&name)).collect::<Vec<_>>()
            })
            .flat_map(|schema| schema.table_names());
        let options = self.ctx.copied_config().options().entries().into_iter().map(|e| e.key);
        let lower = start.to_lowercase();
        keywords
            .chain(functions)
            .chain(tables)
            .chain(options)
            .filter(|name| name.to_lowercase().starts_with(&lower))
            .collect()
    }
}

impl Helper for PromptHelper {}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Completer for PromptHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..position).unwrap_or_default();
        let in_quotes = before.matches('\'').count() % 2 == 1;
        if in_quotes || before.starts_with("\\i ") {
            return self.files.complete(line, position, context);
        }
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let word = &before[start..];
        if word.is_empty() {
            return Ok((position, vec![]));
        }
        let pair = |name: String| Pair { display: name.clone(), replacement: name };
        Ok((start, self.names(word).into_iter().map(pair).collect()))
    }
}

impl Validator for PromptHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let done = text.is_empty() || text.starts_with('\\') || is_complete(text);
        Ok(match done {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Highlighter for PromptHelper {
    fn highlight<'l>(&self, line: &'l str, _position: usize) -> Cow<'l, str> {
        match self.color {
            true => highlight(line),
            false => Cow::Borrowed(line),
        }
    }

    fn highlight_char(&self, _line: &str, _position: usize, _kind: CmdKind) -> bool {
        self.color
    }
}

const KEYWORD: &str = "\x1b[1;34m";
const LITERAL: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// Colours keywords and literals; text that does not tokenise yet stays plain.
fn highlight(line: &str) -> Cow<'_, str> {
    let tokenizer = Tokenizer::new(&GenericDialect {}, line).with_unescape(false).tokenize();
    let Ok(tokens) = tokenizer else {
        return Cow::Borrowed(line);
    };
    let mut colored = String::with_capacity(line.len() * 2);
    for token in tokens {
        let color = match &token {
            Token::Word(word) if word.quote_style.is_some() => "",
            Token::Word(word) if word.keyword != Keyword::NoKeyword => KEYWORD,
            Token::Word(word) if word.value.eq_ignore_ascii_case("simjoin") => KEYWORD,
            Token::Number(..) | Token::SingleQuotedString(_) => LITERAL,
            _ => "",
        };
        let reset = if color.is_empty() { "" } else { RESET };
        colored.push_str(&format!("{color}{token}{reset}"));
    }
    Cow::Owned(colored)
}

const KEYWORDS: [&str; 61] = [
    "ALL",
    "ANALYZE",
    "AND",
    "ANTI",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CSV",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FALSE",
    "FROM",
    "FULL",
    "FUNCTIONS",
    "GROUP",
    "HAVING",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NULL",
    "OFFSET",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "PREPARE",
    "RIGHT",
    "SELECT",
    "SEMI",
    "SHOW",
    "SIMJOIN",
    "STORED",
    "TABLE",
    "TABLES",
    "UNION",
    "VALUES",
    "WHERE",
    "WITH",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_the_session_complete() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE simple AS SELECT 1").await.unwrap();
        let helper = PromptHelper::new(ctx, false);
        let names = |start| helper.names(start).into_iter().collect::<Vec<_>>();
        assert_eq!(names("SIM"), ["SIMJOIN", "simple"]);
        assert_eq!(names("sim"), ["simjoin", "simple"]);
        assert!(names("date_tr").contains(&"date_trunc".to_string()));
        assert_eq!(names("datafusion.sql_parser.dia"), ["datafusion.sql_parser.dialect"]);
    }

    #[test]
    fn colours_do_not_change_the_text() {
        for line in ["SELECT 'é', 1 FROM \"T\" a SIMJOIN b -- x", "SELECT 'open", "select\n1"] {
            let colored = highlight(line);
            let plain = colored.replace(KEYWORD, "").replace(LITERAL, "").replace(RESET, "");
            assert_eq!(plain, line);
        }
        assert!(highlight("a SIMJOIN b").contains("\x1b[1;34mSIMJOIN\x1b[0m"));
    }
}
