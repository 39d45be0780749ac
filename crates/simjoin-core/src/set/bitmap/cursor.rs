//! The matches of probe sets, decided on the CPU.

use std::collections::VecDeque;
use std::time::Instant;

use crate::engine::{Funnel, Match, MatchBuffer, MatchNeed, RowPairCounts, Worker, WorkerProgress};
use crate::error::Result;
use crate::set::bitmap::lines::GROUP;
use crate::set::bitmap::traversal::{SURVIVORS_AT_ONCE, Survivor, TESTS_AT_ONCE, Traversal};
use crate::set::collection::SetCollection;
use crate::set::itself::SelfMatches;
use crate::set::join_spec::SetUnit;
use crate::set::runs::SetId;
use crate::set::verify::intersect;

/// Tokens to compare that count as one more survivor.
const TOKENS_A_SURVIVOR: usize = 64;

/// Survivors that wait for their tokens, which come from memory.
const AHEAD: usize = 8;

/// The worker of [`crate::set::bitmap::BitmapBlocks`].
#[derive(Debug)]
pub(super) struct BitmapWorker {
    traversal: Traversal,
    /// The sets of the unit that match themselves, until they are given.
    itself: Option<SelfMatches>,
    /// The next survivors, whose tokens are on the way.
    ahead: VecDeque<Survivor>,
    /// Pairs compared, and those that match.
    verified: u64,
    matches: u64,
    verify_nanos: u64,
}

impl BitmapWorker {
    pub(super) fn new(traversal: Traversal) -> Self {
        let ahead = VecDeque::with_capacity(AHEAD);
        Self { traversal, itself: None, ahead, verified: 0, matches: 0, verify_nanos: 0 }
    }
}

impl Worker for BitmapWorker {
    type Items = SetCollection;

    fn admit(&mut self, unit: &SetUnit) -> Result<()> {
        self.traversal.admit(unit.range.len())
    }

    fn begin(&mut self, unit: SetUnit) -> Result<()> {
        self.itself = SelfMatches::of(&unit, &self.traversal.spec);
        self.traversal.begin(unit);
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        if !SelfMatches::give_rest(&mut self.itself, matches, &mut self.matches) {
            return Ok(WorkerProgress::Full);
        }
        let tuning = self.traversal.spec.tuning;
        let mut tests = tuning.size(TESTS_AT_ONCE);
        let mut survivors = tuning.size(SURVIVORS_AT_ONCE);
        loop {
            if !self.traversal.is_exhausted() || !self.ahead.is_empty() {
                let started = Instant::now();
                let stopped = self.decide(matches, &mut survivors);
                self.verify_nanos += started.elapsed().as_nanos() as u64;
                if let Some(stopped) = stopped {
                    return Ok(stopped);
                }
            }
            if tests == 0 {
                return Ok(WorkerProgress::More);
            }
            if self.traversal.group_is_done() && !self.traversal.next_group() {
                return Ok(WorkerProgress::Done);
            }
            self.traversal.clear();
            tests -= self.traversal.test(tests);
        }
    }

    fn retire(&mut self, probe: SetId) {
        self.traversal.retire(probe);
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            verified: self.verified,
            matches: self.matches,
            verify_nanos: self.verify_nanos,
            ..Funnel::default()
        };
        self.traversal.add_to(&mut funnel);
        funnel
    }
}

impl BitmapWorker {
    /// Decides the survivors of the last tile; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer, left: &mut usize) -> Option<WorkerProgress> {
        if self.traversal.spec.need == MatchNeed::Count {
            return self.count(matches, left);
        }
        let first_only = self.traversal.spec.need == MatchNeed::Exists;
        loop {
            if matches.is_full() {
                return Some(WorkerProgress::Full);
            }
            let Some(survivor) = self.survivor(matches, left) else {
                return (!self.traversal.is_exhausted()).then_some(WorkerProgress::More);
            };
            if self.traversal.is_done(survivor.place) {
                continue;
            }
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
    fn count(&mut self, matches: &mut MatchBuffer, left: &mut usize) -> Option<WorkerProgress> {
        let (mut partners, mut cross) = ([0; GROUP], 0);
        loop {
            self.matches += self.traversal.take_decided(&mut partners);
            if self.ahead.len() < AHEAD && self.look_ahead(matches, left) {
                continue;
            }
            let Some(survivor) = self.ahead.pop_front() else { break };
            if self.traversal.is_done(survivor.place) {
                continue;
            }
            if self.overlap(&survivor, left).is_some() {
                self.matches += 1;
                let Traversal { probe_sets, build, .. } = &self.traversal;
                let rows = u64::from(probe_sets.row_count_of(survivor.probe));
                cross += rows * u64::from(build.row_count_of(survivor.build));
            }
        }
        cross += self.traversal.row_pairs(partners);
        matches.count(RowPairCounts::cross(cross));
        (!self.traversal.is_exhausted()).then_some(WorkerProgress::More)
    }

    /// The next survivor, behind which others wait for their tokens; `None` where there is none, or no work
    /// `left`.
    #[inline]
    fn survivor(&mut self, matches: &MatchBuffer, left: &mut usize) -> Option<Survivor> {
        while self.ahead.len() < AHEAD && self.look_ahead(matches, left) {}
        self.ahead.pop_front()
    }

    /// Asks for the tokens of one more survivor; `false` where there is none, or no work `left`.
    #[inline]
    fn look_ahead(&mut self, matches: &MatchBuffer, left: &mut usize) -> bool {
        let Some(survivor) = self.traversal.survivor(matches, left) else { return false };
        if !self.traversal.blocks.scheme().is_exact() {
            self.traversal.build.prefetch_tokens(survivor.build, 0);
        }
        self.ahead.push_back(survivor);
        true
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
