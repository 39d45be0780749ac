//! The figures of a statement as a line.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};
use unicode_width::UnicodeWidthStr;

use super::figures::{Figures, ProgressUnit, StatementPhase};

/// Columns of the terminal before the line: the spinner, the time, blanks.
const BEFORE: usize = 10;

/// A line whose parts are left out, the last ones first, where they do not fit.
struct LineParts {
    phase: &'static str,
    /// The work that is done and all of it, and the same in few characters.
    amount: String,
    short_amount: String,
    /// Figures that are left out first, the last one before the others.
    details: Vec<String>,
    left: Option<String>,
}

impl LineParts {
    fn with(&self, amount: &str, details: usize, left: bool) -> String {
        let left = self.left.as_ref().filter(|_| left);
        let parts = [amount].into_iter();
        let parts = parts.chain(self.details.iter().take(details).map(String::as_str));
        let parts: Vec<&str> = parts.chain(left.map(String::as_str)).collect();
        format!("{}: {}", self.phase, parts.join(", "))
    }

    /// The line in at most `columns` columns, if that is possible.
    fn fitted(&self, columns: usize) -> String {
        let columns = columns.saturating_sub(BEFORE);
        let all = self.details.len();
        let with_details = (0..=all).rev().map(|details| self.with(&self.amount, details, true));
        let shorter = [(&self.amount, false), (&self.short_amount, true)]
            .map(|(amount, left)| self.with(amount, 0, left));
        let last = self.with(&self.short_amount, 0, false);
        with_details.chain(shorter).find(|line| line.width() <= columns).unwrap_or(last)
    }
}

/// The line of a statement that has run for `elapsed`, in this phase for `in_phase`.
pub(super) fn of(
    figures: Figures,
    elapsed: Duration,
    in_phase: Duration,
    columns: usize,
) -> String {
    let rows = format!("{} rows", HumanCount(figures.rows));
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = format!("{} rows/s", HumanCount((figures.rows as f64 / seconds) as u64));
    let written = format!("{} written", HumanBytes(figures.bytes_written));
    let candidates = format!("{} candidates", HumanCount(figures.candidates));
    let matches = format!("{} matches", HumanCount(figures.matches));

    let share = figures.of.filter(|of| *of > 0).map(|of| figures.done as f64 / of as f64);
    let percent = share.map(|share| format!("{:.0}%", (100.0 * share).floor()));
    let (mut amount, mut details) = match (figures.of, figures.unit) {
        (Some(of), ProgressUnit::Rows) => {
            (format!("{} of {} rows", HumanCount(figures.done), HumanCount(of)), vec![])
        }
        (Some(of), ProgressUnit::Bytes) => {
            (format!("{} of {}", HumanBytes(figures.done), HumanBytes(of)), vec![rows.clone()])
        }
        (Some(_), ProgressUnit::RowsOfInputs) | (None, _) => (rows.clone(), vec![]),
    };
    let phase = match figures.phase {
        StatementPhase::Reading => "reading",
        StatementPhase::Indexing => "indexing",
        StatementPhase::Storing | StatementPhase::StoringProbe => "writing to disk",
        StatementPhase::Joining => "joining",
        StatementPhase::JoiningFromDisk => "joining from disk",
    };
    if figures.phase == StatementPhase::JoiningFromDisk {
        amount = format!("piece {}", figures.piece);
        details.clear();
    }
    let is_read = figures.phase == StatementPhase::Indexing && share == Some(1.0);
    if is_read {
        (amount, details) = (rows, vec![]);
    }
    details.extend(match figures.phase {
        StatementPhase::Reading => vec![rate],
        StatementPhase::Indexing => vec![],
        StatementPhase::Storing | StatementPhase::StoringProbe => vec![written],
        StatementPhase::Joining => vec![matches, candidates, rate],
        StatementPhase::JoiningFromDisk => vec![matches, candidates],
    });
    let short_amount = percent.clone().unwrap_or_else(|| amount.clone());
    if let Some(percent) = percent.filter(|_| !is_read) {
        amount = format!("{amount} ({percent})");
    }
    let left = share.filter(|_| figures.is_steady).and_then(|share| time_left(share, in_phase));
    let left = left.map(|left| format!("{} left", minutes(left)));
    LineParts { phase, amount, short_amount, details, left }.fitted(columns)
}

/// The time that the rest takes where `share` of the work took `elapsed`; `None` where that says
/// little yet, or the rest takes less than a second.
fn time_left(share: f64, elapsed: Duration) -> Option<Duration> {
    const LEAST_SHARE: f64 = 0.03;
    const LEAST_TIME: Duration = Duration::from_secs(2);
    if !(LEAST_SHARE..1.0).contains(&share) || elapsed < LEAST_TIME {
        return None;
    }
    let left = elapsed.mul_f64((1.0 - share) / share);
    (left >= Duration::from_secs(1)).then_some(left)
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        phase: StatementPhase::Joining,
        done: 250_000,
        of: Some(1_000_000),
        unit: ProgressUnit::Rows,
        rows: 250_000,
        candidates: 5_000,
        matches: 70,
        piece: 3,
        bytes_written: 5 << 20,
        is_steady: true,
    };

    fn line(figures: Figures, columns: usize) -> String {
        of(figures, Duration::from_secs(20), Duration::from_secs(10), columns)
    }

    #[test]
    fn lines_say_how_much_is_done_and_left() {
        let line = |figures| line(figures, 200);
        let joining = "joining: 250,000 of 1,000,000 rows (25%), 70 matches, 5,000 candidates, 12,500 \
                       rows/s";
        assert_eq!(line(FIGURES), format!("{joining}, 0:30 left"));
        assert_eq!(line(Figures { is_steady: false, ..FIGURES }), joining);
        let storing = Figures { phase: StatementPhase::Storing, ..FIGURES };
        assert_eq!(
            line(storing),
            "writing to disk: 250,000 of 1,000,000 rows (25%), 5.00 MiB written, 0:30 left"
        );
        let bytes =
            Figures { unit: ProgressUnit::Bytes, done: 1 << 20, of: Some(4 << 20), ..storing };
        assert_eq!(
            line(bytes),
            "writing to disk: 1.00 MiB of 4.00 MiB (25%), 250,000 rows, 5.00 MiB written, 0:30 left"
        );
        let unknown = Figures { phase: StatementPhase::Indexing, of: None, ..FIGURES };
        assert_eq!(line(unknown), "indexing: 250,000 rows");
        // Rows that a condition leaves, and the share of those that it was evaluated for.
        let inputs = Figures { unit: ProgressUnit::RowsOfInputs, rows: 900, ..unknown };
        let inputs = Figures { of: Some(1_000_000), ..inputs };
        assert_eq!(line(inputs), "indexing: 900 rows (25%), 0:30 left");
        let read = Figures { phase: StatementPhase::Indexing, of: Some(250_000), ..FIGURES };
        assert_eq!(line(read), "indexing: 250,000 rows");
        let from_disk =
            Figures { phase: StatementPhase::JoiningFromDisk, is_steady: false, ..FIGURES };
        assert_eq!(
            line(from_disk),
            "joining from disk: piece 3 (25%), 70 matches, 5,000 candidates"
        );
        // All is done with the last row alone.
        let last = Figures { done: 999_999, ..FIGURES };
        assert!(line(last).contains("(99%)"), "{}", line(last));
        assert_eq!(time_left(0.5, Duration::from_secs(1)), None);
        assert_eq!(time_left(0.01, Duration::from_secs(60)), None);
        assert_eq!(time_left(0.99, Duration::from_secs(60)), None);
        assert_eq!(minutes(Duration::from_secs(3725)), "1:02:05");
    }

    #[test]
    fn a_narrow_terminal_has_the_share_and_the_time_left() {
        for (columns, expected) in [
            (80, "joining: 250,000 of 1,000,000 rows (25%), 70 matches, 0:30 left"),
            (70, "joining: 250,000 of 1,000,000 rows (25%), 0:30 left"),
            (52, "joining: 250,000 of 1,000,000 rows (25%)"),
            (40, "joining: 25%, 0:30 left"),
            (25, "joining: 25%"),
        ] {
            assert_eq!(line(FIGURES, columns), expected, "{columns}");
        }
        let unknown = Figures { of: None, ..FIGURES };
        assert_eq!(line(unknown, 40), "joining: 250,000 rows");
    }
}
