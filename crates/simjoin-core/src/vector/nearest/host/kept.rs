//! Left vectors that searches of the same rows among other right rows share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::forms::Forms;
use super::written::Written;
use crate::memory::Reservation;
use crate::vector::nearest::side::SideColumn;

/// The left vectors as they are compared, in the order of their numbers.
#[derive(Debug)]
pub(super) struct WrittenRows {
    pub forms: Arc<Forms>,
    pub rows: Written,
    /// The memory of the rows.
    pub _memory: Reservation,
}

/// Left vectors, for searches of the same rows among other right rows.
#[derive(Debug, Default)]
pub(crate) struct KeptVectors {
    side: Mutex<Option<Arc<SideColumn>>>,
    written: Mutex<Option<Arc<WrittenRows>>>,
}

impl KeptVectors {
    pub(crate) fn side(&self) -> Option<Arc<SideColumn>> {
        self.side.lock().clone()
    }

    pub(crate) fn keep_side(&self, side: &Arc<SideColumn>) {
        *self.side.lock() = Some(Arc::clone(side));
    }

    pub(super) fn written(&self) -> Option<Arc<WrittenRows>> {
        self.written.lock().clone()
    }

    pub(super) fn keep_written(&self, written: &Arc<WrittenRows>) {
        *self.written.lock() = Some(Arc::clone(written));
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{Array, ArrayRef, FixedSizeListArray};
    use arrow::datatypes::{DataType, Float32Type};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::{
        ArgumentBatches, DeviceChoice, GpuOptions, KeyRows, NeighbourRequest, NeighbourSearch,
        NeighbourSide, Neighbours, Origin, StrategyName,
    };
    use crate::error::Result;
    use crate::memory::Budget;
    use crate::predicate::{Call, Predicate, Side};
    use crate::simd::Simd;
    use crate::util::attached::Attached;
    use crate::util::cancel::CancelFlag;
    use crate::util::parallel::Threads;
    use crate::vector::metric::Metric;
    use crate::vector::nearest::neighbours;

    /// Vectors that count how often they are asked for.
    #[derive(Debug)]
    struct CountedVectors {
        vectors: ArrayRef,
        rows: [usize; 1],
        reads: AtomicUsize,
    }

    impl ArgumentBatches for CountedVectors {
        fn data_type(&self) -> &DataType {
            self.vectors.data_type()
        }

        fn origin(&self) -> Option<&Origin> {
            None
        }

        fn rows(&self) -> &[usize] {
            &self.rows
        }

        fn values(&self, _: usize, rows: Range<usize>, _: bool) -> Result<ArrayRef> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Ok(self.vectors.slice(rows.start, rows.len()))
        }

        fn is_stored(&self, _: bool) -> bool {
            true
        }

        fn has_keys(&self) -> bool {
            false
        }

        fn keys(&self, _: usize) -> Result<Option<KeyRows>> {
            Ok(None)
        }
    }

    impl CountedVectors {
        fn of(vectors: &ArrayRef) -> Self {
            let reads = AtomicUsize::new(0);
            Self { vectors: Arc::clone(vectors), rows: [vectors.len()], reads }
        }
    }

    fn vectors(rng: &mut StdRng, count: usize) -> ArrayRef {
        let vectors =
            (0..count).map(|_| Some([(); 16].map(|()| Some(rng.random_range(-1.0..1.0)))));
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 16))
    }

    /// The five nearest right vectors of each left one, all of them.
    fn find(metric: Metric, sides: [&CountedVectors; 2], kept: Option<&Attached>) -> Neighbours {
        let [left, right] = sides.map(|side| (0..side.rows[0] as u32).collect::<Vec<_>>());
        let call = Call { function: metric.function(), first: Side::Left };
        let request = NeighbourRequest {
            predicate: Predicate::new(call, f64::INFINITY),
            count: 5,
            with_ties: true,
            bounds: None,
            condition: None,
            sides: [
                NeighbourSide { argument: sides[0], rows: &left },
                NeighbourSide { argument: sides[1], rows: &right },
            ],
            itself: false,
            kept,
            strategy: StrategyName::AUTO,
            device: DeviceChoice::Cpu,
            gpu: GpuOptions::default(),
            threads: Threads::small(2),
            simd: Simd::detect(),
            reservation: &Budget::unlimited().reservation(),
            cancel: &CancelFlag::default(),
        };
        match neighbours(metric, &request, [false; 2], None).unwrap() {
            NeighbourSearch::Found(found) => found,
            NeighbourSearch::Declined(why) => panic!("nothing was found: {why:?}"),
        }
    }

    /// By left row, the numbers and the values of its neighbours.
    fn pairs(found: &Neighbours, rows: usize) -> Vec<Vec<(u32, u64)>> {
        let of_row = |row: usize| {
            let (partners, values) = found.of(row).unwrap();
            let mut pairs: Vec<_> =
                partners.iter().copied().zip(values.iter().map(|value| value.to_bits())).collect();
            pairs.sort_unstable();
            pairs
        };
        (0..rows).map(of_row).collect()
    }

    /// Searches of the same rows among other right rows read the left ones once, write their forms once, and
    /// find what searches find that keep nothing.
    #[test]
    fn left_vectors_are_read_and_written_once() {
        let mut rng = StdRng::seed_from_u64(1);
        for metric in [Metric::Euclidean, Metric::Cosine] {
            let left = CountedVectors::of(&vectors(&mut rng, 300));
            let attached = Attached::default();
            let mut forms = vec![];
            for _ in 0..3 {
                let right = CountedVectors::of(&vectors(&mut rng, 400));
                let found = find(metric, [&left, &right], Some(&attached));
                forms.push(attached.get::<KeptVectors>().written().unwrap());
                let others = [&left, &right].map(|side| CountedVectors::of(&side.vectors));
                let expected = find(metric, others.each_ref(), None);
                assert_eq!(pairs(&found, 300), pairs(&expected, 300));
                let reads = [&left, &right].map(|side| side.reads.load(Ordering::Relaxed));
                assert_eq!(reads, [1, 1]);
            }
            assert!(forms.iter().all(|each| Arc::ptr_eq(each, &forms[0])));
        }
    }
}
