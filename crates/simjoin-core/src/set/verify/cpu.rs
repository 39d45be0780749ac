//! Verification on the CPU.

use std::sync::Arc;

use crate::engine::{Funnel, Match, MatchBuffer, MatchNeed, RowPairCounts};
use crate::set::candidates::CandidateChunk;
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::verify::intersect::intersect;

/// The number of candidates by which the place of a build set's tokens is asked for ahead, and the
/// tokens.
const OFFSETS_AHEAD: usize = 12;
const TOKENS_AHEAD: usize = 6;
/// Token comparisons in one time slice: some milliseconds.
const STEPS_PER_SLICE: usize = 1 << 21;

/// Intersects each candidate's sets behind their prefixes, stopping as soon as the required overlap
/// is out of reach, or reached where the join does not need the exact overlap.
#[derive(Debug)]
pub(crate) struct CpuVerifier {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    work: Option<VerifierWork>,
    verified: u64,
    matches: u64,
}

#[derive(Debug)]
struct VerifierWork {
    chunk: CandidateChunk,
    group: usize,
    next: usize,
}

impl CpuVerifier {
    /// A verifier of candidates among the sets of `build`.
    pub(crate) fn new(build: Arc<SetCollection>, spec: JoinSpec) -> Self {
        Self { build, spec, work: None, verified: 0, matches: 0 }
    }
}

impl CpuVerifier {
    /// Takes a chunk. The verifier has given the former chunk back.
    pub(crate) fn submit(&mut self, chunk: CandidateChunk) {
        debug_assert!(self.work.is_none());
        self.work = Some(VerifierWork { chunk, group: 0, next: 0 });
    }

    /// Adds the work done so far.
    pub(crate) fn add_to(&self, funnel: &mut Funnel) {
        funnel.verified += self.verified;
        funnel.matches += self.matches;
    }

    /// Works on the chunk for some milliseconds, while the match buffer is not full; gives the chunk back
    /// once all its candidates are decided.
    pub(crate) fn verify(&mut self, matches: &mut MatchBuffer) -> Option<CandidateChunk> {
        let mut work = self.work.take()?;
        let chunk = &work.chunk;
        matches.begin(chunk.unit);
        let exact = self.spec.need == MatchNeed::Scores;
        let simd = self.spec.simd;
        let first_only = self.spec.need == MatchNeed::Exists;
        let count_only = self.spec.need == MatchNeed::Count;
        // Pairs of rows of all groups, and the rows of the build sets that match in this one.
        let (mut cross, mut partners) = (0, 0);
        let mut steps = 0;
        while let Some(group) = chunk.groups.get(work.group) {
            let end = chunk.groups.get(work.group + 1).map_or(chunk.candidates.len(), |g| g.start);
            let probe_tokens = chunk.probe.tokens(group.probe);
            let probe_rows = |chunk: &CandidateChunk| {
                if count_only { u64::from(chunk.probe.row_count_of(group.probe)) } else { 0 }
            };
            while work.next < end {
                if matches.is_full() || steps >= STEPS_PER_SLICE {
                    cross += probe_rows(chunk) * partners;
                    matches.count(RowPairCounts::cross(cross));
                    self.work = Some(work);
                    return None;
                }
                let candidate = chunk.candidates[work.next];
                work.next += 1;
                steps += 1;
                if matches.knows(group.probe, candidate.build) {
                    continue;
                }
                if let Some(later) = chunk.candidates.get(work.next + OFFSETS_AHEAD) {
                    self.build.prefetch_offsets(later.build);
                }
                if let Some(later) = chunk.candidates.get(work.next + TOKENS_AHEAD) {
                    self.build.prefetch_tokens(later.build, later.build_at);
                }
                let probe_rest = probe_tokens.get(candidate.probe_at as usize..).unwrap_or(&[]);
                let build_tokens = self.build.tokens(candidate.build);
                let build_rest = build_tokens.get(candidate.build_at as usize..).unwrap_or(&[]);
                self.verified += 1;
                steps += probe_rest.len() + build_rest.len();
                let (overlap, required) = (candidate.overlap, candidate.required);
                let overlap = intersect(simd, probe_rest, build_rest, overlap, required, exact);
                if let Some(overlap) = overlap {
                    self.matches += 1;
                    let build = candidate.build;
                    if count_only {
                        partners += u64::from(self.build.row_count_of(build));
                        continue;
                    }
                    matches.push(Match { probe: group.probe, build, detail: overlap });
                    if first_only {
                        work.next = end;
                    }
                }
            }
            cross += probe_rows(chunk) * std::mem::take(&mut partners);
            work.group += 1;
        }
        matches.count(RowPairCounts::cross(cross));
        Some(work.chunk)
    }
}
