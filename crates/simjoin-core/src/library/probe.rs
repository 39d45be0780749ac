//! The probe side of a search: rows of a column, or the items of the index.

use std::ops::Range;
use std::sync::Arc;

use super::index::BuildIndex;
use super::pairs::Pair;
use super::search::PairSearch;
use crate::engine::Scratch;
use crate::engine::probing::{Consumer, PartSizes, ProbeItems, Probing, UnitSource, threads_of};
use crate::error::Result;
use crate::memory::Memory;

/// The most items of a part of a self-join.
const MOST_ITEMS: usize = 1 << 14;

/// Finds the matches of a search. Every thread has a consumer that `consumer` makes; they come back.
///
/// # Errors
///
/// The first error of a thread: when memory is refused or the search is cancelled, and the errors of
/// the consumers.
pub(super) fn run<C: Consumer>(
    search: &PairSearch<'_>,
    index: &BuildIndex,
    consumer: impl Fn() -> C,
) -> Result<Vec<C>> {
    let source = PairSource { search, index };
    let sides = [index.items.groups().row_count(), source.places()];
    let probing = Probing {
        prepared: index.prepared.as_ref(),
        spec: &index.spec,
        source: &source,
        threads: threads_of(sides, search.options.threads()),
        memory: &search.memory.reservation(),
        consumer_bytes: search.options.batch_pairs * size_of::<Pair>(),
        cancel: &search.options.cancel,
    };
    probing.run(consumer)
}

/// The rows or items of a probe side.
struct PairSource<'a> {
    search: &'a PairSearch<'a>,
    index: &'a BuildIndex,
}

impl PairSource<'_> {
    fn places(&self) -> usize {
        match self.search.itself {
            true => self.index.items.groups().len() as usize,
            false => self.search.rows(self.search.probe).len(),
        }
    }
}

impl UnitSource for PairSource<'_> {
    fn parts(&self) -> PartSizes {
        let (search, prepared) = (self.search, self.index.prepared.as_ref());
        let (least, most) = match search.itself {
            true => (prepared.least_range() as usize, MOST_ITEMS),
            false => {
                let rows = search.rows(search.probe);
                let most = rows.rows_per_slice(search.options.memory_limit());
                (prepared.least_probe_rows(), most.min(prepared.probe_rows()))
            }
        };
        PartSizes { all: self.places(), least, most, from_behind: search.itself }
    }

    fn items(
        &self,
        part: Range<usize>,
        scratch: &mut Scratch,
        memory: &dyn Memory,
    ) -> Result<ProbeItems> {
        let Self { search, index } = self;
        let places = part.len();
        if search.itself {
            let (items, range) = (Arc::clone(&index.items), part.start as u32..part.end as u32);
            return Ok(ProbeItems { items, range, first_row: 0, bounds: None, places });
        }
        let items = search.rows(search.probe).with_slice(part.start, places, |input| {
            index.encoder.encode(input, &index.keys, scratch, memory, 0)
        })?;
        memory.try_resize(items.size_in_bytes())?;
        let (range, first_row) = (0..items.groups().len(), part.start as u32);
        Ok(ProbeItems { items, range, first_row, bounds: None, places })
    }
}
