//! Candidates on their way from a filter to a verifier.

use std::sync::Arc;

use crate::set::collection::SetCollection;
use crate::set::runs::SetId;

/// A pair that passed the filters. Kernels read it too (`WideCandidate` in `kernels/abi.cuh`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Candidate {
    /// The build set.
    pub build: SetId,
    /// The number of common tokens found so far. Further common tokens lie behind both `probe_at` and `build_at`.
    pub overlap: u32,
    /// The least overlap with which the pair matches.
    pub required: u32,
    /// The place in the known tokens of the probe set at which the merge resumes.
    pub probe_at: u32,
    /// The place in the tokens of the build set at which the merge resumes.
    pub build_at: u32,
}

/// The candidates of one probe set within a chunk: `start..` up to the next group's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CandidateGroup {
    pub probe: SetId,
    pub start: usize,
}

/// A bounded number of candidates, grouped by probe set. A probe set's candidates may span chunks.
#[derive(Debug, Default)]
pub struct CandidateChunk {
    /// The unit of the probe sets.
    pub unit: u32,
    /// No candidates of the unit follow in other chunks.
    pub ends_unit: bool,
    /// The probe sets.
    pub probe: Arc<SetCollection>,
    /// The probe sets that have candidates, in the order of the candidates.
    pub groups: Vec<CandidateGroup>,
    /// The candidates of all groups.
    pub candidates: Vec<Candidate>,
}

impl CandidateChunk {
    /// An empty chunk of candidates of `probe`.
    pub fn new(probe: Arc<SetCollection>) -> Self {
        Self { unit: 0, ends_unit: false, probe, groups: vec![], candidates: vec![] }
    }

    /// The candidates of the group at a place in `groups`.
    #[inline]
    pub fn group(&self, place: usize) -> (SetId, &[Candidate]) {
        let CandidateGroup { probe, start } = self.groups[place];
        let end = self.groups.get(place + 1).map_or(self.candidates.len(), |g| g.start);
        (probe, &self.candidates[start..end])
    }

    /// Empties the chunk for candidates of a unit, whose sets are those of `probe`.
    pub fn restart(&mut self, unit: u32, probe: Arc<SetCollection>) {
        self.groups.clear();
        self.candidates.clear();
        self.unit = unit;
        self.ends_unit = false;
        self.probe = probe;
    }

    /// Adds a candidate of `probe`.
    #[inline]
    pub fn push(&mut self, probe: SetId, candidate: Candidate) {
        if self.groups.last().is_none_or(|g| g.probe != probe) {
            self.groups.push(CandidateGroup { probe, start: self.candidates.len() });
        }
        self.candidates.push(candidate);
    }

    /// Drops the candidates for which `keep` is false: it gets the probe sets, the probe set of the
    /// candidate, and the candidate in front of all that follow.
    pub fn retain(&mut self, mut keep: impl FnMut(&SetCollection, SetId, &[Candidate]) -> bool) {
        let mut kept = 0;
        for group in 0..self.groups.len() {
            let end = self.groups.get(group + 1).map_or(self.candidates.len(), |g| g.start);
            let CandidateGroup { probe, start } = self.groups[group];
            self.groups[group].start = kept;
            for place in start..end {
                if keep(&self.probe, probe, &self.candidates[place..]) {
                    self.candidates[kept] = self.candidates[place];
                    kept += 1;
                }
            }
        }
        self.candidates.truncate(kept);
    }

    /// The most bytes that a chunk of `capacity` candidates takes.
    pub fn footprint(capacity: usize) -> usize {
        capacity.next_power_of_two() * (size_of::<Candidate>() + size_of::<CandidateGroup>())
    }
}
