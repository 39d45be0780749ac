//! Bounds against what they bound, and joins of the library against nested loops.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StructArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::measure::Mass;
use super::signature::{LossTables, Signature};
use super::{PairValues, WeightedMeasure};
use crate::{Join, Measure, Nearest};

/// No table counts more than a set has alone, whatever tokens have been left out.
#[test]
fn signatures_never_hide_a_shared_token() {
    let mut rng = StdRng::seed_from_u64(7);
    for round in 0..2000 {
        let bytes = [16, 32][round % 2];
        let mut tables = LossTables::new(bytes);
        let tokens: Vec<u32> =
            (0..rng.random_range(1..40)).map(|_| rng.random_range(0..500)).collect();
        let weights: Vec<f64> = tokens.iter().map(|_| rng.random_range(0.0..1.0)).collect();
        let whole: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / whole).collect();
        let allowed = rng.random_range(0.01..1.0);
        tables.begin(tokens.iter().copied().zip(shares.iter().copied()), allowed);
        let first = rng.random_range(0..tokens.len());
        (0..first).for_each(|at| tables.leave_out(tokens[at], shares[at]));
        let mut signature = Signature::default();
        let other: Vec<u32> = (0..20).map(|_| rng.random_range(0..500)).collect();
        other.iter().for_each(|token| signature.add(*token, bytes));
        let alone: f64 = (first..tokens.len())
            .filter(|at| !other.contains(&tokens[*at]))
            .map(|at| shares[at])
            .sum();
        let row: Vec<u8> = signature.to_bytes().take(bytes).collect();
        let limit = tables.limit(alone).unwrap();
        assert!(tables.single(&row, limit), "{alone} {allowed}");
        let group: Vec<u8> = row.iter().flat_map(|byte| [*byte; 32]).collect();
        assert_eq!(tables.grouped(&group, limit), u32::MAX);
        assert_eq!(tables.limit(-1e-12), None);
    }
}

#[test]
fn values_are_sums_of_integers() {
    let [a, b] = [[3, 1], [u32::MAX, 0]].map(|weights: [u32; 2]| Mass::of(&weights));
    assert_eq!((b.total, b.squares), (4_294_967_295, 18_446_744_065_119_617_025));
    assert_eq!(WeightedMeasure::Cosine.value(b.squares, b, b), 1.0);
    assert_eq!(WeightedMeasure::Jaccard.value(3, a, b), 3.0 / 4_294_967_296.0);
    assert_eq!(WeightedMeasure::Containment.value(3, a, b), 0.75);
    for measure in WeightedMeasure::ALL {
        assert_eq!(measure.value(0, Mass::default(), b), 0.0);
    }
}

/// Weighted sets of some hundred tokens, the frequent ones light.
fn sets(rng: &mut StdRng, rows: usize) -> ArrayRef {
    let lengths: Vec<usize> = (0..rows).map(|_| rng.random_range(0..15)).collect();
    let count = lengths.iter().sum();
    let tokens: UInt64Array = (0..count)
        .map(|_| Some(rng.random_range(0..120_u64).min(rng.random_range(0..120))))
        .collect();
    let weights: UInt32Array = tokens
        .iter()
        .map(|token| token.map(|token| 10 + token as u32 * rng.random_range(1..4)))
        .collect();
    let fields: Fields = vec![
        Field::new("weight", DataType::UInt32, true),
        Field::new("token", DataType::UInt64, true),
    ]
    .into();
    let pairs = StructArray::new(fields.clone(), vec![Arc::new(weights), Arc::new(tokens)], None);
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(item, offsets, Arc::new(pairs), None))
}

/// The library joins weighted sets, by every strategy, and finds their nearest.
#[test]
fn the_library_joins_weighted_sets() {
    let mut rng = StdRng::seed_from_u64(11);
    let [a, b] = [sets(&mut rng, 300), sets(&mut rng, 200)];
    for measure in Measure::ALL.into_iter().filter(|m| m.name().starts_with("weighted")) {
        let own = WeightedMeasure::ALL.into_iter().find(|own| own.name() == measure.name());
        let own = own.unwrap();
        let threshold = if own == WeightedMeasure::Overlap { 9000.0 } else { 0.3 };
        let mut values = PairValues::try_new(own, [a.as_ref(), b.as_ref()]).unwrap();
        let mut expected = vec![];
        for x in 0..a.len() {
            for y in 0..b.len() {
                let value = values.of([x, y]).unwrap().unwrap();
                if value >= threshold {
                    expected.push((x as u32, y as u32, value.to_bits()));
                }
            }
        }
        assert!(expected.len() > 20, "{measure} {}", expected.len());
        for strategy in ["auto", "ppjoin", "nested-loop"] {
            let pairs = Join::new(measure, threshold).strategy(strategy).join(&a, &b).unwrap();
            let mut found: Vec<_> =
                pairs.iter().map(|pair| (pair.left, pair.right, pair.score.to_bits())).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{measure} {strategy}");
        }
        let nearest = Nearest::new(measure, 2).join(&a, &b).unwrap();
        assert!(nearest.len() > 300, "{}", nearest.len());
    }
}
