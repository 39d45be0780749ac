//! One partition's way through the build side.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::collection::{Run, Strings};
use super::decide::Decider;
use super::finder::{Finder, ProbeCodes, scratch_bytes};
use super::function::StringFunction;
use super::join::StringJoin;
use super::threshold::AllowedDifferences;
use crate::engine::{
    self, Funnel, ItemId, KeyId, Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts, Worker,
    WorkerProgress,
};
use crate::error::{Result, exec_err};
use crate::memory::Reservation;

/// The bytes of a cursor, whatever the build side.
pub const CURSOR_BYTES: usize = Finder::BYTES;

/// The bytes of a cursor that follow the texts of the build side.
pub fn scratch_bytes_of(join: &StringJoin) -> usize {
    scratch_bytes(join.threshold, join.build.longest(), join.build.runs().len())
}

/// The unit that is being probed.
struct CurrentUnit {
    items: Arc<Strings>,
    /// The items behind the present one.
    rest: Range<ItemId>,
}

/// The item that is looked for among the build items.
#[derive(Default)]
struct ProbeItem {
    item: ItemId,
    /// The places of the runs behind the present one.
    runs: Range<usize>,
    /// The place of the present run, and its items that have not been looked at.
    run: usize,
    items: Range<ItemId>,
    limits: AllowedDifferences,
    is_retired: bool,
}

/// The runs of build items that may match probe items of one key and one length.
#[derive(Default)]
struct PartnerRuns {
    /// The key and the length.
    of: Option<(KeyId, u32)>,
    /// The places of the runs.
    runs: Range<usize>,
    /// The limits of matches with each run, as far as they have been asked for; `None` where there are none.
    limits: Vec<Option<AllowedDifferences>>,
}

impl PartnerRuns {
    /// Takes up the items of a run of probe items.
    ///
    /// # Errors
    ///
    /// When the function has no value for one of these items and a build item of their key.
    fn begin(&mut self, join: &StringJoin, run: &Run) -> Result<()> {
        let of = Some((run.key, run.len));
        if self.of != of {
            if join.threshold.function == StringFunction::Hamming {
                check_lens(&join.build, run.key, run.len)?;
            }
            (self.of, self.runs) = (of, join.partners(run));
            self.limits.clear();
        }
        Ok(())
    }

    /// The limits of matches with the items of one of the runs.
    #[inline]
    fn limits(&mut self, join: &StringJoin, run: usize) -> Option<AllowedDifferences> {
        let (_, len) = self.of?;
        let known = self.runs.start + self.limits.len();
        for partner in join.build.runs().get(known..=run).unwrap_or_default() {
            self.limits.push(join.threshold.limits([len, partner.len]));
        }
        self.limits[run - self.runs.start]
    }
}

/// Looks for the partners of probe items, one after the other, run by run.
pub struct StringWorker {
    join: Arc<StringJoin>,
    finder: Finder,
    decider: Decider,
    unit: Option<CurrentUnit>,
    /// The partners of the last probe item.
    partners: PartnerRuns,
    probe: ProbeItem,
    /// Build items that the filter has left of the present slice, with the distances of codes where it
    /// computes them, and how many of them are decided.
    found: Vec<(ItemId, u32)>,
    decided: usize,
    funnel: Funnel,
    /// Holds the memory of the scratch space, unless the caller does.
    _reservation: Option<Reservation>,
}

impl StringWorker {
    pub(super) fn try_new(
        join: Arc<StringJoin>,
        finder: Finder,
        reservation: Reservation,
    ) -> Result<Self> {
        reservation.try_grow(CURSOR_BYTES + scratch_bytes_of(&join))?;
        Ok(Self { _reservation: Some(reservation), ..Self::new(join, finder) })
    }

    /// A worker for whose memory the caller answers.
    pub fn new(join: Arc<StringJoin>, finder: Finder) -> Self {
        let decider = Decider::new(join.threshold, join.spec.need);
        Self {
            join,
            finder,
            decider,
            unit: None,
            partners: PartnerRuns::default(),
            probe: ProbeItem::default(),
            found: vec![],
            decided: 0,
            funnel: Funnel::default(),
            _reservation: None,
        }
    }

    /// Takes up the next probe item; whether there is one.
    fn next_probe(&mut self) -> Result<bool> {
        let Some(unit) = &mut self.unit else { return Ok(false) };
        let Some(item) = unit.rest.next() else { return Ok(false) };
        let Some(run) = unit.items.run_of(item) else { return Ok(true) };
        self.partners.begin(&self.join, run)?;
        self.probe = ProbeItem { item, runs: self.partners.runs.clone(), ..ProbeItem::default() };
        self.decider.begin(&unit.items, item);
        Ok(true)
    }

    /// Looks at the next build items of the present probe item; how much work that was, `None` where none
    /// is left.
    fn search(&mut self, matches: &mut MatchBuffer) -> Option<usize> {
        let ProbeItem { item, runs, run, items, limits, is_retired } = &mut self.probe;
        if *is_retired {
            return None;
        }
        let (join, unit) = (&self.join, self.unit.as_ref()?);
        if items.start >= items.end {
            *run = runs.next()?;
            let Some(of_run) = self.partners.limits(join, *run) else { return Some(1) };
            *limits = of_run;
            *items = join.build.runs()[*run].items.clone();
            if join.spec.pairing() == Pairing::Unordered {
                // With itself and the items before it.
                items.end = items.end.min(*item + 1);
            }
        }
        if limits.is_all && join.spec.need == MatchNeed::Count {
            let pairs = items.len() as u64;
            self.funnel.matches += pairs;
            matches.count(count_all(&unit.items, *item, join, std::mem::take(items)));
            return Some(pairs as usize / 64 + 8);
        }
        let sought = self.finder.first_of(*run, items.clone(), *limits);
        let looked = sought.items.len();
        items.start = sought.items.end;
        self.finder.search(ProbeCodes::of(&unit.items, *item), sought, &mut self.found);
        self.funnel.prefix_pairs += looked as u64;
        self.funnel.candidates += self.found.len() as u64;
        Some(looked + 8)
    }

    /// Decides the build items that were found; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer) -> Option<WorkerProgress> {
        let Some(unit) = &self.unit else { return None };
        let (join, probe) = (&self.join, self.probe.item);
        let (spec, limits, text) = (&join.spec, self.probe.limits, unit.items.text(probe));
        let mut counts = RowPairCounts::default();
        let mut stopped = None;
        let mut work = 0;
        while let Some(&found) = self.found.get(self.decided) {
            if matches.is_full() {
                stopped = Some(WorkerProgress::Full);
                break;
            }
            if work > Decider::SLICE {
                stopped = Some(WorkerProgress::More);
                break;
            }
            self.decided += 1;
            if self.probe.is_retired {
                self.decided = self.found.len();
                break;
            }
            let (build, _) = found;
            if matches.knows(probe, build) {
                continue;
            }
            let decided = self.decider.decide(text, &join.build, found, limits, &mut work);
            let Some(detail) = decided else { continue };
            self.funnel.matches += 1;
            if spec.need == MatchNeed::Count {
                let groups = [&unit.items.groups, &join.build.groups];
                counts += RowPairCounts::of(spec.pairing(), groups, [probe, build]);
                continue;
            }
            matches.push(Match { probe, build, detail });
            if spec.need == MatchNeed::Exists {
                self.probe.is_retired = true;
            }
        }
        matches.count(counts);
        if stopped.is_none() {
            self.found.clear();
            self.decided = 0;
        }
        stopped
    }
}

/// Counts the pairs of rows of a probe item and some build items, all of which match.
fn count_all(
    probes: &Strings,
    probe: ItemId,
    join: &StringJoin,
    mut items: Range<ItemId>,
) -> RowPairCounts {
    let groups = [&probes.groups, &join.build.groups];
    let mut counts = RowPairCounts::default();
    if join.spec.pairing() == Pairing::Unordered && items.contains(&probe) {
        // The items end with the probe item.
        items.end = probe;
        counts += RowPairCounts::of(Pairing::Unordered, groups, [probe, probe]);
    }
    let rows = u64::from(probes.groups.row_count_of(probe));
    counts += RowPairCounts::cross(rows * join.build.groups.slots(items).len() as u64);
    counts
}

/// Fails unless all texts of a key have `len` scalars, as the function does for a pair.
pub fn check_lens(build: &Strings, key: u32, len: u32) -> Result<()> {
    let runs = &build.runs()[build.runs_within(key, &(0..u64::MAX))];
    match runs.iter().find(|run| run.len != len) {
        None => Ok(()),
        Some(run) => exec_err!(
            "hamming needs two texts of the same length, and the join meets texts of {len} and of {} \
             characters; join by character_length(a.x) = character_length(b.x) as well",
            run.len
        ),
    }
}

impl Worker for StringWorker {
    type Items = Strings;

    fn begin(&mut self, unit: engine::Unit<Strings>) -> Result<()> {
        self.unit = Some(CurrentUnit { items: unit.items, rest: unit.range });
        self.probe = ProbeItem::default();
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        /// Build items looked at in a millisecond at least.
        const SLICE: usize = 1 << 16;
        /// Pairs whose decision takes longer than two looks at the clock.
        const WORTH_A_CLOCK: usize = 64;
        let mut work = 0;
        while work < SLICE {
            if !self.found.is_empty() {
                let begun = (self.found.len() >= WORTH_A_CLOCK).then(Instant::now);
                let stopped = self.decide(matches);
                self.funnel.verify_nanos += begun.map_or(0, |at| at.elapsed().as_nanos() as u64);
                if let Some(stopped) = stopped {
                    return Ok(stopped);
                }
            }
            work += match self.search(matches) {
                Some(work) => work,
                None if self.next_probe()? => 8,
                None => {
                    self.unit = None;
                    return Ok(WorkerProgress::Done);
                }
            };
        }
        Ok(WorkerProgress::More)
    }

    fn retire(&mut self, probe: ItemId) {
        self.probe.is_retired |= self.probe.item == probe;
    }

    fn funnel(&self) -> Funnel {
        Funnel { verified: self.decider.verified(), ..self.funnel }
    }
}
