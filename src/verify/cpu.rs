//! Verification by merging sorted tokens.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::sets::SetCollection;
use crate::strategy::{
    CandidateChunk, Funnel, JoinSpec, Match, MatchBuffer, MatchNeed, Verified, Verifier,
};

/// Token comparisons in one time slice: some milliseconds.
const STEPS_PER_SLICE: usize = 1 << 21;

/// Merges each candidate's sets behind their prefixes, stopping as soon as the required overlap
/// is out of reach, or reached where nobody asks for the exact one.
#[derive(Debug)]
pub struct CpuVerifier {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    work: Option<Work>,
    verified: u64,
    matches: u64,
}

#[derive(Debug)]
struct Work {
    chunk: CandidateChunk,
    group: usize,
    next: usize,
}

impl CpuVerifier {
    pub fn new(build: Arc<SetCollection>, spec: JoinSpec) -> Self {
        Self { build, spec, work: None, verified: 0, matches: 0 }
    }
}

impl Verifier for CpuVerifier {
    fn submit(&mut self, chunk: CandidateChunk) {
        debug_assert!(self.work.is_none());
        self.work = Some(Work { chunk, group: 0, next: 0 });
    }

    fn poll_verified(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Verified> {
        let Some(mut work) = self.work.take() else {
            return Poll::Ready(Verified::More);
        };
        let chunk = &work.chunk;
        let exact = self.spec.need == MatchNeed::PairsWithOverlap;
        let first_only = self.spec.need == MatchNeed::Exists;
        let mut steps = 0;
        while let Some(group) = chunk.groups.get(work.group) {
            let end = chunk.groups.get(work.group + 1).map_or(chunk.candidates.len(), |g| g.start);
            let probe_tokens = chunk.probe.tokens(group.probe);
            while work.next < end {
                if matches.is_full() || steps >= STEPS_PER_SLICE {
                    self.work = Some(work);
                    return Poll::Ready(Verified::More);
                }
                let candidate = chunk.candidates[work.next];
                work.next += 1;
                let probe_rest = probe_tokens.get(candidate.probe_at as usize..).unwrap_or(&[]);
                let build_tokens = self.build.tokens(candidate.build);
                let build_rest = build_tokens.get(candidate.build_at as usize..).unwrap_or(&[]);
                self.verified += 1;
                steps += probe_rest.len() + build_rest.len() + 1;
                let overlap =
                    merge(probe_rest, build_rest, candidate.overlap, candidate.required, exact);
                if let Some(overlap) = overlap {
                    self.matches += 1;
                    matches.push(Match { probe: group.probe, build: candidate.build, overlap });
                    if first_only {
                        work.next = end;
                    }
                }
            }
            work.group += 1;
        }
        Poll::Ready(Verified::Chunk(work.chunk))
    }

    fn add_to(&self, funnel: &mut Funnel) {
        funnel.verified += self.verified;
        funnel.matches += self.matches;
    }
}

/// `overlap` plus the common tokens of two ascending runs, if that is at least `required`. Unless
/// `exact`, counting may stop once `required` is reached.
#[inline]
fn merge(a: &[u32], b: &[u32], overlap: u32, required: u32, exact: bool) -> Option<u32> {
    let (mut i, mut j) = (0, 0);
    let mut overlap = overlap as usize;
    let required = required as usize;
    // How many tokens of each side may stay without a partner.
    let (Some(mut spare_a), Some(mut spare_b)) =
        ((overlap + a.len()).checked_sub(required), (overlap + b.len()).checked_sub(required))
    else {
        return None;
    };
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            overlap += 1;
            i += 1;
            j += 1;
            if !exact && overlap >= required {
                break;
            }
        } else if a[i] < b[j] {
            if spare_a == 0 {
                return None;
            }
            spare_a -= 1;
            i += 1;
        } else {
            if spare_b == 0 {
                return None;
            }
            spare_b -= 1;
            j += 1;
        }
    }
    (overlap >= required).then_some(overlap as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_counts_exactly_or_gives_up() {
        let (a, b) = ([1, 3, 5, 7, 9], [2, 3, 5, 8, 9, 11]);
        assert_eq!(merge(&a, &b, 2, 5, true), Some(5));
        assert_eq!(merge(&a, &b, 2, 4, true), Some(5));
        assert_eq!(merge(&a, &b, 2, 4, false), Some(4));
        assert_eq!(merge(&a, &b, 2, 6, true), None);
        assert_eq!(merge(&a, &[], 2, 2, true), Some(2));
        assert_eq!(merge(&a, &[], 2, 3, true), None);
        assert_eq!(merge(&[], &[], 0, 0, false), Some(0));
    }

    /// A lower required overlap never changes an exact count.
    #[test]
    fn spare_tokens_do_not_cut_exact_counts_short() {
        let a: Vec<u32> = (0..50).map(|i| i * 2).collect();
        let b: Vec<u32> = (0..40).map(|i| i * 3).collect();
        let common = a.iter().filter(|t| b.contains(t)).count() as u32;
        for required in 0..=common {
            assert_eq!(merge(&a, &b, 0, required, true), Some(common));
        }
        assert_eq!(merge(&a, &b, 0, common + 1, true), None);
    }
}
