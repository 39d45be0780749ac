//! The figures of a statement as a line.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};
use unicode_width::UnicodeWidthStr;

use super::figures::{Figures, Phase, Unit};

/// Columns of the terminal before the line: the spinner, the time, blanks.
const BEFORE: usize = 10;

/// A line whose parts are left out, the last ones first, where they do not fit.
struct Line {
    phase: &'static str,
    /// The work that is done and all of it, and the same in few characters.
    amount: String,
    short_amount: String,
    /// Figures that are left out first, the last one before the others.
    details: Vec<String>,
    left: Option<String>,
}

impl Line {
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
        (Some(of), Unit::Rows) => {
            (format!("{} of {} rows", HumanCount(figures.done), HumanCount(of)), vec![])
        }
        (Some(of), Unit::Bytes) => {
            (format!("{} of {}", HumanBytes(figures.done), HumanBytes(of)), vec![rows.clone()])
        }
        (Some(_), Unit::RowsOfInputs) | (None, _) => (rows.clone(), vec![]),
    };
    let phase = match figures.phase {
        Phase::Reading => "reading",
        Phase::Indexing => "indexing",
        Phase::Storing | Phase::StoringProbe => "writing to disk",
        Phase::Joining => "joining",
        Phase::JoiningFromDisk => "joining from disk",
    };
    if figures.phase == Phase::JoiningFromDisk {
        amount = format!("piece {}", figures.piece);
        details.clear();
    }
    let is_read = figures.phase == Phase::Indexing && share == Some(1.0);
    if is_read {
        (amount, details) = (rows, vec![]);
    }
    details.extend(match figures.phase {
        Phase::Reading => vec![rate],
        Phase::Indexing => vec![],
        Phase::Storing | Phase::StoringProbe => vec![written],
        Phase::Joining => vec![matches, candidates, rate],
        Phase::JoiningFromDisk => vec![matches, candidates],
    });
    let short_amount = percent.clone().unwrap_or_else(|| amount.clone());
    if let Some(percent) = percent.filter(|_| !is_read) {
        amount = format!("{amount} ({percent})");
    }
    let left = share.filter(|_| figures.is_steady).and_then(|share| time_left(share, in_phase));
    let left = left.map(|left| format!("{} left", minutes(left)));
    Line { phase, amount, short_amount, details, left }.fitted(columns)
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
        phase: Phase::Joining,
        done: 250_000,
        of: Some(1_000_000),
        unit: Unit::Rows,
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
        let storing = Figures { phase: Phase::Storing, ..FIGURES };
        assert_eq!(
            line(storing),
            "writing to disk: 250,000 of 1,000,000 rows (25%), 5.00 MiB written, 0:30 left"
        );
        let bytes = Figures { unit: Unit::Bytes, done: 1 << 20, of: Some(4 << 20), ..storing };
        assert_eq!(
            line(bytes),
            "writing to disk: 1.00 MiB of 4.00 MiB (25%), 250,000 rows, 5.00 MiB written, 0:30 left"
        );
        let unknown = Figures { phase: Phase::Indexing, of: None, ..FIGURES };
        assert_eq!(line(unknown), "indexing: 250,000 rows");
        // Rows that a condition leaves, and the share of those that it was evaluated for.
        let inputs = Figures { unit: Unit::RowsOfInputs, rows: 900, ..unknown };
        let inputs = Figures { of: Some(1_000_000), ..inputs };
        assert_eq!(line(inputs), "indexing: 900 rows (25%), 0:30 left");
        let read = Figures { phase: Phase::Indexing, of: Some(250_000), ..FIGURES };
        assert_eq!(line(read), "indexing: 250,000 rows");
        let from_disk = Figures { phase: Phase::JoiningFromDisk, is_steady: false, ..FIGURES };
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
