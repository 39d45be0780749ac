//! The strategies of joins of vectors.

use std::sync::Arc;

use super::bounds::Frame;
use super::choice::NumberForm;
use super::index::{KeptIndex, PreparedIndex, VectorIndex};
use super::join::VectorJoin;
use super::nested_loop;
use crate::engine::{Cost, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms};
use crate::error::Result;

/// Every strategy on the CPU that `auto` compares, in the order in which equal estimates are preferred. All serve
/// distances.
pub static STRATEGIES: &[&dyn Strategy<VectorJoin>] = &[&NestedLoop, &Directory];
/// The strategies of inner products, which no box bounds.
pub(super) static OF_PRODUCTS: &[&dyn Strategy<VectorJoin>] = &[&NestedLoop];

/// Tiles of products in `f32`, or of bytes, reject and accept pairs; `f64` decides those between.
#[derive(Debug)]
pub(super) struct NestedLoop;

impl Strategy<VectorJoin> for NestedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn estimate(&self, join: &mut VectorJoin, terms: &Terms<'_>) -> Result<Estimate> {
        /// Nanoseconds to convert a number.
        const NUMBER: f64 = 2.0;
        join.choose_filter(terms)?;
        let nanos = join.pairs() + NUMBER * join.build.number_count() as f64;
        let of_bytes = matches!(join.filter, Some(NumberForm::Bytes { .. }));
        let manner = of_bytes.then_some("by products of bytes");
        Ok(Estimate::new(Some(Cost::cpu(nanos)), ()).in_manner(manner))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let VectorJoin { build, joining, filter, .. } = join;
        match filter {
            Some(filter) => {
                nested_loop::prepare_with(Arc::clone(build), *joining, filter.clone(), context)
            }
            None => nested_loop::prepare(Arc::clone(build), *joining, context),
        }
    }
}

/// Boxes around neighbours by quantiles, over the eight dimensions of the greatest variance.
#[derive(Debug)]
pub(super) struct Directory;

impl Strategy<VectorJoin> for Directory {
    fn name(&self) -> &'static str {
        "directory"
    }

    /// Known where a sample has made the index; without one, comparing all pairs is quicker. A strategy
    /// that is named needs no estimate.
    fn estimate(&self, join: &mut VectorJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let mut index = None;
        let mut cost = Cost::cpu(f64::INFINITY);
        if !terms.is_only {
            join.sample_index(terms)?;
            if let Some(sampled) = join.sampled() {
                index = Some(Arc::clone(&sampled.index));
                // The index is there.
                cost = Cost::cpu(sampled.nanos);
            }
        }
        Ok(Estimate::new(Some(cost), index))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        estimate: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let VectorJoin { build, joining, .. } = join;
        let index = match estimate.parts::<Option<Arc<VectorIndex>>>()? {
            Some(index) => Arc::clone(index),
            None => match KeptIndex::of(build, context) {
                Some(index) => index,
                None => {
                    let frame = Frame::of(build, joining.threshold, context.cancel)?;
                    let index = Arc::new(VectorIndex::of(Arc::clone(build), frame, 1, context)?);
                    KeptIndex::keep(&index, context);
                    index
                }
            },
        };
        Ok(Arc::new(PreparedIndex { index, joining: *joining }))
    }
}
