//! Bitmap blocks: signatures tested against signatures, without an index.
//!
//! Sets are ordered by size and their signatures ([`crate::set::filter::SignatureScheme`]) stored
//! eight abreast. A few probe sets at a time stay in registers and meet every block of an
//! admissible size: AND, population count, one comparison with a bound for the whole block. The
//! words are ordered by how much they tell, and the kernel looks at as few of the first ones as
//! pay; only survivors meet the others, and only what passes these as well has its rare tokens
//! compared. Where every token of the universe owns a bit, the number of common bits is the
//! overlap.
//!
//! ```text
//!                          ┌──► BitmapCursor: rare tokens compared on the CPU ──► matches
//! Blocks ──► Traversal ────┤
//!            survivors     └──► BitmapSource: candidates ──► verifier on a device
//! ```

mod blocks;
mod cursor;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod traversal;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

pub(super) use self::blocks::test_rate;
use self::blocks::{Blocks, FRONT_WIDTHS};
use self::cursor::BitmapCursor;
use self::source::BitmapSource;
use self::traversal::Traversal;
use crate::engine::{Cost, Cursor, Placement, PreparedJoin};
use crate::set::SetCollection;
use crate::set::Statistics;
use crate::set::costs;
use crate::set::filter_verify::Verifiers;
use crate::set::rates::Rates;
use crate::set::{JoinSpec, JoinStrategy, PrepareContext};

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512; tests take more by
/// [`Rates::test`].
mod nanos {
    /// Testing a probe set with a set of a block: always, and for each word.
    pub(super) const TEST: f64 = 0.03;
    pub(super) const WORD: f64 = 0.06;
    /// What a survivor costs until it is decided.
    pub(super) const SURVIVOR: f64 = 6.0;
    /// Deciding a pair that passes all words.
    pub(super) const CANDIDATE: f64 = 16.0;
    /// Signing a token.
    pub(super) const TOKEN: f64 = 2.0;
    /// Laying out a set in a block.
    pub(super) const SET: f64 = 50.0;
}

/// The strategy `bitmap`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BitmapBlocks;

impl JoinStrategy for BitmapBlocks {
    fn name(&self) -> &'static str {
        "bitmap"
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn estimate(&self, statistics: &Statistics, spec: &JoinSpec, placement: Placement) -> Cost {
        let (_, tests) = best_front(statistics, spec);
        let candidates =
            statistics.admissible_pairs * statistics.signature_share(statistics.signature_words());
        let decided = tests + candidates * nanos::CANDIDATE;
        match placement {
            Placement::Cpu => Cost::cpu(decided),
            Placement::Gpu if statistics.exact_signatures => Cost::without_device_work(decided),
            Placement::Gpu => {
                let sent = costs::sending(statistics, candidates);
                Cost { cpu: tests + sent.cpu, ..sent }
            }
        }
    }

    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let scheme = statistics.scheme(&build);
        let (front_words, _) = best_front(statistics, &spec);
        let blocks = Blocks::try_new(&build, scheme, front_words, &spec, context)?;
        Ok(Arc::new(PreparedBitmap::new(build, spec, blocks, context)))
    }
}

#[derive(Debug)]
struct PreparedBitmap {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    blocks: Arc<Blocks>,
    /// Where survivors are decided, if not by their signatures and rare tokens.
    verifiers: Option<Verifiers>,
}

impl PreparedBitmap {
    fn new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        blocks: Blocks,
        context: PrepareContext<'_>,
    ) -> Self {
        // Exact signatures leave nothing to be verified.
        let device = context.device.filter(|_| !blocks.scheme().is_exact());
        let verifiers = device.map(|device| Verifiers::new(Arc::clone(&build), spec, Some(device)));
        Self { build, spec, blocks: Arc::new(blocks), verifiers }
    }
}

impl PreparedJoin for PreparedBitmap {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let (build, blocks) = (Arc::clone(&self.build), Arc::clone(&self.blocks));
        let traversal = || Traversal::try_new(build, blocks, self.spec, reservation);
        match &self.verifiers {
            None => Ok(Box::new(BitmapCursor::new(traversal()?))),
            Some(verifiers) => {
                let source = || Ok(BitmapSource::new(traversal()?));
                verifiers.open(source, None, reservation)
            }
        }
    }

    fn range_unit(&self) -> u32 {
        64
    }
}

/// The number of words that the kernel should test, and the nanoseconds of a core until the pairs
/// that pass all words are found.
fn best_front(statistics: &Statistics, spec: &JoinSpec) -> (usize, f64) {
    let slower = Rates::of(spec.simd).test;
    let signed_again = statistics.probed / statistics.sets.max(1.0);
    let signing =
        (1.0 + signed_again) * statistics.tokens * nanos::TOKEN + statistics.sets * nanos::SET;
    let cost = |words: usize| {
        let test = slower * (nanos::TEST + nanos::WORD * words as f64);
        let survivors = statistics.signature_share(words) * nanos::SURVIVOR;
        signing + statistics.admissible_pairs * (test + survivors)
    };
    let widths = FRONT_WIDTHS.into_iter().filter(|&words| words <= statistics.signature_words());
    let costs = widths.map(|words| (words, cost(words)));
    let (words, cost) = costs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, f64::INFINITY));
    (words, cost)
}
