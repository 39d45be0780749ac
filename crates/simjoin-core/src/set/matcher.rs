//! A predicate over sets, as the operator knows it.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, UInt64Type};

use crate::engine::{
    self, Argument, Axis, Collection, Domain, EncodeInput, Encoded, Encoding, FinishContext,
    Growth, ItemPair, KeyDictionary, MatchSpec, Matcher, Origin, Pairing, PrepareContext,
    RowGroups, Scratch, StoredForm, Strategy, StrategyName, WorkStep,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::predicate::{Call, Predicate, Side};
use crate::set::axis::SizeAxis;
use crate::set::bitsliced::BitSliced;
use crate::set::candidates::CandidateChunk;
use crate::set::collection::SetCollection;
use crate::set::encode::builder::Tokenizers;
use crate::set::encode::finish::{finish, finish_growth};
use crate::set::encode::partners::BuildSizes;
use crate::set::encode::stored_tokens::StoredTokens;
use crate::set::encode::{BuildEncoder, ProbeEncoder, ProbeScratch};
use crate::set::filter::PositionalSource;
use crate::set::filter::size_bounds::SizeBoundsCache;
use crate::set::filter_verify::FilterVerify;
use crate::set::join::SetJoin;
use crate::set::join_spec::JoinSpec;
use crate::set::measure::{Bounds, Measure, Role};
use crate::set::rising::Rising;
use crate::set::scancount::ScanCount;
use crate::set::stored::Unload;
use crate::set::strategies::{self, STRATEGIES};
use crate::values::{TextTokenizer, ValueSet};

/// A measure over lists of tokens with its threshold.
#[derive(Debug)]
pub(crate) struct SetMatcher {
    predicate: Predicate,
    /// Per side.
    stored: [StoredTokens; 2],
    sources: Sources,
    axis: SizeAxis,
    strategies: Vec<&'static dyn Strategy<SetJoin>>,
    comparisons: &'static [&'static dyn Strategy<SetJoin>],
}

/// By side, what makes the tokens of an argument, where they are those of a text.
#[derive(Debug)]
pub(crate) struct Sources([Option<TextTokenizer>; 2]);

impl Sources {
    pub(crate) fn of(arguments: [Argument<'_>; 2]) -> Self {
        Self(arguments.map(|argument| match argument.origin {
            Some(Origin::Computed(by)) => by.downcast_ref().copied(),
            Some(Origin::Cast(_)) | None => None,
        }))
    }
}

impl SetMatcher {
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(crate) fn try_new(
        predicate: Predicate,
        stored: [StoredTokens; 2],
        sources: Sources,
    ) -> Result<Self> {
        let axis = SizeAxis::try_new(predicate)?;
        let strategies = STRATEGIES.to_vec();
        Ok(Self { predicate, stored, sources, axis, strategies, comparisons: &[] })
    }

    fn reading(&self, side: Side, encoder: BuildEncoder) -> BuildEncoder {
        let tokenizer = |side: Side| self.sources.0[side as usize];
        let tokenizers = Tokenizers { build: tokenizer(side), probe: tokenizer(side.other()) };
        encoder.stored_as(self.stored[side as usize]).reading(tokenizers)
    }

    /// The predicate with strategies on devices, and with further ones for joins that name them.
    pub(crate) fn with_strategies(
        mut self,
        on_devices: &[&'static dyn Strategy<SetJoin>],
        comparisons: &'static [&'static dyn Strategy<SetJoin>],
    ) -> Self {
        self.strategies.extend(on_devices);
        Self { comparisons, ..self }
    }
}

impl Encoding for SetMatcher {
    type Items = SetCollection;
    type Encoder = BuildEncoder;

    fn axis(&self) -> &dyn Axis {
        &self.axis
    }

    fn reads_origin(&self, side: Side) -> bool {
        self.sources.0[side as usize].is_some()
    }

    fn stored(&self, side: Side) -> Arc<dyn StoredForm> {
        Arc::new(self.stored[side as usize])
    }

    fn encoder(&self, side: Side) -> BuildEncoder {
        self.reading(side, BuildEncoder::default())
    }

    fn encoder_within(&self, side: Side, domain: &Arc<dyn Domain>) -> Result<BuildEncoder> {
        Ok(self.reading(side, BuildEncoder::with_values(domain.shared::<ValueSet>()?)))
    }

    fn finish(
        &self,
        parts: Vec<(BuildEncoder, KeyDictionary)>,
        context: &FinishContext<'_>,
    ) -> Result<Encoded> {
        let (sets, encoder, keys) = finish(parts, context)?;
        let partners = match context.probe {
            Some(side) => {
                let bounds = Bounds::of(&self.predicate)?;
                Some(BuildSizes::new(bounds, Role::of(self.predicate.call, side), sets.runs()))
            }
            None => None,
        };
        let encoder = encoder.meeting(partners);
        Ok(Encoded { items: Box::new(sets), encoder: Arc::new(encoder), keys })
    }

    fn finish_growth(&self, parts: &[(&BuildEncoder, &KeyDictionary)]) -> Growth {
        let (finish, stays) = finish_growth(parts);
        Growth { finish, stays, ..Growth::default() }
    }
}

impl Matcher for SetMatcher {
    type Join = SetJoin;

    fn growth(
        &self,
        parts: &[(&BuildEncoder, &KeyDictionary)],
        spec: &MatchSpec,
        strategy: StrategyName,
    ) -> Result<Growth> {
        let sets = parts.iter().map(|(encoder, _)| encoder.set_count()).sum();
        let tokens = parts.iter().map(|(encoder, _)| encoder.token_count()).sum();
        let longest = parts.iter().map(|(encoder, _)| encoder.longest_set()).max().unwrap_or(0);
        let prepare = match strategy.name() {
            Some(name) if name == BitSliced.name() => {
                BitSliced::prepared_bytes(sets, tokens, spec.tuning)
            }
            Some(name) if name == Rising.name() => Rising::prepared_bytes(tokens),
            _ => JoinSpec::new(&self.predicate, spec)?.prepared_bytes(sets, tokens),
        };
        let cursor = match strategy.name() {
            Some(name) if name == ScanCount.name() => ScanCount::cursor_bytes(sets),
            Some(name) if name == BitSliced.name() => BitSliced::cursor_bytes(longest),
            Some(name) if name == Rising.name() => Rising::cursor_bytes(sets),
            _ => {
                let bounds = SizeBoundsCache::most_bytes(longest);
                sets * size_of::<u32>() * 3 + longest * PositionalSource::TOKEN_BYTES + bounds
            }
        };
        Ok(Growth { prepare, cursor, ..self.finish_growth(parts) })
    }

    fn cursor_bytes(&self, spec: &MatchSpec) -> usize {
        CandidateChunk::footprint(spec.candidate_chunk) + (256 << 10)
    }

    fn strategies(&self) -> &[&'static dyn Strategy<SetJoin>] {
        &self.strategies
    }

    fn comparisons(&self) -> &[&'static dyn Strategy<SetJoin>] {
        self.comparisons
    }

    fn smallest(&self) -> Option<StrategyName> {
        Some(StrategyName::new(FilterVerify::AllPairs.name()))
    }

    fn join(
        &self,
        build: &Arc<SetCollection>,
        spec: &MatchSpec,
        context: PrepareContext<'_>,
    ) -> Result<SetJoin> {
        let probes = match spec.pairing() {
            Pairing::Unordered => 1.0,
            Pairing::All => spec.probe_rows.ratio(build.groups().row_count()),
        };
        let spec = JoinSpec::new(&self.predicate, spec)?;
        strategies::join(Arc::clone(build), spec, probes, context)
    }

    fn work(&self, sets: &SetCollection, spec: &MatchSpec) -> Result<Vec<WorkStep>> {
        let spec = JoinSpec::new(&self.predicate, spec)?;
        if sets.runs().len() > WorkStep::MOST {
            return Ok(WorkStep::even(sets.len()));
        }
        let steps = sets.runs().iter().map(|(run, ids)| {
            // To take a set up, to read its tokens.
            let mut first = 100 + 10 * u64::from(run.size);
            let mut slope = 0;
            if let Some((least, greatest)) = spec.partner_sizes(run.size) {
                let partners = sets.runs().sets(run.key, least, greatest);
                match spec.pairing {
                    Pairing::All => first += partners.len() as u64,
                    Pairing::Unordered => {
                        first += u64::from(ids.start.saturating_sub(partners.start));
                        slope = 1;
                    }
                }
            }
            WorkStep { start: ids.start, items: ids.len() as u32, first, slope }
        });
        Ok(steps.collect())
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&SetCollection; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        let measure = Measure::of(call.function)?;
        values.extend(pairs.iter().map(|pair| {
            let [l, r] = pair.items;
            let (l, r) = (u64::from(left.size(l)), u64::from(right.size(r)));
            let overlap = u64::from(pair.detail);
            match call.first {
                Side::Left => measure.value(overlap, l, r),
                Side::Right => measure.value(overlap, r, l),
            }
        }));
        Ok(())
    }
}

impl Collection for SetCollection {
    fn groups(&self) -> &RowGroups {
        SetCollection::groups(self)
    }

    fn groups_mut(&mut self) -> &mut RowGroups {
        SetCollection::groups_mut(self)
    }

    fn size_in_bytes(&self) -> usize {
        SetCollection::size_in_bytes(self)
    }
}

impl engine::BuildEncoder for BuildEncoder {
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<()> {
        self.push_at(first_row, input, keys, reservation, base)
    }

    fn row_count(&self) -> usize {
        BuildEncoder::row_count(self)
    }

    fn reserved(&self) -> usize {
        BuildEncoder::reserved(self)
    }

    fn positions(&self, count: usize) -> Vec<u32> {
        Unload::sizes(self, count).collect()
    }

    fn unload<'a>(&'a self, keys: Option<&'a KeyDictionary>) -> Box<dyn engine::Unload + 'a> {
        Box::new(Unload::new(self, keys))
    }

    fn unload_bytes(&self, keys: &KeyDictionary) -> usize {
        Unload::footprint(self, keys)
    }
}

impl engine::ProbeEncoder for ProbeEncoder {
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut Scratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        let mut buffers = scratch.take::<ProbeScratch>();
        let sets = self.encode(input, keys, &mut buffers, reservation, base)?;
        let bytes = buffers.size_in_bytes();
        scratch.put_back(buffers, bytes);
        Ok(Arc::new(sets))
    }

    fn encode_stored(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut Scratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        let mut buffers = scratch.take::<ProbeScratch>();
        let sets = self.encode_rows(input, true, keys, &mut buffers, reservation, base)?;
        let bytes = buffers.size_in_bytes();
        scratch.put_back(buffers, bytes);
        Ok(Arc::new(sets))
    }

    fn scratch_bytes(&self) -> usize {
        ProbeEncoder::scratch_bytes(self)
    }

    fn value_count(&self) -> usize {
        self.token_count() as usize
    }

    fn size_in_bytes(&self) -> usize {
        ProbeEncoder::size_in_bytes(self)
    }
}

/// Integers in stored lists.
impl Domain for ValueSet {
    fn add(&mut self, lists: &dyn Array) {
        let tokens = lists.as_list::<i64>().values();
        if let Some(tokens) = tokens.as_primitive_opt::<Int64Type>() {
            tokens.values().iter().for_each(|&token| self.insert(token as u64));
        } else if let Some(tokens) = tokens.as_primitive_opt::<UInt64Type>() {
            tokens.values().iter().for_each(|&token| self.insert(token));
        }
    }

    fn close(&mut self) {
        self.number_all();
    }
}
