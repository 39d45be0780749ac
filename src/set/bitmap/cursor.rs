//! The matches of probe sets, decided on the CPU.

use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;

use crate::engine::{
    Cursor, Funnel, Match, MatchBuffer, MatchNeed, ProbeUnit, Progress, RowPairCounts, UnitQueue,
};
use crate::set::bitmap::blocks::GROUP;
use crate::set::bitmap::traversal::{SURVIVORS_PER_SLICE, Survivor, TESTS_PER_SLICE, Traversal};
use crate::set::intersect;
use crate::set::{SelfMatches, SetId, SetUnit};

/// As many tokens to compare count as one more survivor.
const TOKENS_A_SURVIVOR: usize = 64;

/// See [`crate::set::bitmap::BitmapBlocks`].
#[derive(Debug)]
pub(crate) struct BitmapCursor {
    traversal: Traversal,
    units: UnitQueue<SetUnit>,
    /// The unit being joined.
    unit: Option<u32>,
    /// Its sets that match themselves, until they are given.
    itself: Option<SelfMatches>,
    /// Pairs compared, and those that match.
    verified: u64,
    matches: u64,
    filter_nanos: u64,
    verify_nanos: u64,
}

impl BitmapCursor {
    pub(super) fn new(traversal: Traversal) -> Self {
        Self {
            traversal,
            units: UnitQueue::default(),
            unit: None,
            itself: None,
            verified: 0,
            matches: 0,
            filter_nanos: 0,
            verify_nanos: 0,
        }
    }
}

impl Cursor for BitmapCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        let unit = SetUnit::of(&unit)?;
        self.traversal.admit(&unit)?;
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        let mut now = Instant::now();
        if self.unit.is_none() {
            let Some(unit) = self.units.pop() else {
                return Poll::Ready(Ok(self.units.progress()));
            };
            self.unit = Some(unit.number);
            self.itself = SelfMatches::of(&unit, &self.traversal.spec);
            self.traversal.begin(unit);
            self.filter_nanos += lap(&mut now);
        }
        if let Some(unit) = self.unit {
            matches.begin(unit);
        }
        if let Some(itself) = &mut self.itself {
            if !itself.give(matches, &mut self.matches) {
                return Poll::Ready(Ok(Progress::Full));
            }
            self.itself = None;
        }
        let mut tests = TESTS_PER_SLICE;
        let mut survivors = SURVIVORS_PER_SLICE;
        let progress = loop {
            if !self.traversal.is_exhausted() {
                let decided = self.decide(matches, &mut survivors);
                self.verify_nanos += lap(&mut now);
                match decided {
                    Some(progress) => break progress,
                    None => continue,
                }
            }
            if tests == 0 {
                break Progress::Yield;
            }
            if self.traversal.group_is_done() && !self.traversal.next_group() {
                self.unit.take().into_iter().for_each(|unit| matches.complete(unit));
                break if self.units.is_empty() { self.units.progress() } else { Progress::Yield };
            }
            self.traversal.clear();
            tests -= self.traversal.test(tests);
            self.filter_nanos += lap(&mut now);
        };
        Poll::Ready(Ok(progress))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        if self.unit == Some(unit) {
            self.traversal.retire(probe);
        }
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            verified: self.verified,
            matches: self.matches,
            filter_nanos: self.filter_nanos,
            verify_nanos: self.verify_nanos,
            ..Funnel::default()
        };
        self.traversal.add_to(&mut funnel);
        funnel
    }
}

/// Nanoseconds since the last lap.
fn lap(now: &mut Instant) -> u64 {
    let then = std::mem::replace(now, Instant::now());
    (*now - then).as_nanos() as u64
}

impl BitmapCursor {
    /// Decides the survivors of the last tile; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer, left: &mut usize) -> Option<Progress> {
        if self.traversal.spec.need == MatchNeed::Count {
            return self.count(matches, left);
        }
        let first_only = self.traversal.spec.need == MatchNeed::Exists;
        loop {
            if matches.is_full() {
                return Some(Progress::Full);
            }
            let Some(survivor) = self.traversal.survivor(left) else {
                return (!self.traversal.is_exhausted()).then_some(Progress::Yield);
            };
            if let Some(detail) = self.overlap(&survivor, left) {
                self.matches += 1;
                if first_only {
                    self.traversal.done_with(survivor.place);
                }
                let Survivor { probe, build, .. } = survivor;
                matches.push(Match { probe, build, detail });
            }
        }
    }

    /// Like [`Self::decide`], where matches are counted only.
    fn count(&mut self, matches: &mut MatchBuffer, left: &mut usize) -> Option<Progress> {
        let (mut partners, mut cross) = ([0; GROUP], 0);
        loop {
            self.matches += self.traversal.take_decided(&mut partners);
            let Some(survivor) = self.traversal.survivor(left) else { break };
            if self.overlap(&survivor, left).is_some() {
                self.matches += 1;
                let Traversal { probe_sets, build, .. } = &self.traversal;
                let rows = u64::from(probe_sets.row_count_of(survivor.probe));
                cross += rows * u64::from(build.row_count_of(survivor.build));
            }
        }
        cross += self.traversal.row_pairs(partners);
        matches.count(RowPairCounts { cross, ..RowPairCounts::default() });
        (!self.traversal.is_exhausted()).then_some(Progress::Yield)
    }

    /// The overlap of a pair that matches, exact where the join needs that.
    fn overlap(&mut self, survivor: &Survivor, left: &mut usize) -> Option<u32> {
        let Survivor { probe, build, required, owned, probe_rare, build_rare, .. } = *survivor;
        let Traversal { spec, blocks, probe_sets, build: build_sets, .. } = &self.traversal;
        if blocks.scheme().is_exact() {
            return (owned >= required).then_some(owned);
        }
        let exact = spec.need == MatchNeed::Scores;
        if !exact && owned >= required {
            return Some(required);
        }
        self.verified += 1;
        let probe_rare = &probe_sets.tokens(probe)[..probe_rare];
        let build_rare = &build_sets.tokens(build)[..build_rare];
        *left = left.saturating_sub((probe_rare.len() + build_rare.len()) / TOKENS_A_SURVIVOR);
        let overlap = intersect(spec.simd, probe_rare, build_rare, owned, required, exact);
        overlap.filter(|&overlap| overlap >= required)
    }
}
