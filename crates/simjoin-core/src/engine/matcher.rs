//! A predicate over arguments of known types, as its family makes it.

use std::fmt::Debug;
use std::sync::Arc;

use super::{
    Axis, BuildEncoder, Collection, Domain, EncodeInput, Encoded, FinishContext, Growth, ItemId,
    KeyDictionary, MatchSpec, PrepareContext, StoredForm, Strategy, StrategyName, WorkStep,
};
use crate::error::Result;
use crate::predicate::{Call, Side};

/// The conversion of the rows of a join to items: a similarity predicate over arguments of known types.
///
/// An encoding reads values of the arguments' types and of their [`StoredForm`]s, and makes the same item of a row
/// in either form.
///
/// Where a row has one value, a [`RowMatcher`](super::RowMatcher) is enough.
pub trait Encoding: Debug + Send + Sync + 'static {
    /// The distinct items of some rows.
    type Items: Collection;
    /// The rows of one task's part of the build side.
    type Encoder: BuildEncoder;

    /// The line on which the rows of both sides lie.
    fn axis(&self) -> &dyn Axis;

    /// Whether encoders take the values that the argument of a side is [made of](super::Origin) in its
    /// place, and compute the rest themselves.
    fn reads_origin(&self, _side: Side) -> bool {
        false
    }

    /// The form in which the values of a side are stored on disk.
    fn stored(&self, side: Side) -> Arc<dyn StoredForm>;

    /// An encoder for rows of `side`, the build side.
    fn encoder(&self, side: Side) -> Self::Encoder;

    /// An encoder for stored rows of `side`, all of whose values `domain` holds.
    ///
    /// # Errors
    ///
    /// An internal error when another family made the domain.
    fn encoder_within(&self, side: Side, _domain: &Arc<dyn Domain>) -> Result<Self::Encoder> {
        Ok(self.encoder(side))
    }

    /// The items of the rows that several encoders have read. They do not depend on which encoder
    /// has read which rows, nor on the number of threads.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    fn finish(
        &self,
        parts: Vec<(Self::Encoder, KeyDictionary)>,
        context: &FinishContext<'_>,
    ) -> Result<Encoded>;

    /// Bounds on the bytes that finishing these parts takes, and on the part that may stay.
    fn finish_growth(&self, parts: &[(&Self::Encoder, &KeyDictionary)]) -> Growth;
}

/// A similarity predicate with its strategies.
///
/// The operator knows it as an [`AnyMatcher`](super::AnyMatcher), without its types.
pub trait Matcher: Encoding {
    /// The join that the strategies are compared for.
    type Join: Debug + Send + Sync + 'static;

    /// The rows that may match but whose value has [no score but NaN](crate::predicate::NanScore) with any other.
    fn rows_with_nan(&self, _input: &EncodeInput<'_>) -> usize {
        0
    }

    /// Bounds on the bytes that finishing these parts, preparing a join with them by `strategy` and
    /// probing it takes: those of [`Encoding::finish_growth`] where strategies and cursors allocate nothing
    /// that grows with the build side.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    fn growth(
        &self,
        parts: &[(&Self::Encoder, &KeyDictionary)],
        _spec: &MatchSpec,
        _strategy: StrategyName,
    ) -> Result<Growth> {
        Ok(self.finish_growth(parts))
    }

    /// About the bytes that a cursor reserves, besides its match buffer and the memory that grows
    /// with the build side.
    fn cursor_bytes(&self, _spec: &MatchSpec) -> usize {
        0
    }

    /// The strategies that a join may choose, in the order in which equal estimates are preferred.
    fn strategies(&self) -> &[&'static dyn Strategy<Self::Join>];

    /// Further strategies, which a join runs only where it names them: they are there for comparison.
    fn comparisons(&self) -> &[&'static dyn Strategy<Self::Join>] {
        &[]
    }

    /// The strategy with the smallest index, for a build side that leaves no memory for another;
    /// `None` where no index is smaller than the others.
    fn smallest(&self) -> Option<StrategyName> {
        None
    }

    /// The join for a choice of its strategy, with the figures that all strategies need.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    fn join(
        &self,
        build: &Arc<Self::Items>,
        spec: &MatchSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self::Join>;

    /// The work for the items of a self-join.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    fn work(&self, items: &Self::Items, _spec: &MatchSpec) -> Result<Vec<WorkStep>> {
        Ok(WorkStep::even(items.groups().len()))
    }

    /// The values of a function of the family for some pairs of items of the left and the right
    /// collection, appended to `values`.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    fn scores(
        &self,
        call: Call,
        collections: [&Self::Items; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()>;
}

/// A matching pair of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPair {
    /// The left and the right item.
    pub items: [ItemId; 2],
    /// [`Match::detail`](super::Match::detail).
    pub detail: u32,
}
