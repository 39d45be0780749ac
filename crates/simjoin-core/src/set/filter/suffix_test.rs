//! The test of a posting without an index, for estimates.

use crate::set::collection::SetCollection;
use crate::set::filter::postings::sign;
use crate::set::filter::size_bounds::SizeBounds;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;

/// A systematic sample: true once every `step` calls.
#[derive(Debug)]
pub struct Every {
    step: u32,
    left: u32,
}

impl Every {
    /// `step` is at least 1; the first true comes after `first` calls, modulo `step`.
    pub fn new(step: u32, first: u32) -> Self {
        Self { step, left: first % step }
    }

    fn next(&mut self) -> bool {
        let yes = self.left == 0;
        self.left = if yes { self.step - 1 } else { self.left - 1 };
        yes
    }
}

/// The test of a posting, on pairs of sets of one collection: for estimates.
#[derive(Debug)]
pub struct SuffixTest;

impl SuffixTest {
    /// The numbers of 32-bit words that a posting's signature may have.
    pub const WIDTHS: [usize; 4] = [0, 1, 2, 4];

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
        let indexed = others.len().min(spec.indexed_prefix(others.len() as u32) as usize);
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
        // A token's bit in few words is that in many, folded.
        let widest = [sign(a, 4), sign(b, 4)];
        Self::WIDTHS.map(|words| {
            let [a_bits, b_bits] = widest.map(|bits| match words {
                0 => 0,
                1 => [0, 32, 64, 96]
                    .map(|by| (bits >> by) as u32)
                    .iter()
                    .fold(0, |s, b| s | b)
                    .into(),
                2 => u128::from(bits as u64 | (bits >> 64) as u64),
                _ => bits,
            });
            let differing = (a_bits ^ b_bits).count_ones() as usize;
            needed <= a.len().min(b.len()) && differing + 2 * needed <= a.len() + b.len()
        })
    }
}
