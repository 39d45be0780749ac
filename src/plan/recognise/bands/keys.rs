//! Bands of a join as blocking keys.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, UnnestOptions};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::bucket::{bucket_of, buckets_of};
use super::find::{ValueBand, bands};
use crate::plan::logical::SetSimilarityJoin;
use crate::spec::{Need, Side};

/// Bands that become keys, at most: a row is there once for each combination of its buckets.
const MOST: usize = 2;

/// A join by the bands of its residual, which become keys; the join itself where there are none, or all rows of both
/// sides are in the result.
pub(crate) fn block_by_bands(mut node: SetSimilarityJoin) -> Result<SetSimilarityJoin> {
    let Some(repeated) = repeated_side(&node) else { return Ok(node) };
    let conjuncts = node.residual.iter().flat_map(split_conjunction);
    let mut found = bands(conjuncts, node.left.schema(), node.right.schema());
    found.truncate(MOST);
    if found.is_empty() {
        return Ok(node);
    }
    let (plan, keys) = repeat(Arc::clone(node.input(repeated)), &found, repeated)?;
    for (band, key) in found.iter().zip(keys) {
        let own = bucket_of(band, band.terms[repeated.other() as usize].clone());
        node.on.push(match repeated {
            Side::Left => (key, own),
            Side::Right => (own, key),
        });
    }
    match repeated {
        Side::Left => node.left = plan,
        Side::Right => node.right = plan,
    }
    Ok(node)
}

/// The side whose rows may be there several times: none of them is in the result without a partner.
fn repeated_side(node: &SetSimilarityJoin) -> Option<Side> {
    if node.shared.is_some() || !matches!(node.need, Need::Rows | Need::Nearest(_)) {
        return None;
    }
    match node.join_type {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
            Some(Side::Right)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => Some(Side::Left),
        _ => None,
    }
}

/// The rows of a side, once for each of their buckets, and the columns that hold these.
fn repeat(
    plan: Arc<LogicalPlan>,
    bands: &[ValueBand],
    side: Side,
) -> Result<(Arc<LogicalPlan>, Vec<Expr>)> {
    let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let mut keys = vec![];
    for (place, band) in bands.iter().enumerate() {
        let [low, high] = band.range;
        // The partner minus the value.
        let range = match side {
            Side::Right => [low, high],
            Side::Left => [-high, -low],
        };
        let name = format!("__simjoin_band_{place}");
        columns.push(buckets_of(band, range, band.terms[side as usize].clone()).alias(&name));
        keys.push(Column::new_unqualified(name));
    }
    let options = UnnestOptions::new().with_preserve_nulls(false);
    let mut builder = LogicalPlanBuilder::new_from_arc(plan).project(columns)?;
    // One after the other: of several at once the lists are read side by side.
    for key in &keys {
        builder = builder.unnest_column_with_options(key.clone(), options.clone())?;
    }
    Ok((Arc::new(builder.build()?), keys.into_iter().map(Expr::Column).collect()))
}
