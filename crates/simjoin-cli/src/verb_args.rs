//! The sub-commands that do a whole job over files: near-duplicates, groups, links, nearest rows.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use simjoin_session::args::SessionArgs;
use simjoin_session::size::parse_size;
use simjoin_session::table::{Expanded, MaxRows, TableWidth};
use simjoin_session::verbs::{Fold, How, Keep, measures};

use super::output::{Format, PrintOptions};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum VerbCommand {
    /// Drop near-duplicates: of similar rows one stays
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin dedupe people.csv --on name --at-least 0.8 --keep longest \
                            -o kept.csv --audit dropped.csv"
    )]
    Dedupe(DedupeArgs),
    /// List the pairs of similar rows of a file
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin pairs people.csv --on name --key city --at-least 0.8"
    )]
    Pairs(PairsArgs),
    /// Put similar rows into groups
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin clusters people.csv --on name --at-least 0.8 --grouped"
    )]
    Clusters(ClustersArgs),
    /// Show what each threshold would give: pairs, groups, and pairs at the border
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin thresholds people.csv --on name --at-least 0.5"
    )]
    Thresholds(ThresholdsArgs),
    /// List the pairs of similar rows of two files
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin link ours.csv theirs.csv --on name=label --key country \
                            --at-least 0.7 -o links.csv"
    )]
    Link(LinkArgs),
    /// Join two files by similarity: the columns of both rows of each pair
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin join ours.csv theirs.csv --on name=label --key country \
                            --at-least 0.7 --how left -o joined.csv"
    )]
    Join(JoinArgs),
    /// Match the rows of two files one to one: each has one partner at most
    #[command(
        disable_help_flag = true,
        name = "match",
        after_help = "Example:\n  simjoin match ours.csv theirs.csv --on name,0.6 \
                            --on street,levenshtein_similarity,0.4 --at-least 0.7"
    )]
    Match(MatchArgs),
    /// Hold links against true pairs: precision, recall and F1 by threshold
    #[command(
        disable_help_flag = true,
        mut_arg("on", |on| on.required(false)),
        after_help = "Example:\n  simjoin evaluate links.csv truth.csv --missed missed.csv \
                      --of ours.csv --of theirs.csv --on name --key city --at-least 0.8 --id id"
    )]
    Evaluate(EvaluateArgs),
    /// Show how two rows compare: what they share, what differs, and why they are similar or not
    #[command(
        disable_help_flag = true,
        override_usage = "simjoin compare [OPTIONS] --on <COLUMN> <FILE> [OTHER] <LEFT> <RIGHT>",
        after_help = "Example:\n  simjoin compare people.csv 1 3 --on name --key city --at-least 0.8"
    )]
    Compare(CompareArgs),
    /// Write a page to review: scores by a slider, pairs at the border, groups, marks of yes and no
    #[command(
        disable_help_flag = true,
        mut_arg("show", |show| show.help("Columns on the page beside the compared ones, between commas [default: all]")),
        after_help = "Example:\n  simjoin report people.csv --on name --at-least 0.8 -o report.html"
    )]
    Report(ReportArgs),
    /// List the nearest rows of each row, of the same file or of another one
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  simjoin nearest names.csv register.csv --on name \
                            --measure jaro_winkler -k 3"
    )]
    Nearest(NearestArgs),
}

/// The flags of the question which rows are similar.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is similar")]
pub struct QuestionArgs {
    /// Column to compare, COLUMN=OTHER where the second file has another name for it; repeatable, each
    /// with its part of the score: COLUMN,WEIGHT, COLUMN,MEASURE,WEIGHT, COLUMN,MEASURE,WEIGHT,TOKENIZER
    #[arg(long, value_name = "COLUMN", required = true)]
    pub on: Vec<String>,

    /// Least similarity, or least weighted sum [default: 0.8, 0.9 of jaro and of vectors; nearest: none]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub at_least: Option<f64>,

    /// Greatest distance
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub at_most: Option<f64>,

    /// Measure: jaccard, dice, cosine, tfidf, levenshtein, levenshtein_similarity, jaro_winkler, euclidean …
    /// [default: jaccard, of vectors euclidean]
    #[arg(long, value_name = "NAME")]
    pub measure: Option<String>,

    /// How texts become sets: qgrams:3, words or shingles:2 [default: qgrams:3]
    #[arg(long, value_name = "NAME")]
    pub tokenizer: Option<String>,

    /// Spellings that do not count: lower, accents, punctuation, spaces, between commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub fold: Vec<Fold>,

    /// Column that similar rows have in common, or COLUMN=OTHER; repeatable
    #[arg(long, value_name = "COLUMN")]
    pub key: Vec<String>,
}

/// The flags of what is told of pairs of rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct PairArgs {
    /// Column that tells rows, or COLUMN=OTHER [default: their numbers, from 1]
    #[arg(long, value_name = "COLUMN")]
    pub id: Option<String>,

    /// Columns to give of both rows, between commas [default: the compared ones]
    #[arg(long, value_name = "COLUMNS")]
    pub show: Option<String>,
}

/// The rows without a partner that a result has.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Unpaired {
    /// None
    Inner,
    /// Rows of the first file
    Left,
    /// Rows of the second file
    Right,
    /// Rows of both files
    Full,
}

impl From<Unpaired> for How {
    fn from(unpaired: Unpaired) -> Self {
        match unpaired {
            Unpaired::Inner => Self::Inner,
            Unpaired::Left => Self::Left,
            Unpaired::Right => Self::Right,
            Unpaired::Full => Self::Full,
        }
    }
}

/// The flags of every verb: the result's file, and how it runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub struct RunArgs {
    /// File for the result, of the format of its name: csv, json, parquet, arrow … [default: the terminal]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print the statements of SQL instead of running them
    #[arg(long)]
    pub explain: bool,

    /// Greatest memory for the data, such as 512m or 2g [default: no limit]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,

    /// Format of what is printed: table, csv, tsv, json, nd-json or arrow
    #[arg(
        long,
        default_value = "automatic",
        ignore_case = true,
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub format: Format,

    /// Print results only: no counts, no progress
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Rows printed in the table format: a number or inf
    #[arg(long, value_name = "N", default_value = "40")]
    pub maxrows: MaxRows,

    /// Print help
    #[arg(short = 'h', long, action = ArgAction::HelpShort)]
    pub help: Option<bool>,
}

impl RunArgs {
    /// The options of the session.
    pub(super) fn session(&self) -> SessionArgs {
        SessionArgs { memory_limit: self.memory_limit, ..SessionArgs::default() }
    }

    pub(super) fn print_options(&self) -> PrintOptions {
        PrintOptions {
            format: self.format,
            quiet: self.quiet,
            // Other programs read nothing but rows.
            counts: matches!(self.format, Format::Automatic | Format::Table),
            maxrows: self.maxrows,
            expanded: Expanded::Auto,
            columns: TableWidth::Auto,
        }
    }
}

#[derive(Debug, Args)]
pub struct DedupeArgs {
    /// File of the rows: CSV, JSON, Parquet or Arrow; - for standard input, as CSV
    pub file: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Row that stays of similar ones: first, last, longest, shortest, max:COLUMN or min:COLUMN
    #[arg(long, default_value = "first", help_heading = "Result")]
    pub keep: Keep,
    /// File for the dropped rows, each with the row that stays for it
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub audit: Option<PathBuf>,
    /// File of marked pairs: left, right and label, which is yes or no, as a report exports them
    #[arg(long, value_name = "FILE", help_heading = "What is similar")]
    pub labels: Option<PathBuf>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct PairsArgs {
    /// File of the rows; - for standard input, as CSV
    pub file: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct ClustersArgs {
    /// File of the rows; - for standard input, as CSV
    pub file: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Give groups of several rows alone, the largest first
    #[arg(long, help_heading = "Result")]
    pub grouped: bool,
    /// File of marked pairs: left, right and label, which is yes or no, as a report exports them
    #[arg(long, value_name = "FILE", help_heading = "What is similar")]
    pub labels: Option<PathBuf>,
    /// Column that tells rows, where labels tell them so [default: their numbers, from 1]
    #[arg(long, value_name = "COLUMN", help_heading = "What is similar")]
    pub id: Option<String>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct ThresholdsArgs {
    /// File of the rows; - for standard input, as CSV
    pub file: PathBuf,
    /// Second file, whose rows are linked with those of the first
    pub others: Option<PathBuf>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Difference of two thresholds [default: 0.05 of similarities, 1 of edits]
    #[arg(long, value_name = "NUMBER", help_heading = "Result")]
    pub step: Option<f64>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct LinkArgs {
    /// First file; - for standard input, as CSV
    pub ours: PathBuf,
    /// Second file
    pub theirs: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Rows without a partner that the result has
    #[arg(long, default_value = "inner", help_heading = "Result")]
    pub how: Unpaired,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct JoinArgs {
    /// First file; - for standard input, as CSV
    pub ours: PathBuf,
    /// Second file
    pub theirs: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Rows that the result has: with a partner (inner), or others too; or rows of the first file alone, with a partner
    /// (semi) or without one (anti)
    #[arg(
        long,
        default_value = "inner",
        help_heading = "Result",
        hide_possible_values = true,
        value_name = "inner, left, right, full, semi, anti"
    )]
    pub how: JoinKind,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

/// The rows that a join has.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[allow(missing_docs, reason = "clap would print it")]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

impl From<JoinKind> for How {
    fn from(kind: JoinKind) -> Self {
        match kind {
            JoinKind::Inner => Self::Inner,
            JoinKind::Left => Self::Left,
            JoinKind::Right => Self::Right,
            JoinKind::Full => Self::Full,
            JoinKind::Semi => Self::Semi,
            JoinKind::Anti => Self::Anti,
        }
    }
}

#[derive(Debug, Args)]
pub struct MatchArgs {
    /// First file; - for standard input, as CSV
    pub ours: PathBuf,
    /// Second file
    pub theirs: PathBuf,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// File of the links: the first two columns tell the rows of a pair; with a column score, by threshold
    pub links: PathBuf,
    /// File of the true pairs: the first two columns tell the rows
    pub truth: PathBuf,
    /// A pair is the same in both orders: both rows are of one table
    #[arg(long, help_heading = "What is true")]
    pub unordered: bool,
    /// Files whose first column tells a row and whose second one, or cluster, its group
    #[arg(long, value_name = "WHICH", help_heading = "What is true")]
    pub groups: Option<Grouped>,
    /// File for the true pairs that are no links
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub missed: Option<PathBuf>,
    /// File of the linked rows, for the reason of each missed pair; twice for two files
    #[arg(long, value_name = "FILE", help_heading = "What is similar", requires_all = ["on", "missed"])]
    pub of: Vec<PathBuf>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Column that tells rows, or COLUMN=OTHER [default: their numbers, from 1]
    #[arg(long, value_name = "COLUMN", help_heading = "What is similar")]
    pub id: Option<String>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

/// The files that have groups of rows in place of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Grouped {
    /// The true pairs
    Truth,
    /// The links
    Links,
    /// Both
    Both,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The file, a second one where the rows are of two, and both rows: numbers, or values of --id
    #[arg(value_names = ["FILE", "LEFT", "RIGHT"], num_args = 1.., required = true)]
    pub rows: Vec<String>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Column that tells rows, or COLUMN=OTHER [default: their numbers, from 1]
    #[arg(long, value_name = "COLUMN", help_heading = "What is similar")]
    pub id: Option<String>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

impl EvaluateArgs {
    /// Whether lesser scores are better: the question names a greatest distance, or a measure that is one.
    pub(super) fn is_distance(&self) -> bool {
        let measure = self.question.measure.as_deref();
        let named = measures().into_iter().find(|known| Some(known.name) == measure);
        self.question.at_most.is_some() || named.is_some_and(|measure| measure.is_distance)
    }
}

impl CompareArgs {
    /// The files, one or two.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let count = self.rows.len().saturating_sub(2);
        self.rows.iter().take(count).map(PathBuf::from).collect()
    }

    /// The rows.
    pub(super) fn pair(&self) -> [&str; 2] {
        let place = self.rows.len().saturating_sub(2);
        [place, place + 1].map(|place| self.rows.get(place).map_or("", String::as_str))
    }
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// File of the rows; - for standard input, as CSV
    pub file: PathBuf,
    /// Second file, whose rows are linked with those of the first
    pub others: Option<PathBuf>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Weakest score to look at, beyond the threshold [default: 0.15 below a similarity, half above a distance]
    #[arg(long, value_name = "NUMBER", help_heading = "What is similar")]
    pub down_to: Option<f64>,
    /// File of pairs that were marked before
    #[arg(long, value_name = "FILE", help_heading = "What is similar")]
    pub labels: Option<PathBuf>,
    /// Most pairs on the page, the best ones
    #[arg(long, value_name = "N", default_value = "100000", help_heading = "Result")]
    pub most: u32,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct NearestArgs {
    /// File of the rows whose nearest ones are listed; - for standard input, as CSV
    pub file: PathBuf,
    /// File of the rows that are found [default: the first one, where a row is not its own nearest]
    pub others: Option<PathBuf>,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Rows to list for each
    #[arg(short = 'k', long, value_name = "N", default_value = "1", help_heading = "Result",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// List rows as near as the last one, too
    #[arg(long, help_heading = "Result")]
    pub with_ties: bool,
    /// List rows without a near one, too
    #[arg(long, help_heading = "Result")]
    pub all: bool,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub pair: PairArgs,
    #[allow(missing_docs, reason = "clap would print it")]
    #[command(flatten)]
    pub run: RunArgs,
}
