//! Integers within a distance: the smallest family there can be.
//!
//! `int_distance(a, b) <= d` joins `Int32` columns. The items are the distinct integers of each
//! blocking key in ascending order, and the only strategy looks partners up by bisection. It shows
//! all that a family has to bring (docs/contributing.md goes through it step by step), and proves
//! that nothing above the boundary knows sets: join types, filters, keys, counts, disk and the
//! cluster's grid run with it unchanged, held against a nested loop.

mod encode;
mod function;
mod sql;
mod strategy;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::ScalarUDF;

use self::encode::{Encoder, Values, finish};
use self::function::{INT_DISTANCE, is_int_distance};
use self::strategy::{BISECTION, NearJoin};
use crate::engine::{
    AnyMatcher, Argument, Axis, BuildEncoder, EncodeInput, Encoded, Family, FinishContext, Growth,
    ItemPair, KeyDictionary, MatchSpec, Matcher, PlaceReader, PrepareContext, RowPlace, StoredForm,
    StoredRows, Strategy, StrategyName,
};
use crate::spec::{Call, Function, Predicate, Side};

const FAMILY: &str = "near";

/// Step 1: the family.
#[derive(Debug)]
pub(crate) struct NearFamily;

impl Family for NearFamily {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn functions(&self) -> Vec<Function> {
        vec![INT_DISTANCE]
    }

    fn function_of(&self, udf: &ScalarUDF) -> Option<Function> {
        is_int_distance(udf).then_some(INT_DISTANCE)
    }

    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        [-predicate.bound, 0.0]
    }

    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>> {
        for (side, Argument { data_type, .. }) in ["left", "right"].iter().zip(arguments) {
            if *data_type != DataType::Int32 {
                return plan_err!(
                    "int_distance joins Int32 columns, but the {side} argument is {data_type}; \
                     cast it to INT"
                );
            }
        }
        Ok(Arc::new(Near(Distance::of(&predicate))))
    }

    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(Distance::of(&predicate)))
    }

    fn place_reader(&self, _: Predicate, _: Side, _: &DataType) -> Result<Box<dyn PlaceReader>> {
        Ok(Box::new(Places))
    }
}

/// The greatest distance of a match; `None` where nothing matches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distance(Option<u32>);

impl Distance {
    fn of(predicate: &Predicate) -> Self {
        Self((predicate.bound >= 0.0).then_some(predicate.bound as u32))
    }

    /// The integers within the distance of `value`.
    fn partners(self, value: i32) -> Option<Range<i64>> {
        let reach = i64::from(self.0?);
        Some(i64::from(value) - reach..i64::from(value) + reach + 1)
    }
}

/// Two neighbouring integers share a position, for positions begin at 1.
fn position(value: i32) -> u32 {
    ((i64::from(value) - i64::from(i32::MIN)) / 2) as u32 + 1
}

/// Step 2: the axis, by which the pieces on disk and the tiles of a cluster are made.
impl Axis for Distance {
    fn reach(&self, _: Side, positions: Range<u32>) -> Option<Range<u64>> {
        let steps = u64::from(self.0?) / 2 + 1;
        let least = u64::from(positions.start).saturating_sub(steps).max(1);
        Some(least..u64::from(positions.end) + steps)
    }

    fn weight(&self, _: u32) -> u64 {
        1
    }
}

#[derive(Debug)]
struct Places;

impl PlaceReader for Places {
    fn read(&mut self, input: &EncodeInput<'_>, places: &mut Vec<RowPlace>) -> Result<()> {
        places.clear();
        let values = integers(input.values)?;
        for row in 0..values.len() {
            let key_hash = match input.keys {
                Some(keys) => keys.key_hash(row),
                None => Some(0),
            };
            places.push(match key_hash.filter(|_| input.may_match(row) && values.is_valid(row)) {
                Some(key_hash) => {
                    let value = values.value(row);
                    let hash = (value as u32).wrapping_mul(0x9E37_79B9);
                    RowPlace { position: position(value), kind: 0, hash, key_hash }
                }
                None => RowPlace::default(),
            });
        }
        Ok(())
    }
}

/// Step 3: the stored form.
#[derive(Debug)]
struct Stored;

impl StoredForm for Stored {
    fn data_type(&self) -> DataType {
        DataType::Int32
    }

    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>> {
        let values = integers(input.values)?;
        let key = |row: usize| input.keys.map_or(Some(None), |keys| keys.bytes(row).map(Some));
        let has_item =
            |row: usize| input.may_match(row) && values.is_valid(row) && key(row).is_some();
        let rows = 0..values.len();
        let stored = rows.clone().map(|row| has_item(row).then(|| values.value(row)));
        let stored: ArrayRef = Arc::new(stored.collect::<Int32Array>());
        let keys = input.keys.map(|keys| {
            rows.clone()
                .map(|row| keys.bytes(row).filter(|_| has_item(row)))
                .collect::<BinaryArray>()
        });
        Ok(vec![StoredRows { rows, values: stored, keys }])
    }

    fn positions(&self, values: &dyn Array) -> Vec<u32> {
        let values = values.as_primitive::<Int32Type>();
        values.iter().map(|value| value.map_or(0, position)).collect()
    }
}

fn integers(values: &dyn Array) -> Result<&Int32Array> {
    match values.as_primitive_opt() {
        Some(values) => Ok(values),
        None => internal_err!("{} values instead of Int32", values.data_type()),
    }
}

/// Step 4: the predicate over a join's arguments.
#[derive(Debug)]
struct Near(Distance);

impl Matcher for Near {
    type Items = Values;
    type Encoder = Encoder;
    type Join = NearJoin;

    fn axis(&self) -> &dyn Axis {
        &self.0
    }

    fn stored(&self, _: Side) -> Arc<dyn StoredForm> {
        Arc::new(Stored)
    }

    fn encoder(&self, _: Side) -> Encoder {
        Encoder::default()
    }

    fn finish(
        &self,
        parts: Vec<(Encoder, KeyDictionary)>,
        context: &FinishContext<'_>,
    ) -> Result<Encoded> {
        finish(parts, context)
    }

    fn growth(
        &self,
        parts: &[(&Encoder, &KeyDictionary)],
        _: &MatchSpec,
        _: StrategyName,
    ) -> Result<Growth> {
        let rows: usize = parts.iter().map(|(encoder, _)| encoder.row_count()).sum();
        let keys: usize = parts.iter().map(|(_, keys)| keys.size_in_bytes()).sum();
        Ok(Growth { finish: Values::footprint(rows) + 2 * keys, stays: 0, prepare: 0, cursor: 0 })
    }

    fn strategies(&self) -> &[&'static dyn Strategy<NearJoin>] {
        BISECTION
    }

    fn join(
        &self,
        build: &Arc<Values>,
        spec: &MatchSpec,
        _: PrepareContext<'_>,
    ) -> Result<NearJoin> {
        Ok(NearJoin { build: Arc::clone(build), distance: self.0, spec: *spec })
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&Values; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        if call.function != INT_DISTANCE {
            return internal_err!("{:?} is no distance of integers", call.function);
        }
        values.extend(pairs.iter().map(|&ItemPair { items: [l, r], .. }| {
            f64::from(left.value(l).abs_diff(right.value(r)))
        }));
        Ok(())
    }
}
