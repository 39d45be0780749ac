//! Joins by deletion neighbourhoods.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::collection::Strings;
use super::deletions::{
    DeletionProbes, Deletions, MAX_K, Own, OwnProbes, OwnSearcher, Searcher, Symbols, residuals,
};
use super::join::StringJoin;
use super::rules::Symbol;
use crate::engine::{
    Cost, Cursor, DevicePlace, Estimate, ItemId, Lookup, Match, MatchSpec, Pairing, PrepareContext,
    PreparedJoin, Strategy, Terms, Unit, lookup_cursor,
};
use crate::error::{Result, internal_err, resources_err};
use crate::memory::{Memory, Reservation};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// Looks up what is left of a text after up to two deletions in an index of what is left of the build texts.
#[derive(Debug)]
pub(super) struct Neighbourhoods;

/// A bound on the bytes of an index of texts of so many scalars in all, whose longest has `longest`.
pub(super) fn index_bytes(rows: usize, scalars: usize, longest: usize, edits: u32) -> usize {
    // Residuals grow with the square of the length: most where a few texts have all scalars.
    let longest = longest.max(1) as u64;
    let of_longest = residuals(longest, edits);
    let texts = (scalars as u64 / longest + 1).min(rows as u64);
    let all = of_longest.saturating_mul(texts).saturating_add(rows as u64);
    let bytes = bytes_for(Pairing::Unordered, rows as u64, all);
    bytes.max(bytes_for(Pairing::All, rows as u64, all)).saturating_add(4 * scalars)
}

/// The bytes that an index of so many texts and residuals takes at most, while it is made.
fn bytes_for(pairing: Pairing, texts: u64, residuals: u64) -> usize {
    let bytes = match pairing {
        Pairing::Unordered => Own::bytes_for(texts, residuals),
        Pairing::All => Deletions::bytes_for(residuals),
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The residuals of all texts of a collection.
fn residual_count(strings: &Strings, edits: u32) -> u64 {
    let of_run = |run: &super::collection::Run| {
        residuals(u64::from(run.len), edits).saturating_mul(run.items.len() as u64)
    };
    strings.runs().iter().map(of_run).fold(0, u64::saturating_add)
}

impl Strategy<StringJoin> for Neighbourhoods {
    fn name(&self) -> &'static str {
        "deletions"
    }

    fn estimate(&self, join: &mut StringJoin, terms: &Terms<'_>) -> Result<Estimate> {
        /// Nanoseconds to store and look up a residual of a text, and for the candidates that it brings
        /// (more with two deletions), by the number of deletions.
        const RESIDUAL: [f64; 3] = [60.0, 50.0, 90.0];
        /// Nanoseconds for a residual of texts that look for each other, and for a candidate.
        const OWN_RESIDUAL: f64 = 30.0;
        const CANDIDATE: f64 = 45.0;
        /// Candidates for each match: what is met more than once included.
        const CANDIDATES: [f64; 3] = [1.0, 1.5, 3.0];
        let Some(edits) = join.threshold.deletions() else {
            return Ok(Estimate::new(None, ()));
        };
        let count = residual_count(&join.build, edits);
        // An index that memory has no room for is no choice, unless it is named.
        let bytes = bytes_for(join.spec.pairing(), join.build.len().into(), count);
        let reservation = terms.context.reservation.new_empty();
        if !terms.is_only && (count > MOST_RESIDUALS || reservation.try_grow(bytes).is_err()) {
            return Ok(Estimate::new(None, ()));
        }
        let nanos = match (join.spec.pairing(), join.sampled_pairs()) {
            (Pairing::Unordered, Some(pairs)) => {
                OWN_RESIDUAL * count as f64 + CANDIDATE * CANDIDATES[edits as usize] * pairs
            }
            _ => {
                let each = 0.5 * RESIDUAL[edits as usize] * count as f64;
                each + each * join.build.probe_ratio(&join.spec)
            }
        };
        Ok(Estimate::new(Some(Cost::cpu(nanos)), ()))
    }

    fn prepare(
        &self,
        join: &StringJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Some(edits) = join.threshold.deletions() else {
            return internal_err!(
                "deletions find texts within {MAX_K} edits of levenshtein, and equal ones"
            );
        };
        let PrepareContext { reservation, cancel, threads, .. } = context;
        let build = Arc::clone(&join.build);
        let count = residual_count(&build, edits);
        let is_ascii = build.text.is_ascii();
        let scalars = if is_ascii { 0 } else { 4 * build.codes.len() };
        let bytes = bytes_for(join.spec.pairing(), build.len().into(), count);
        reservation.try_grow(bytes.saturating_add(scalars))?;
        let wide = if is_ascii { vec![] } else { build.text.chars().map(u32::from).collect() };
        let how = Indexing { edits, pairing: join.spec.pairing(), threads, cancel };
        let index = match is_ascii {
            true => ResidualIndex::of(&build, ascii(&build), how),
            false => ResidualIndex::of(
                &build,
                Symbols { symbols: &wide[..], starts: &build.code_starts },
                how,
            ),
        };
        let Some(index) = index? else {
            return resources_err!(
                "an index of {count} residuals has more than 2^32; SET simjoin.strategy = 'boxes'"
            );
        };
        // Boxes that were compared go with the choice.
        let unused = bytes.saturating_sub(index.bytes()) + join.index_bytes();
        reservation.shrink(unused.min(reservation.size()));
        let spec = join.spec;
        let longest = build.runs().iter().map(|run| run.len).max().unwrap_or(0);
        let (index, wide) = (Arc::new(index), wide.into());
        Ok(Arc::new(PreparedDeletions { build, index, wide, edits, longest, spec }))
    }
}

/// The most residuals of an index.
const MOST_RESIDUALS: u64 = u32::MAX as u64;

/// The bytes of texts of ASCII.
fn ascii(strings: &Strings) -> Symbols<'_, u8> {
    Symbols { symbols: strings.text.as_bytes(), starts: &strings.text_starts }
}

/// An index of the residuals of the build texts.
#[derive(Debug)]
enum ResidualIndex {
    /// An index for any probe texts.
    Any(Deletions),
    /// An index for the build texts as probes, each pair once.
    Own(Own),
}

/// The settings by which an index is made.
struct Indexing<'a> {
    edits: u32,
    pairing: Pairing,
    threads: Threads,
    cancel: &'a CancelFlag,
}

impl ResidualIndex {
    /// The index of all build texts; `None` where they are too many.
    fn of<T: Symbol>(
        build: &Strings,
        symbols: Symbols<'_, T>,
        how: Indexing<'_>,
    ) -> Result<Option<Self>> {
        let Indexing { edits, pairing, threads, cancel } = how;
        let seed = |item: ItemId| build.run_of(item).map_or(0, |run| u64::from(run.key));
        if pairing == Pairing::Unordered {
            let own = Own::build(symbols, build.len(), edits, seed, threads, cancel)?;
            return Ok(own.map(Self::Own));
        }
        let index = Deletions::build(symbols, 0..build.len(), edits, seed, threads, cancel)?;
        Ok((index.items() == (0..build.len())).then_some(Self::Any(index)))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Any(index) => index.bytes(),
            Self::Own(index) => index.bytes(),
        }
    }
}

/// An index of the build side.
#[derive(Debug, Clone)]
struct PreparedDeletions {
    build: Arc<Strings>,
    index: Arc<ResidualIndex>,
    /// The scalars of the build texts, unless all are ASCII.
    wide: Arc<[u32]>,
    edits: u32,
    /// The scalars of the longest build text.
    longest: u32,
    spec: MatchSpec,
}

impl PreparedJoin for PreparedDeletions {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        // A number for each item, and what is met and found of some probes.
        let reservation = reservation.new_empty();
        let own_bytes = size_of::<u32>() * (self.build.len() as usize + 1) + (1 << 17);
        reservation.try_grow(own_bytes)?;
        let lookup = NeighbourLookup {
            join: self.clone(),
            unit: None,
            searcher: Searcher::new(self.spec.tuning),
            own: OwnSearcher::new(self.spec.tuning),
            reservation,
            own_bytes,
        };
        let wanted = (self.spec.need, self.spec.pairing());
        Ok(lookup_cursor(lookup, &self.build, wanted, self.spec.tuning))
    }
}

/// The texts of a unit as symbols of the index's kind.
enum ProbeSymbols {
    /// The build texts themselves.
    Build,
    /// The bytes of the texts.
    Ascii,
    /// A byte for each scalar, where the build texts are ASCII: those that are not equal none of them.
    Narrow(Vec<u8>),
    Wide(Vec<u32>),
}

impl ProbeSymbols {
    fn of(items: &Arc<Strings>, join: &PreparedDeletions) -> Self {
        let narrow =
            |scalar: char| u8::try_from(scalar).ok().filter(u8::is_ascii).unwrap_or(u8::MAX);
        match join.wide.is_empty() {
            true if items.text.is_ascii() => Self::Ascii,
            true => Self::Narrow(items.text.chars().map(narrow).collect()),
            false if Arc::ptr_eq(items, &join.build) => Self::Build,
            false => Self::Wide(items.text.chars().map(u32::from).collect()),
        }
    }
}

/// Looks some probe texts up at a time.
struct NeighbourLookup {
    join: PreparedDeletions,
    /// The texts of the unit, and their symbols.
    unit: Option<(Arc<Strings>, ProbeSymbols)>,
    searcher: Searcher,
    own: OwnSearcher,
    /// Holds the memory of the searchers, `own_bytes`, and of the symbols of a unit.
    reservation: Reservation,
    own_bytes: usize,
}

impl NeighbourLookup {
    /// Takes the next probe items of a unit, as many as the worker looks up in some tenths of a millisecond. It
    /// leaves out texts too long for any match alone: their residuals have no end.
    /// `None` at the end of the unit.
    fn next_probes(&self, unit: &mut Unit<Strings>) -> Option<Range<ItemId>> {
        const RESIDUALS: u64 = 1 << 12;
        let PreparedDeletions { edits, longest, .. } = self.join;
        let Unit { items, range: rest, .. } = unit;
        let first = rest.start;
        let mut left = RESIDUALS;
        while rest.start < rest.end {
            let run = items.run_of(rest.start)?;
            let of_run = run.items.end.min(rest.end);
            if run.len > longest.saturating_add(edits) {
                if rest.start > first {
                    break;
                }
                rest.start = of_run;
                return Some(of_run..of_run);
            }
            let each = residuals(u64::from(run.len), edits);
            // One at least.
            let least = u64::from(rest.start == first);
            let most = (left / each).max(least).min(u64::from(of_run - rest.start));
            left = left.saturating_sub(most * each);
            rest.start += most as ItemId;
            if rest.start < of_run {
                break;
            }
        }
        (rest.start > first).then_some(first..rest.start)
    }
}

impl Lookup for NeighbourLookup {
    type Items = Strings;

    fn admit(&mut self, unit: &Unit<Strings>) -> Result<()> {
        // One unit at a time is taken up, so that the largest counts.
        let bytes = self.own_bytes + size_of::<u32>() * unit.items.codes.len();
        match bytes > self.reservation.size() {
            true => self.reservation.try_resize(bytes),
            false => Ok(()),
        }
    }

    fn begin(&mut self, unit: &Unit<Strings>) {
        // Units of one collection follow each other.
        if self.unit.as_ref().is_none_or(|(items, _)| !Arc::ptr_eq(items, &unit.items)) {
            self.unit = None;
            let symbols = ProbeSymbols::of(&unit.items, &self.join);
            self.unit = Some((Arc::clone(&unit.items), symbols));
        }
    }

    fn look_up(&mut self, unit: &mut Unit<Strings>, found: &mut Vec<Match>) -> Result<Option<u64>> {
        let Some(range) = self.next_probes(unit) else { return Ok(None) };
        let Some((items, symbols)) = &self.unit else { return Ok(None) };
        let PreparedDeletions { build, index, wide, edits, .. } = &self.join;
        // The items of its key, for the hashes of keys may be equal.
        let wanted = |item: ItemId| items.run_of(item).map_or(0..0, |run| build.items_of(run.key));
        let k = *edits;
        let never = &mut || false;
        let index = match &**index {
            ResidualIndex::Any(index) => index,
            ResidualIndex::Own(index) => {
                let first = |item: ItemId| wanted(item).start;
                let of_build = Symbols { symbols: &wide[..], starts: &build.code_starts };
                let verified = match wide.is_empty() {
                    true => {
                        let probes = OwnProbes { strings: ascii(build), range, first, k };
                        index.probe(&mut self.own, &probes, found, never)
                    }
                    false => {
                        let probes = OwnProbes { strings: of_build, range, first, k };
                        index.probe(&mut self.own, &probes, found, never)
                    }
                };
                return Ok(Some(verified.unwrap_or(0) as u64));
            }
        };
        let seed = |item: ItemId| items.run_of(item).map_or(0, |run| u64::from(run.key));
        let searcher = &mut self.searcher;
        let verified = match symbols {
            ProbeSymbols::Ascii => {
                let probes =
                    DeletionProbes { strings: ascii(items), range, seed, items: wanted, k };
                index.probe(searcher, ascii(build), &probes, found, never)
            }
            ProbeSymbols::Narrow(symbols) => {
                let strings = Symbols { symbols: &symbols[..], starts: &items.code_starts };
                let probes = DeletionProbes { strings, range, seed, items: wanted, k };
                index.probe(searcher, ascii(build), &probes, found, never)
            }
            symbols => {
                let symbols = if let ProbeSymbols::Wide(own) = symbols { &own[..] } else { wide };
                let strings = Symbols { symbols, starts: &items.code_starts };
                let of_build = Symbols { symbols: &wide[..], starts: &build.code_starts };
                let probes = DeletionProbes { strings, range, seed, items: wanted, k };
                index.probe(searcher, of_build, &probes, found, never)
            }
        };
        Ok(Some(verified.unwrap_or(0) as u64))
    }
}
