//! The choices for the pieces of a join from disk, as EXPLAIN ANALYZE shows them.

use std::fmt::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{Chosen, Nanos};
use crate::exec::build::OnChoice;

/// Called with the choices of all pieces so far.
pub(crate) type ShowChoices = Arc<dyn Fn(String) + Send + Sync>;

/// Different reasons or notes that are shown.
const MOST_SHOWN: usize = 2;

/// The choices of all pieces, summed up: as short for a thousand pieces as for two.
#[derive(Debug, Default)]
struct PieceChoices {
    pieces: usize,
    /// Strategies, and the pieces joined by them.
    strategies: TextCounts,
    /// The places at which strategies run.
    places: TextCounts,
    reasons: TextCounts,
    notes: TextCounts,
    /// The estimated work of all joins of pieces, and how it is done.
    work: f64,
    manners: TextCounts,
    /// The joins of pieces, and by strategy those that have an estimate and their work.
    joins: usize,
    estimates: Vec<(&'static str, usize, f64)>,
}

/// Texts, and how often each came.
#[derive(Debug, Default)]
struct TextCounts(Vec<(String, usize)>);

/// The choices for one piece, which is joined with itself, with other rows, or with both in turn.
#[derive(Debug, Clone, Default)]
pub(super) struct PieceChoice(Arc<Mutex<Vec<Chosen>>>);

impl TextCounts {
    fn add(&mut self, text: &str) {
        match self.0.iter_mut().find(|(known, _)| known == text) {
            Some((_, times)) => *times += 1,
            None => self.0.push((text.to_string(), 1)),
        }
    }

    /// The texts, the most frequent first.
    fn by_times(&self) -> Vec<(&str, usize)> {
        let mut all: Vec<_> = self.0.iter().map(|(text, times)| (text.as_str(), *times)).collect();
        all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        all
    }

    /// Each text with its pieces, where there are several texts or `always`.
    fn of_pieces(&self, pieces: usize, always: bool) -> String {
        let all = self.by_times();
        let several = all.len() > 1 || always;
        let texts = all.iter().enumerate().map(|(i, (text, times))| match (several, i) {
            (false, _) => (*text).to_string(),
            (true, 0) => format!("{text} in {times} of {pieces} pieces"),
            (true, _) => format!("{text} in {times}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

impl PieceChoice {
    /// A function that notes the choices for the next join of the piece.
    pub(super) fn on_choice(&self) -> OnChoice {
        let choices = Arc::clone(&self.0);
        let place = choices.lock().len();
        Arc::new(move |chosen| {
            let mut choices = choices.lock();
            match choices.get_mut(place) {
                Some(before) => *before = chosen,
                None => choices.push(chosen),
            }
        })
    }
}

impl PieceChoices {
    fn add(&mut self, piece: &[Chosen]) {
        let joined = |text: fn(&Chosen) -> &str| {
            let mut texts: Vec<&str> = piece.iter().map(text).collect();
            texts.dedup();
            texts.join(" then ")
        };
        self.pieces += 1;
        self.strategies.add(&joined(|chosen| chosen.strategy));
        self.places.add(&joined(|chosen| &chosen.place));
        for chosen in piece {
            self.joins += 1;
            self.work += chosen.work;
            self.manners.add(chosen.manner.unwrap_or_default());
            self.reasons.add(&chosen.reason);
            self.notes.add(&chosen.notes);
            let itself = (chosen.strategy, chosen.work);
            for (name, work) in chosen.others.iter().copied().chain([itself]) {
                match self.estimates.iter_mut().find(|(known, ..)| *known == name) {
                    Some((_, joins, sum)) => (*joins, *sum) = (*joins + 1, *sum + work),
                    None => self.estimates.push((name, 1, work)),
                }
            }
        }
    }
}

impl fmt::Display for PieceChoices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.strategies.of_pieces(self.pieces, true))?;
        write!(f, " (estimated {}", Nanos(self.work))?;
        if let [(manner, _)] = self.manners.by_times().as_slice()
            && !manner.is_empty()
        {
            write!(f, " {manner}")?;
        }
        // Those that could have joined every piece, but for one that has.
        let only = match self.strategies.0.as_slice() {
            [(only, _)] => only.as_str(),
            _ => "",
        };
        let compared =
            |(name, joins, _): &&(&str, usize, f64)| *joins == self.joins && *name != only;
        let mut others: Vec<_> = self.estimates.iter().filter(compared).collect();
        others.sort_by(|a, b| a.2.total_cmp(&b.2));
        for (i, (name, _, work)) in others.into_iter().enumerate() {
            write!(f, "{} {name} {}", if i == 0 { "; all by" } else { ", by" }, Nanos(*work))?;
        }
        write!(f, "), {}", self.places.of_pieces(self.pieces, false))?;
        let reasons = self.reasons.by_times();
        let mut reasons = reasons.iter().filter(|(reason, _)| !reason.is_empty());
        if let Some((reason, _)) = reasons.next() {
            write!(f, " ({reason}{})", if reasons.next().is_some() { "; …" } else { "" })?;
        }
        let notes = self.notes.by_times();
        let notes: Vec<_> = notes.iter().filter(|(note, _)| !note.is_empty()).collect();
        for (note, times) in notes.iter().take(MOST_SHOWN) {
            write!(f, "{note}")?;
            if *times > 1 {
                write!(f, " ({times} times)")?;
            }
        }
        if notes.len() > MOST_SHOWN {
            f.write_char('…')?;
        }
        Ok(())
    }
}

/// The choices for the pieces that have been joined, of all partitions.
pub(crate) struct AllChoices {
    choices: Mutex<PieceChoices>,
    show: ShowChoices,
}

impl AllChoices {
    /// No choices yet; `show` is called whenever some are added.
    pub(super) fn new(show: ShowChoices) -> Self {
        Self { choices: Mutex::default(), show }
    }

    /// Adds the choices for a piece that has been joined, and shows those of all pieces.
    pub(super) fn add(&self, piece: &PieceChoice) {
        let piece = piece.0.lock();
        if !piece.is_empty() {
            let mut all = self.choices.lock();
            all.add(&piece);
            (self.show)(all.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(strategy: &'static str, work: f64, others: &[(&'static str, f64)]) -> Chosen {
        Chosen {
            strategy,
            work,
            manner: None,
            others: others.to_vec(),
            place: "cpu".to_string(),
            reason: "no GPU".to_string(),
            notes: String::new(),
        }
    }

    #[test]
    fn choices_of_all_pieces_are_summed_up() {
        let mut all = PieceChoices::default();
        for _ in 0..998 {
            all.add(&[chosen("ppjoin", 1e6, &[("bitmap", 3e6), ("scancount", 9e6)])]);
        }
        let text = "ppjoin in 998 of 998 pieces (estimated 998.0 ms; all by bitmap 3.0 s, by \
                    scancount 9.0 s), cpu (no GPU)";
        assert_eq!(all.to_string(), text);
        // A piece with itself, then with others.
        let first = chosen("ppjoin", 1e6, &[("bitmap", 2e6)]);
        let second = chosen("bitmap", 1e6, &[("ppjoin", 2e6)]).noting(", for want of memory");
        all.add(&[first.clone(), first]);
        all.add(&[chosen("ppjoin", 1e6, &[("bitmap", 2e6)]), second]);
        let text = "ppjoin in 999 of 1000 pieces, ppjoin then bitmap in 1 (estimated 1.0 s; all by \
                    ppjoin 1.0 s, by bitmap 3.0 s), cpu (no GPU), for want of memory";
        assert_eq!(all.to_string(), text);
    }

    /// A device that fails while a piece is joined changes the choice of this piece.
    #[test]
    fn the_last_word_on_a_join_of_a_piece_counts() {
        let piece = PieceChoice::default();
        let on_choice = piece.on_choice();
        on_choice(chosen("ppjoin", 1.0, &[]));
        on_choice(chosen("ppjoin", 1.0, &[]).noting(", cuda:0 failed"));
        let next = piece.on_choice();
        next(chosen("bitmap", 1.0, &[]));
        let found = piece.0.lock();
        let found: Vec<_> = found.iter().map(|c| (c.strategy, c.notes.as_str())).collect();
        assert_eq!(found, [("ppjoin", ", cuda:0 failed"), ("bitmap", "")]);
    }
}
