//! Collections of sets, drawn at random.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::datatypes::UInt32Type;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use simjoin_core::engine::{EncodeInput, KeyDictionary};
use simjoin_core::memory::{Budget, Reservation};
use simjoin_core::set::SetCollection;
use simjoin_core::set::encode::BuildEncoder;
use simjoin_core::util::cancel::CancelFlag;

/// A collection of up to `count` distinct sets of fewer than `most` tokens, some in several rows.
pub(crate) fn sets(rng: &mut StdRng, count: usize, most: usize) -> SetCollection {
    let pool = Budget::unlimited();
    let reservation: Reservation = pool.reservation();
    let rows = (0..count).flat_map(|_| {
        let size = rng.random_range(1..most);
        let tokens: Vec<u32> = sample(rng, most * 2, size).iter().map(|t| t as u32).collect();
        vec![tokens; rng.random_range(1..4)]
    });
    let rows = rows.map(|tokens| Some(tokens.into_iter().map(Some)));
    let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>(rows.collect::<Vec<_>>());
    let lists: ArrayRef = Arc::new(lists);
    let (mut encoder, mut keys) = (BuildEncoder::default(), KeyDictionary::default());
    let input = EncodeInput { values: &lists, keys: None, filter: None };
    encoder.push(&input, &mut keys, &reservation, 0).unwrap();
    encoder.finish(&reservation, 0, &|| {}, &CancelFlag::default()).unwrap().0
}
