//! Bitmap blocks: signatures tested against signatures, without an index.
//!
//! Sets are ordered by size and their signatures ([`crate::set::filter::SignatureScheme`]) stored
//! eight abreast. A few probe sets at a time stay in registers and meet every block of an
//! admissible size: AND, population count, one comparison with a bound for the whole block. The
//! words are ordered by how much they tell, and the kernel looks at as few of the first ones as
//! pay; only survivors meet the others, and only what passes these as well has its rare tokens
//! compared. Where that pays, [columns](unions) of several neighbouring sets each are tested before
//! the blocks. Where every token of the universe owns a bit, the number of common bits is the
//! overlap.
//!
//! ```text
//! Blocks ──► Traversal ──► survivors ──► BitmapWorker: rare tokens compared ──► matches
//! ```

use crate::tuning::Size;

mod blocks;
mod cursor;
mod lines;
#[cfg(test)]
pub mod tests;
mod traversal;
mod unions;

use std::sync::Arc;

use crate::error::Result;
use crate::memory::Memory;

use self::blocks::{FRONT_WIDTHS, SignatureBlocks};
pub use self::blocks::{Front, test_rate};
use self::cursor::BitmapWorker;
use self::lines::{ABREAST, GROUP};
use self::traversal::Traversal;
use self::unions::{UnionShape, passing_shares};
use crate::engine::{
    Cost, Cursor, DevicePlace, Estimate, Pairing, PrepareContext, PreparedJoin, Strategy, Terms,
    UnitCursor,
};
use crate::set::collection::SetCollection;
use crate::set::filter::SignatureScheme;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::set::statistics::Statistics;

/// Nanoseconds of one core, as measured on an AMD EPYC with AVX-512; tests take more by
/// [`test_rate`].
mod nanos {
    /// Testing a probe set with a set of a block: always, and for each word.
    pub(super) const TEST: f64 = 0.04;
    pub(super) const WORD: f64 = 0.075;
    /// Going on from columns that pass to their blocks, for each pair behind them.
    pub(super) const REGROUP: f64 = 0.2;
    /// The cost of a survivor until it is decided.
    pub(super) const SURVIVOR: f64 = 6.0;
    /// Deciding a pair that passes all words.
    pub(super) const CANDIDATE: f64 = 16.0;
    /// Fetching and comparing a token of both sets of such a pair, where signatures do not tell all.
    pub(super) const FETCHED: f64 = 1.0;
    /// Signing a token.
    pub(super) const TOKEN: f64 = 2.0;
    /// Laying out a set in a block.
    pub(super) const SET: f64 = 50.0;
}

/// Joins of more pairs take several times as long as trying columns of several sets.
const PAIRS_OF_UNIONS: Size<f64> = Size { usual: 5e7, small: 0.0 };

/// The strategy `bitmap`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BitmapBlocks;

impl Strategy<SetJoin> for BitmapBlocks {
    fn name(&self) -> &'static str {
        "bitmap"
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        sample(join, terms)?;
        let Statistics { admissible_pairs, candidate_size, .. } = join.statistics;
        let unions = match unions_may_pay(join, terms) {
            true => passing_shares(&join.build, &join.spec, terms.context)?,
            false => vec![],
        };
        let (front, tests) = best_front(join, &unions);
        let candidates = admissible_pairs * join.signature_share(join.signature_words());
        let fetched = if join.has_exact_scheme() { 0.0 } else { candidate_size * nanos::FETCHED };
        let decided = tests + candidates * (nanos::CANDIDATE + fetched);
        Ok(Estimate::new(Some(Cost::cpu(decided)), front))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(Arc::clone(&join.build), join.spec, join.scheme(), *estimate.parts()?, context)
    }
}

/// Tries pairs of sets where the join takes so long that this pays, or only their signatures.
///
/// # Errors
///
/// When the work is cancelled.
pub fn sample(join: &mut SetJoin, terms: &Terms<'_>) -> Result<()> {
    match terms.is_only || join.is_long() {
        true => join.sample(terms.context),
        false => join.sample_signatures(best_front(join, &[]).1, terms.context),
    }
}

/// Whether columns could make the join the quickest one: those that reject all pairs.
fn unions_may_pay(join: &SetJoin, terms: &Terms<'_>) -> bool {
    let pairs = join.statistics.admissible_pairs;
    if !join.is_sampled() || pairs <= join.spec.tuning.size(PAIRS_OF_UNIONS) {
        return false;
    }
    let (_, least) = best_front(join, &[0.0; UnionShape::COUNT]);
    let others = best_front(join, &[]).1.min(join.quickest_so_far());
    terms.is_only || least < others
}

#[derive(Debug)]
struct PreparedBitmap {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    blocks: Arc<SignatureBlocks>,
}

/// Prepares blocks of signatures of a scheme.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub fn prepare(
    build: Arc<SetCollection>,
    spec: JoinSpec,
    scheme: SignatureScheme,
    front: Front,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let blocks = SignatureBlocks::try_new(&build, scheme, front, &spec, context)?;
    Ok(Arc::new(PreparedBitmap { build, spec, blocks: Arc::new(blocks) }))
}

impl PreparedJoin for PreparedBitmap {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let (build, blocks) = (Arc::clone(&self.build), Arc::clone(&self.blocks));
        let traversal = Traversal::try_new(build, blocks, self.spec, reservation)?;
        Ok(Box::new(UnitCursor::new(BitmapWorker::new(traversal), self.spec.tuning)))
    }

    fn range_unit(&self) -> u32 {
        64
    }
}

/// The front that takes the least time, and the nanoseconds of a core until the pairs that pass all words
/// are found. `unions` are the shares of columns that pass, where they have been tried.
pub fn best_front(join: &SetJoin, unions: &[f64]) -> (Front, f64) {
    let (statistics, spec) = (&join.statistics, &join.spec);
    let union_share = |shape: UnionShape| {
        let place = UnionShape::all().position(|other| other == shape)?;
        unions.get(place).copied()
    };
    let slower = test_rate(spec.simd, spec.tuning);
    let laid_out = match spec.pairing {
        Pairing::All => statistics.sets + statistics.probed,
        Pairing::Unordered => statistics.sets,
    };
    let signing = statistics.signed_tokens(spec) * nanos::TOKEN + laid_out * nanos::SET;
    // The probe sets have no columns.
    let uniting = statistics.tokens + statistics.probe_tokens;
    let test = |words: usize| slower * (nanos::TEST + nanos::WORD * words as f64);
    let all = join.signature_share(join.signature_words());
    let cost = |front: Front| {
        let passing = join.signature_share(front.words);
        let Some((shape, share)) = front.unions.and_then(|s| Some((s, union_share(s)?))) else {
            let each = test(front.words) + passing * nanos::SURVIVOR;
            return signing + statistics.admissible_pairs * each;
        };
        // Where one of the columns passes, all blocks behind them are tested.
        let tested = (share * (ABREAST * GROUP) as f64).min(1.0);
        let survivors = all + (passing - all).max(0.0) * tested;
        let each = test(shape.words) / shape.members as f64
            + tested * (test(front.words) + slower * nanos::REGROUP)
            + survivors * nanos::SURVIVOR;
        signing + uniting * nanos::TOKEN + statistics.admissible_pairs * each
    };
    let shapes = || [None].into_iter().chain(UnionShape::all().map(Some));
    let widths = FRONT_WIDTHS.into_iter().filter(|&words| words <= join.signature_words());
    let fronts = widths.flat_map(|words| shapes().map(move |unions| Front { words, unions }));
    let known = |front: &Front| front.unions.is_none_or(|s| union_share(s).is_some());
    let costs = fronts.filter(known).map(|front| (front, cost(front)));
    let best = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    best.unwrap_or((Front::LEAST, f64::INFINITY))
}
