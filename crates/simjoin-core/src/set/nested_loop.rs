//! Every pair of sets of admissible sizes, for joins that find no memory for an index.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Cursor, Funnel, Pairing};
use crate::set::candidate_join::{Candidates, cursor_of};
use crate::set::candidate_source::{CandidateSource, SourceProgress};
use crate::set::candidates::{Candidate, CandidateChunk};
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::SizeBounds;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::{Run, SetId};
use crate::tuning::Size;

/// Candidates that are verified together.
const CHUNK: Size = Size { usual: 256, small: 5 };
/// Probe sets handled in one time slice.
const SETS_PER_SLICE: Size = Size { usual: 1 << 16, small: 7 };

/// A nested loop over the sets. It prepares nothing, and its cursors take little memory, whatever
/// the number of sets.
#[derive(Debug)]
pub struct NestedLoop {
    build: Arc<SetCollection>,
    spec: JoinSpec,
}

impl NestedLoop {
    pub fn new(build: Arc<SetCollection>, spec: JoinSpec) -> Self {
        Self { build, spec }
    }

    /// The bytes of a cursor over the sets of `build`, whatever is fed to it.
    pub fn footprint(build: &SetCollection) -> usize {
        CandidateChunk::footprint(CHUNK.usual) + SizeBounds::footprint(build.runs())
    }

    /// A cursor for which the caller holds [`Self::footprint`].
    pub fn cursor(&self) -> Box<dyn Cursor> {
        let (build, spec) = (Arc::clone(&self.build), self.spec);
        let pairs = AdmissiblePairs {
            build: Arc::clone(&build),
            spec,
            probe: SetUnit::default(),
            run: None,
            from: 0,
            candidates: 0,
        };
        let capacity = spec.tuning.size(CHUNK);
        let candidates = Candidates { source: Box::new(pairs), signatures: None, capacity };
        cursor_of(candidates, build, spec)
    }
}

/// The probe sets of one key and size.
#[derive(Debug)]
struct ProbeRun {
    /// Up to here the ids have this key and size.
    end: SetId,
    /// The build sets of the same key and admissible size.
    partners: Range<SetId>,
    /// `None` where there are no such sets.
    bounds: Option<SizeBounds>,
}

/// Gives all pairs whose sizes admit a match.
#[derive(Debug)]
struct AdmissiblePairs {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    /// The probe sets that are left.
    probe: SetUnit,
    run: Option<ProbeRun>,
    /// The partners of the first probe set before this one have been given.
    from: SetId,
    candidates: u64,
}

impl AdmissiblePairs {
    /// The run of a probe set.
    fn run_of(&self, (run, ids): (Run, Range<SetId>)) -> ProbeRun {
        let runs = self.build.runs();
        let bounds =
            SizeBounds::new(&self.spec, run.size, (runs.least_size(), runs.greatest_size()));
        let partners = match &bounds {
            Some(bounds) => runs.sets(run.key, bounds.least, bounds.greatest),
            None => 0..0,
        };
        ProbeRun { end: ids.end, partners, bounds }
    }

    /// Adds partners of a set until the chunk is full; whether all have been added.
    fn add(&mut self, set: SetId, chunk: &mut CandidateChunk, capacity: usize) -> bool {
        let Some(ProbeRun { partners, bounds: Some(bounds), .. }) = &self.run else { return true };
        let end = match self.spec.pairing {
            Pairing::All => partners.end,
            Pairing::Unordered => partners.end.min(set),
        };
        for build in partners.start.max(self.from)..end {
            if chunk.candidates.len() >= capacity {
                self.from = build;
                return false;
            }
            let required = bounds.required(self.build.size(build));
            self.candidates += 1;
            chunk.push(set, Candidate { build, required, ..Candidate::default() });
        }
        true
    }
}

impl CandidateSource for AdmissiblePairs {
    fn start(&mut self, unit: SetUnit) {
        self.probe = unit;
        self.run = None;
        self.from = 0;
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        for _ in 0..self.spec.tuning.size(SETS_PER_SLICE) {
            let Range { start: set, end } = self.probe.range;
            if set >= end {
                return SourceProgress::Done;
            }
            if self.run.as_ref().is_none_or(|run| set >= run.end) {
                let Some(run) = self.probe.items.runs().of_set(set) else {
                    return SourceProgress::Done;
                };
                self.run = None;
                self.run = Some(self.run_of(run));
            }
            if !self.add(set, chunk, capacity) {
                return SourceProgress::More;
            }
            self.from = 0;
            self.probe.range.start = match &self.run {
                // Nor has any other set of the run partners.
                Some(run) if run.partners.is_empty() => run.end.min(end),
                _ => set + 1,
            };
        }
        SourceProgress::More
    }

    fn retire(&mut self, probe: SetId) {
        if self.probe.range.start == probe {
            self.probe.range.start += 1;
            self.from = 0;
        }
    }

    fn add_to(&self, funnel: &mut Funnel) {
        funnel.prefix_pairs += self.candidates;
        funnel.candidates += self.candidates;
    }
}
