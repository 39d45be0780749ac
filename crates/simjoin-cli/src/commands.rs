//! Backslash commands.

use std::path::Path;

use clap::ValueEnum;

use super::exec::{Next, Shell};
use super::function_page;
use super::output::{Format, Stdout, print_line};
use super::script;
use datafusion_simjoin::sql::PAIR_FUNCTIONS;
use simjoin_session::errors::SessionError;
use simjoin_session::table::{Expanded, TableWidth};

/// A backslash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Help,
    Tables,
    Describe(String),
    Functions,
    Function(String),
    Include(String),
    ShowQuiet,
    Quiet(bool),
    ShowOptions,
    Format(Format),
    ToggleExpanded,
    Expanded(Expanded),
    Columns(TableWidth),
}

pub(super) const HELP: &str = "\
\\d               list the tables
\\d NAME          describe a table or file, such as \\d 'pairs.parquet'
\\h               list the functions
\\h NAME          describe a function
\\i FILE          run the statements of a file
\\pset format F   print results as table, csv, tsv, json, nd-json or arrow
\\pset columns N  fit tables to N columns; auto: to the terminal; inf: to nothing
\\x [on|off|auto] turn tables, a line for each column of a row
\\quiet on|off    print results only, or row counts and times as well
\\?               this help
\\q               quit

Statements end with a semicolon. SIMJOIN joins by the similarity of sets (jaccard of
word_tokens or qgrams), texts (levenshtein, jaro_winkler_similarity) or vectors
(array_distance, cosine_distance); NEAREST has the best rows of each row, and
representatives, connected_components and one_to_one make groups of pairs:
  SELECT a.id, b.id FROM 'x.parquet' a SIMJOIN 'x.parquet' b
  ON jaccard(a.tokens, b.tokens) >= 0.8 AND a.id < b.id;
  SELECT a.id, b.id FROM 'x.csv' a SIMJOIN 'y.csv' b
  NEAREST 1 BY DISTANCE levenshtein(a.name, b.name) ON levenshtein(a.name, b.name) <= 3;
Its options: SHOW simjoin; SET simjoin.strategy = 'ppjoin'; RESET simjoin.strategy;";

impl Command {
    /// Reads a line that starts with a backslash.
    pub(super) fn parse(line: &str) -> Result<Self, SessionError> {
        let line = line.trim().trim_end_matches(';').trim_end();
        let (name, argument) = match line.split_once(char::is_whitespace) {
            Some((name, argument)) => (name, argument.trim()),
            None => (line, ""),
        };
        let wrong = |message: &str| Err(SessionError::Usage(format!("{line}: {message}")));
        Ok(match (name, argument) {
            ("\\q", "") => Self::Quit,
            ("\\?", "") => Self::Help,
            ("\\d", "") => Self::Tables,
            ("\\d", table) => Self::Describe(table.to_string()),
            ("\\h", "") => Self::Functions,
            ("\\h", function) => Self::Function(function.to_string()),
            ("\\i", "") => return wrong("give the name of a file"),
            ("\\i", file) => Self::Include(file.trim_matches('\'').to_string()),
            ("\\quiet", "") => Self::ShowQuiet,
            ("\\quiet", "on" | "true" | "yes") => Self::Quiet(true),
            ("\\quiet", "off" | "false" | "no") => Self::Quiet(false),
            ("\\quiet", _) => return wrong("use on or off"),
            ("\\x", "") => Self::ToggleExpanded,
            ("\\x", when) => Self::option("expanded", when).or_else(|m| wrong(&m))?,
            ("\\pset", setting) => match setting.split_once(char::is_whitespace) {
                None if matches!(setting, "" | "format" | "expanded" | "columns") => {
                    Self::ShowOptions
                }
                None => return wrong("format, expanded and columns can be set"),
                Some((name, value)) => Self::option(name, value.trim()).or_else(|m| wrong(&m))?,
            },
            _ => return wrong("no such command; \\? lists them"),
        })
    }

    /// The command that sets an option of the output.
    fn option(name: &str, value: &str) -> Result<Self, String> {
        match name {
            "format" => Format::from_str(value, true)
                .map(Self::Format)
                .map_err(|_| "use table, csv, tsv, json, nd-json or arrow".to_string()),
            "expanded" => Expanded::from_str(value, true)
                .map(Self::Expanded)
                .map_err(|_| "use on, off or auto".to_string()),
            "columns" => value.parse().map(Self::Columns),
            _ => Err("format, expanded and columns can be set".to_string()),
        }
    }
}

/// Runs a line that starts with a backslash.
pub(super) async fn run(shell: &mut Shell, line: &str) -> Result<Next, SessionError> {
    let say = |text: &str| print_line(Stdout, text);
    match Command::parse(line)? {
        Command::Quit => return Ok(Next::Quit),
        Command::Help => say(HELP)?,
        Command::Tables => return shell.run_sql("SHOW TABLES", 1).await,
        Command::Describe(table) => return shell.run_sql(&format!("DESCRIBE {table}"), 1).await,
        Command::Functions => {
            let pairs = PAIR_FUNCTIONS.map(|name| format!("('{name}')")).join(", ");
            let sql = format!(
                "SELECT DISTINCT routine_name AS function, function_type AS type \
                 FROM information_schema.routines \
                 WHERE NOT starts_with(routine_name, '__simjoin') \
                 UNION ALL SELECT column1, 'TABLE' FROM (VALUES {pairs}) ORDER BY function"
            );
            return shell.run_sql(&sql, 1).await;
        }
        Command::Function(name) => {
            match function_page::page(&shell.ctx.state(), name.trim_matches('\'')) {
                Ok(page) => say(&page)?,
                Err(message) => return Err(SessionError::Usage(message)),
            }
        }
        Command::Include(file) => include(shell, Path::new(&file)).await?,
        Command::ShowQuiet => say(match shell.options.quiet {
            true => "quiet is on",
            false => "quiet is off",
        })?,
        Command::Quiet(quiet) => shell.options.quiet = quiet,
        Command::ShowOptions => {
            say(&format!("format is {}", name_of(&shell.options.format)))?;
            say(&format!("expanded is {}", name_of(&shell.options.expanded)))?;
            say(&format!("columns is {}", shell.options.columns))?;
        }
        Command::Format(format) => shell.options.format = format,
        Command::ToggleExpanded => {
            shell.options.expanded = match shell.options.expanded {
                Expanded::On => Expanded::Auto,
                Expanded::Auto | Expanded::Off => Expanded::On,
            };
            say(&format!("expanded is {}", name_of(&shell.options.expanded)))?;
        }
        Command::Expanded(expanded) => shell.options.expanded = expanded,
        Command::Columns(columns) => shell.options.columns = columns,
    }
    Ok(Next::Continue)
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default()
}

/// Files that include each other without end are a mistake.
const DEEPEST_INCLUDE: usize = 16;

async fn include(shell: &mut Shell, file: &Path) -> Result<(), SessionError> {
    if shell.include_depth == DEEPEST_INCLUDE {
        return Err(SessionError::Usage(format!(
            "{}: files include each other more than {DEEPEST_INCLUDE} deep",
            file.display()
        )));
    }
    shell.include_depth += 1;
    let result = script::run_file(shell, file).await;
    shell.include_depth -= 1;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_datafusion_cli() {
        for (line, command) in [
            ("\\q", Command::Quit),
            ("\\?", Command::Help),
            ("\\d", Command::Tables),
            ("\\d;", Command::Tables),
            ("\\d  t ", Command::Describe("t".into())),
            ("\\d 'x y.parquet'", Command::Describe("'x y.parquet'".into())),
            ("\\h", Command::Functions),
            ("\\h jaccard", Command::Function("jaccard".into())),
            ("\\i 'a b.sql'", Command::Include("a b.sql".into())),
            ("\\quiet", Command::ShowQuiet),
            ("\\quiet on", Command::Quiet(true)),
            ("\\quiet off", Command::Quiet(false)),
            ("\\pset", Command::ShowOptions),
            ("\\pset columns", Command::ShowOptions),
            ("\\pset columns 100", Command::Columns(TableWidth::Limited(100))),
            ("\\pset columns auto", Command::Columns(TableWidth::Auto)),
            ("\\pset expanded on", Command::Expanded(Expanded::On)),
            ("\\x", Command::ToggleExpanded),
            ("\\x auto", Command::Expanded(Expanded::Auto)),
            ("\\pset format NDJSON", Command::Format(Format::NdJson)),
            ("\\pset format csv", Command::Format(Format::Csv)),
        ] {
            assert_eq!(Command::parse(line).unwrap(), command, "{line}");
        }
        for wrong in [
            "\\y",
            "\\",
            "\\i",
            "\\quiet maybe",
            "\\pset format xml",
            "\\pset border 2",
            "\\pset columns 0",
            "\\x maybe",
        ] {
            assert!(matches!(Command::parse(wrong), Err(SessionError::Usage(_))), "{wrong}");
        }
    }
}
