//! The words that verbs have in common: files, questions, ids, and how they run.

use std::path::PathBuf;

use simjoin_session::errors::SessionError;

use super::verb_args::{CompareArgs, PairArgs, QuestionArgs, RunArgs, VerbCommand};

impl VerbCommand {
    /// The flags of every verb.
    pub(super) fn run_args(&self) -> &RunArgs {
        match self {
            Self::Dedupe(args) => &args.run,
            Self::Pairs(args) => &args.run,
            Self::Clusters(args) => &args.run,
            Self::Thresholds(args) => &args.run,
            Self::Link(args) => &args.run,
            Self::Join(args) => &args.run,
            Self::Match(args) => &args.run,
            Self::Nearest(args) => &args.run,
            Self::Evaluate(args) => &args.run,
            Self::Compare(args) => &args.run,
            Self::Report(args) => &args.run,
        }
    }

    /// The files whose rows are compared.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let one_or_two = |file: &PathBuf, others: &Option<PathBuf>| {
            [file].into_iter().chain(others).cloned().collect()
        };
        match self {
            Self::Evaluate(args) => args.of.clone(),
            Self::Dedupe(args) => vec![args.file.clone()],
            Self::Pairs(args) => vec![args.file.clone()],
            Self::Clusters(args) => vec![args.file.clone()],
            Self::Thresholds(args) => one_or_two(&args.file, &args.others),
            Self::Link(args) => vec![args.ours.clone(), args.theirs.clone()],
            Self::Join(args) => vec![args.ours.clone(), args.theirs.clone()],
            Self::Match(args) => vec![args.ours.clone(), args.theirs.clone()],
            Self::Nearest(args) => one_or_two(&args.file, &args.others),
            Self::Report(args) => one_or_two(&args.file, &args.others),
            Self::Compare(args) => args.files(),
        }
    }

    /// The files of pairs beside them: marked ones, or links and true pairs.
    pub(super) fn pair_files(&self) -> Vec<&PathBuf> {
        match self {
            Self::Evaluate(args) => vec![&args.links, &args.truth],
            Self::Dedupe(args) => args.labels.iter().collect(),
            Self::Clusters(args) => args.labels.iter().collect(),
            Self::Report(args) => args.labels.iter().collect(),
            _ => vec![],
        }
    }

    /// The flags of the question.
    pub(super) fn question(&self) -> Option<&QuestionArgs> {
        Some(match self {
            Self::Dedupe(args) => &args.question,
            Self::Pairs(args) => &args.question,
            Self::Clusters(args) => &args.question,
            Self::Thresholds(args) => &args.question,
            Self::Link(args) => &args.question,
            Self::Join(args) => &args.question,
            Self::Match(args) => &args.question,
            Self::Nearest(args) => &args.question,
            Self::Compare(args) => &args.question,
            Self::Report(args) => &args.question,
            Self::Evaluate(args) if args.of.is_empty() => return None,
            Self::Evaluate(args) => &args.question,
        })
    }

    /// The column that tells rows.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Evaluate(args) => args.id.as_deref(),
            Self::Compare(args) => args.id.as_deref(),
            Self::Clusters(args) => args.id.as_deref(),
            _ => self.pair()?.id.as_deref(),
        }
    }

    /// The flags of pairs of rows.
    pub(super) fn pair(&self) -> Option<&PairArgs> {
        match self {
            Self::Dedupe(args) => Some(&args.pair),
            Self::Pairs(args) => Some(&args.pair),
            Self::Clusters(_)
            | Self::Thresholds(_)
            | Self::Evaluate(_)
            | Self::Compare(_)
            | Self::Join(_) => None,
            Self::Report(args) => Some(&args.pair),
            Self::Link(args) => Some(&args.pair),
            Self::Match(args) => Some(&args.pair),
            Self::Nearest(args) => Some(&args.pair),
        }
    }
}

impl CompareArgs {
    /// Checks that there are a file or two, and two rows.
    ///
    /// # Errors
    ///
    /// When there are more or fewer words.
    pub(super) fn check(&self) -> Result<(), SessionError> {
        match self.rows.len() {
            3 | 4 => Ok(()),
            count => Err(SessionError::Usage(format!(
                "compare takes a file or two, and two rows: simjoin compare FILE [OTHER] LEFT RIGHT --on COLUMN; found {count}"
            ))),
        }
    }
}
