//! A predicate as the operator knows it: a [`Matcher`] without its types.
//!
//! Parts of a family cross the operator as [`Collection`]s, [`BuildEncoder`]s and [`ProbeUnit`]s, whose
//! types are known again here and in [`Unit::of`](super::Unit::of).
//!
//! [`ProbeUnit`]: super::ProbeUnit

use std::fmt::Debug;
use std::sync::Arc;

use super::choose::{admitted, choose, finding_nearest, nearest};
use super::{
    AnyChoice, Axis, BuildEncoder, Collection, DeviceChoice, DeviceRequest, Domain, EncodeInput,
    Encoded, EncodedPart, Encoding, FinishContext, Growth, ItemPair, KeyDictionary, MatchSpec,
    Matcher, PrepareContext, PreparedJoin, StoredForm, StrategyInfo, StrategyName, WorkStep,
};
use crate::error::Result;
use crate::predicate::{Call, Side};

/// The methods of a [`Matcher`] and its [`Encoding`] that the operator calls. Methods that take parts fail
/// with an internal error
/// where another family made these.
pub trait AnyMatcher: Debug + Send + Sync {
    /// [`Encoding::axis`].
    fn axis(&self) -> &dyn Axis;

    /// [`Encoding::reads_origin`].
    fn reads_origin(&self, side: Side) -> bool;

    /// [`Encoding::stored`].
    fn stored(&self, side: Side) -> Arc<dyn StoredForm>;

    /// [`Encoding::encoder`]; with a domain, [`Encoding::encoder_within`].
    fn encoder(
        &self,
        side: Side,
        domain: Option<&Arc<dyn Domain>>,
    ) -> Result<Box<dyn BuildEncoder>>;

    /// [`Matcher::rows_with_nan`].
    fn rows_with_nan(&self, input: &EncodeInput<'_>) -> usize;

    /// [`Encoding::finish`].
    fn finish(&self, parts: Vec<EncodedPart>, context: &FinishContext<'_>) -> Result<Encoded>;

    /// [`Matcher::growth`].
    fn growth(
        &self,
        parts: &[(&dyn BuildEncoder, &KeyDictionary)],
        spec: &MatchSpec,
        strategy: StrategyName,
    ) -> Result<Growth>;

    /// [`Matcher::cursor_bytes`].
    fn cursor_bytes(&self, spec: &MatchSpec) -> usize;

    /// [`Matcher::smallest`].
    fn smallest(&self) -> Option<StrategyName>;

    /// Every strategy that a join may name: [`Matcher::strategies`], then [`Matcher::comparisons`].
    fn strategies(&self) -> Vec<StrategyInfo>;

    /// Fails with a plan error where no strategy has that name and runs there.
    fn admit(&self, choice: StrategyName, device: DeviceChoice) -> Result<()>;

    /// Ranks every strategy that `choice` names in every placement that `request` admits by its own
    /// estimate of the time, and takes the first that can be had.
    ///
    /// # Errors
    ///
    /// When a device is demanded that cannot be used, or that the strategy has no use for.
    fn choose(
        &self,
        choice: StrategyName,
        build: &Arc<dyn Collection>,
        spec: &MatchSpec,
        request: &DeviceRequest,
        context: PrepareContext<'_>,
    ) -> Result<Box<dyn AnyChoice>>;

    /// Whether a strategy on the CPU that `choice` names finds the nearest partners of items.
    fn finds_nearest(&self, choice: StrategyName) -> bool;

    /// The best of these strategies for the [nearest partners](MatchSpec::nearest) of items, ready to be probed; `None`
    /// where there is none, or none is named and joins with bounds take less time.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    fn nearest(
        &self,
        choice: StrategyName,
        build: &Arc<dyn Collection>,
        spec: &MatchSpec,
        context: PrepareContext<'_>,
    ) -> Result<Option<Arc<dyn PreparedJoin>>>;

    /// [`Matcher::work`].
    fn work(&self, items: &dyn Collection, spec: &MatchSpec) -> Result<Vec<WorkStep>>;

    /// [`Matcher::scores`].
    fn scores(
        &self,
        call: Call,
        collections: [&dyn Collection; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()>;
}

impl<M: Matcher> AnyMatcher for M {
    fn axis(&self) -> &dyn Axis {
        Encoding::axis(self)
    }

    fn reads_origin(&self, side: Side) -> bool {
        Encoding::reads_origin(self, side)
    }

    fn stored(&self, side: Side) -> Arc<dyn StoredForm> {
        Encoding::stored(self, side)
    }

    fn encoder(
        &self,
        side: Side,
        domain: Option<&Arc<dyn Domain>>,
    ) -> Result<Box<dyn BuildEncoder>> {
        Ok(Box::new(match domain {
            Some(domain) => self.encoder_within(side, domain)?,
            None => Encoding::encoder(self, side),
        }))
    }

    fn rows_with_nan(&self, input: &EncodeInput<'_>) -> usize {
        Matcher::rows_with_nan(self, input)
    }

    fn finish(&self, parts: Vec<EncodedPart>, context: &FinishContext<'_>) -> Result<Encoded> {
        let parts = parts.into_iter().map(|(encoder, keys)| Ok((encoder.into()?, keys)));
        Encoding::finish(self, parts.collect::<Result<_>>()?, context)
    }

    fn growth(
        &self,
        parts: &[(&dyn BuildEncoder, &KeyDictionary)],
        spec: &MatchSpec,
        strategy: StrategyName,
    ) -> Result<Growth> {
        let parts = parts.iter().map(|(encoder, keys)| Ok((encoder.of()?, *keys)));
        Matcher::growth(self, &parts.collect::<Result<Vec<_>>>()?, spec, strategy)
    }

    fn cursor_bytes(&self, spec: &MatchSpec) -> usize {
        Matcher::cursor_bytes(self, spec)
    }

    fn smallest(&self) -> Option<StrategyName> {
        Matcher::smallest(self)
    }

    fn strategies(&self) -> Vec<StrategyInfo> {
        StrategyInfo::listed(&[Matcher::strategies(self), self.comparisons()])
    }

    fn admit(&self, choice: StrategyName, device: DeviceChoice) -> Result<()> {
        admitted(self, choice, device).map(drop)
    }

    fn choose(
        &self,
        choice: StrategyName,
        build: &Arc<dyn Collection>,
        spec: &MatchSpec,
        request: &DeviceRequest,
        context: PrepareContext<'_>,
    ) -> Result<Box<dyn AnyChoice>> {
        Ok(Box::new(choose(self, choice, &build.shared()?, spec, request, context)?))
    }

    fn finds_nearest(&self, choice: StrategyName) -> bool {
        !finding_nearest(self, choice).is_empty()
    }

    fn nearest(
        &self,
        choice: StrategyName,
        build: &Arc<dyn Collection>,
        spec: &MatchSpec,
        context: PrepareContext<'_>,
    ) -> Result<Option<Arc<dyn PreparedJoin>>> {
        nearest(self, choice, &build.shared()?, spec, context)
    }

    fn work(&self, items: &dyn Collection, spec: &MatchSpec) -> Result<Vec<WorkStep>> {
        Matcher::work(self, items.of()?, spec)
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&dyn Collection; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        Matcher::scores(self, call, [left.of()?, right.of()?], pairs, values)
    }
}
