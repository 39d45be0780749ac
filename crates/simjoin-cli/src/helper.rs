//! Completes and colours the text in the prompt's editor.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Weak;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use parking_lot::RwLock;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use simjoin_session::escape::is_unsafe;

/// Answers the editor's questions about the text.
pub(super) struct PromptHelper {
    session: Weak<RwLock<SessionState>>,
    files: FilenameCompleter,
    color: bool,
}

impl PromptHelper {
    /// Completes by the names of a session, for as long as that lives.
    pub(super) fn new(session: Weak<RwLock<SessionState>>, color: bool) -> Self {
        Self { session, files: FilenameCompleter::new(), color }
    }

    /// Names that start with the text, in lower case: functions, tables and options of the
    /// session, and keywords in the case of the text.
    fn names(&self, start: &str) -> BTreeSet<String> {
        let Some(state) = self.session.upgrade().map(|session| session.read().clone()) else {
            return BTreeSet::new();
        };
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
        let options = state.config_options().entries().into_iter().map(|e| e.key);
        let lower = start.to_lowercase();
        keywords
            .chain(functions)
            .chain(tables)
            .chain(options)
            .filter(|name| name.to_lowercase().starts_with(&lower) && is_safe(name))
            .collect()
    }
}

/// Whether the editor may write the text: it passes on what a terminal obeys, so that a name with
/// such characters is not offered.
fn is_safe(text: &str) -> bool {
    !text.contains(is_unsafe)
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
            let (start, mut files) = self.files.complete(line, position, context)?;
            files.retain(|file| is_safe(&file.display) && is_safe(&file.replacement));
            return Ok((start, files));
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

impl Validator for PromptHelper {}

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
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn names_of_the_session_complete() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE simple AS SELECT 1").await.unwrap();
        let helper = PromptHelper::new(ctx.state_weak_ref(), false);
        let names = |start| helper.names(start).into_iter().collect::<Vec<_>>();
        assert_eq!(names("SIM"), ["SIMJOIN", "simple"]);
        assert_eq!(names("sim"), ["simjoin", "simple"]);
        assert!(names("date_tr").contains(&"date_trunc".to_string()));
        assert_eq!(names("datafusion.sql_parser.dia"), ["datafusion.sql_parser.dialect"]);
    }

    #[tokio::test]
    async fn names_that_a_terminal_would_obey_are_not_offered() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE \"zz\x1b[2J\" AS SELECT 1").await.unwrap();
        ctx.sql("CREATE TABLE zzz AS SELECT 1").await.unwrap();
        let helper = PromptHelper::new(ctx.state_weak_ref(), false);
        assert_eq!(helper.names("zz").into_iter().collect::<Vec<_>>(), ["zzz"]);
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "a\x1b[2J.csv"] {
            std::fs::write(folder.path().join(name), "x\n").unwrap();
        }
        let history = rustyline::history::DefaultHistory::new();
        let line = format!("SELECT * FROM '{}/a", folder.path().display());
        let context = Context::new(&history);
        let (_, offered) = helper.complete(&line, line.len(), &context).unwrap();
        assert_eq!(offered.iter().map(|o| o.display.as_str()).collect::<Vec<_>>(), ["a.csv"]);
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
