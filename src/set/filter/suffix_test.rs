//! The test of a posting without an index, for estimates.

use crate::set::JoinSpec;
use crate::set::filter::postings::{SuffixSignature, add_token};
use crate::set::filter::prefix::indexed_prefix;
use crate::set::filter::size_bounds::SizeBounds;
use crate::set::{SetCollection, SetId};

/// A systematic sample: true once every `step` calls.
#[derive(Debug)]
pub(crate) struct Every {
    step: u32,
    left: u32,
}

impl Every {
    /// `step` is at least 1.
    pub(crate) fn new(step: u32) -> Self {
        Self { step, left: step / 2 }
    }

    fn next(&mut self) -> bool {
        let yes = self.left == 0;
        self.left = if yes { self.step - 1 } else { self.left - 1 };
        yes
    }
}

/// The test of a posting, on pairs of sets of one collection: for estimates.
#[derive(Debug)]
pub(crate) struct SuffixTest;

impl SuffixTest {
    /// The numbers of 32-bit words that a posting's signature may have.
    pub(crate) const WIDTHS: [usize; 4] = [0, 1, 2, 4];

    /// Calls `met` for each posting of `partner` that `probe` would meet, with the widths under
    /// which it would pass.
    pub(crate) fn postings(
        build: &SetCollection,
        spec: &JoinSpec,
        bounds: &SizeBounds,
        probe: SetId,
        partner: SetId,
        every: &mut Every,
        mut met: impl FnMut([bool; 4]),
    ) {
        let (tokens, others) = (build.tokens(probe), build.tokens(partner));
        let prefix = tokens.len().min(bounds.prefix as usize);
        let indexed = others.len().min(indexed_prefix(spec, others.len() as u32) as usize);
        let (mut i, mut j) = (0, 0);
        while i < prefix && j < indexed {
            if tokens[i] == others[j] && every.next() {
                let needed = bounds.required(others.len() as u32) as usize - 1;
                met(Self::passes(&tokens[i + 1..], &others[j + 1..], needed));
            }
            let (a, b) = (tokens[i], others[j]);
            i += usize::from(a <= b);
            j += usize::from(b <= a);
        }
    }

    fn passes(a: &[u32], b: &[u32], needed: usize) -> [bool; 4] {
        Self::WIDTHS.map(|words| {
            let mut differing = 0;
            if words > 0 {
                let mut signatures = [SuffixSignature::default(); 2];
                a.iter().for_each(|&t| add_token(&mut signatures[0], words, t));
                b.iter().for_each(|&t| add_token(&mut signatures[1], words, t));
                let words = signatures[0].iter().zip(&signatures[1]);
                differing = words.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() as usize;
            }
            needed <= a.len().min(b.len()) && differing + 2 * needed <= a.len() + b.len()
        })
    }
}
