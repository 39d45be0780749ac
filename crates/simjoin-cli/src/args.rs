//! The command line's flags.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use simjoin_session::args::SessionArgs;

use super::cluster_args::Process;
use super::output::{Format, PrintOptions};
use super::verb_args::VerbCommand;
use simjoin_session::table::{Expanded, MaxRows, TableWidth};

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub enum Task {
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    Verb(VerbCommand),
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    Process(Process),
}

/// Finds similar rows, exactly: near-duplicates, records of one thing in two tables, misspelt names, nearest
/// rows; of texts, sets of tokens and vectors. A command does a whole job over files (simjoin dedupe --help);
/// without one, statements of SQL come from -c, -f or standard input, with a prompt where that is a terminal;
/// \? lists the commands there, \h the functions.
#[derive(Debug, Parser)]
#[command(name = "simjoin", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(subcommand)]
    pub task: Option<Task>,

    /// Run the SQL or backslash command and exit; repeatable
    #[arg(short = 'c', long, value_name = "SQL", num_args = 1..)]
    pub command: Vec<String>,

    /// Run the statements of a file and exit; repeatable
    #[arg(short = 'f', long, value_name = "FILE", num_args = 1..)]
    pub file: Vec<PathBuf>,

    /// Run the statements of a file before everything else [default: ~/.simjoinrc at the prompt]
    #[arg(short = 'r', long, value_name = "FILE", num_args = 1..)]
    pub rc: Vec<PathBuf>,

    /// Go on after a statement that fails; the exit status is 1 all the same
    #[arg(long)]
    pub keep_going: bool,

    /// Folder that file names are relative to [default: the current one]
    #[arg(short = 'p', long, value_name = "DIR")]
    pub data_path: Option<PathBuf>,

    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub session: SessionArgs,

    /// Format of results
    #[arg(long, default_value = "automatic", ignore_case = true)]
    pub format: Format,

    /// Print results only: no times, row counts or progress
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Rows printed per result in the table format: a number or inf
    #[arg(long, value_name = "N", default_value = "40")]
    pub maxrows: MaxRows,

    /// Whether tables are turned, a line for each column of a row
    #[arg(long, value_name = "WHEN", default_value = "auto", ignore_case = true)]
    pub expanded: Expanded,

    /// Columns that tables are fitted to: a number, auto for those of the terminal, or inf
    #[arg(long, value_name = "N", default_value = "auto")]
    pub columns: TableWidth,

    /// Colour the statements at the prompt
    #[arg(long)]
    pub color: bool,
}

impl Args {
    /// Reads a command line. Prints help, version and mistakes itself, and exits.
    pub(super) fn read<A: Into<OsString> + Clone>(args: impl IntoIterator<Item = A>) -> Self {
        Self::try_parse_from(args).unwrap_or_else(|error| with_tip(error).exit())
    }

    pub(super) fn print_options(&self) -> PrintOptions {
        PrintOptions {
            format: self.format,
            quiet: self.quiet,
            counts: true,
            maxrows: self.maxrows,
            expanded: self.expanded,
            columns: self.columns,
        }
    }
}

/// A bare word is a sub-command to the parser; mostly a file or a statement was meant.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let tip = match word.trim().contains(char::is_whitespace) {
        true => format!("to run statements, write: simjoin -c {}", in_quotes(word)),
        false => format!("to run the statements of a file, write: simjoin -f {word}"),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The text as one word of a POSIX shell, in single quotes.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use simjoin_session::args::PoolType;

    use super::*;

    #[test]
    fn statements_and_files_without_a_flag_get_a_tip() {
        for (word, tip) in [
            ("SELECT 1", "write: simjoin -c 'SELECT 1'"),
            ("SELECT 'it''s'", r"write: simjoin -c 'SELECT '\''it'\'''\''s'\'''"),
            ("a.sql", "write: simjoin -f a.sql"),
        ] {
            let error = with_tip(Args::try_parse_from(["simjoin", word]).unwrap_err()).to_string();
            assert!(error.contains(tip), "{error}");
        }
    }

    #[test]
    fn flags_are_those_of_datafusion_cli() {
        let args = Args::parse_from([
            "simjoin",
            "-q",
            "-c",
            "SELECT 1",
            "-c",
            "SELECT 2",
            "-f",
            "a.sql",
            "b.sql",
            "--format",
            "CSV",
            "--maxrows",
            "inf",
            "-m",
            "2g",
            "--mem-pool-type",
            "fair",
            "-d",
            "10g",
            "-b",
            "100",
            "-p",
            "/",
            "-r",
            "rc",
            "--color",
            "--expanded",
            "on",
            "--columns",
            "100",
        ]);
        assert_eq!(args.command, ["SELECT 1", "SELECT 2"]);
        assert_eq!(args.file.len(), 2);
        let options = args.print_options();
        assert_eq!(options.format, Format::Csv);
        assert_eq!(options.maxrows, MaxRows::Unlimited);
        assert!(options.quiet && args.color);
        assert_eq!((options.expanded, options.columns), (Expanded::On, TableWidth::Limited(100)));
        assert_eq!(args.session.memory_limit, Some(2 << 30));
        assert_eq!(args.session.mem_pool_type, PoolType::Fair);
        assert_eq!(args.session.batch_size, Some(100));

        let args = Args::parse_from(["simjoin"]);
        assert_eq!(args.print_options().maxrows, MaxRows::Limited(40));
        assert_eq!(args.print_options().format, Format::Automatic);
        for wrong in [
            ["-b", "0"],
            ["-m", "much"],
            ["--maxrows", "-1"],
            ["--format", "xml"],
            ["--columns", "0"],
        ] {
            assert!(Args::try_parse_from(["simjoin"].into_iter().chain(wrong)).is_err());
        }
        for (name, format) in [("nd-json", Format::NdJson), ("ndjson", Format::NdJson)] {
            assert_eq!(Args::parse_from(["simjoin", "--format", name]).format, format);
        }
    }
}
