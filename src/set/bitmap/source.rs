//! Survivors as candidates for a verifier on a device.

use datafusion::common::Result;

use crate::engine::{Funnel, MatchNeed};
use crate::set::SetId;
use crate::set::SetUnit;
use crate::set::bitmap::blocks::GROUP;
use crate::set::bitmap::traversal::{
    SURVIVORS_PER_SLICE, Survivor, TESTS_PER_SLICE, Traversal, lanes_of,
};
use crate::set::{Candidate, CandidateChunk, CandidateSource, SourceProgress};

/// Gives the survivors of several tiles, ordered by probe: a device takes the candidates of one
/// probe set together.
#[derive(Debug)]
pub(crate) struct BitmapSource {
    traversal: Traversal,
    /// The probe of the group whose survivors are given; behind the last one, tiles are gathered.
    probe: usize,
}

impl BitmapSource {
    pub(super) fn new(traversal: Traversal) -> Self {
        Self { traversal, probe: GROUP }
    }
}

impl CandidateSource for BitmapSource {
    fn admit(&mut self, unit: &SetUnit) -> Result<()> {
        self.traversal.admit(unit)
    }

    fn start(&mut self, unit: SetUnit) {
        self.traversal.begin(unit);
        self.probe = GROUP;
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        let mut tests = TESTS_PER_SLICE;
        let mut survivors = SURVIVORS_PER_SLICE;
        loop {
            while self.probe < GROUP {
                if !self.give(chunk, capacity, &mut survivors) {
                    return SourceProgress::More;
                }
                self.traversal.rewind();
                self.probe += 1;
                if self.probe == GROUP {
                    self.traversal.clear();
                }
            }
            let done = self.traversal.group_is_done();
            if self.traversal.has_survivors() && (done || self.traversal.is_full()) {
                self.probe = 0;
                continue;
            }
            if tests == 0 {
                return SourceProgress::More;
            }
            if done && !self.traversal.next_group() {
                return SourceProgress::Done;
            }
            tests -= self.traversal.test(tests);
        }
    }

    fn retire(&mut self, probe: SetId) {
        self.traversal.retire(probe);
    }

    fn add_to(&self, funnel: &mut Funnel) {
        self.traversal.add_to(funnel);
    }
}

impl BitmapSource {
    /// Adds the survivors of a probe; whether all of them have been added.
    fn give(&mut self, chunk: &mut CandidateChunk, capacity: usize, left: &mut usize) -> bool {
        while chunk.candidates.len() < capacity {
            let Some(survivor) = self.traversal.survivor(lanes_of(self.probe), left) else {
                return self.traversal.is_exhausted();
            };
            chunk.push(survivor.probe, self.candidate(&survivor));
        }
        false
    }

    /// The common tokens that own a bit are spread over both sets, so that a verifier counts them
    /// again, unless they decide.
    fn candidate(&self, survivor: &Survivor) -> Candidate {
        let Survivor { probe, build, required, owned, .. } = *survivor;
        let Traversal { spec, probe_sets, build: build_sets, .. } = &self.traversal;
        if spec.need == MatchNeed::Scores || owned < required {
            return Candidate { build, required, ..Candidate::default() };
        }
        let probe_at = probe_sets.tokens(probe).len() as u32;
        let build_at = build_sets.tokens(build).len() as u32;
        Candidate { build, overlap: required, required, probe_at, build_at }
    }
}
