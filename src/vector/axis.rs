//! Where rows lie: all at one place. Vectors of different lengths, which lie nowhere near each other,
//! have to meet, for DataFusion's functions fail for them.

use std::ops::Range;

use datafusion::common::Result;

use super::collection::{Content, hash_of};
use super::numbers::{Numbers, Row};
use crate::engine::{Axis, EncodeInput, PlaceReader, RowPlace};
use crate::spec::Side;

/// The only position is 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnePlace {
    /// About the dimensions of a vector.
    pub dimensions: u64,
}

impl Axis for OnePlace {
    fn reach(&self, _: Side, _: Range<u32>) -> Option<Range<u64>> {
        Some(1..2)
    }

    fn weight(&self, _: u32) -> u64 {
        self.dimensions
    }
}

/// Places of rows: by the hash of their vector.
#[derive(Debug, Default)]
pub(super) struct Places {
    buffer: Vec<f64>,
}

impl PlaceReader for Places {
    fn read(&mut self, input: &EncodeInput<'_>, places: &mut Vec<RowPlace>) -> Result<()> {
        places.clear();
        let numbers = Numbers::try_new(input.values)?;
        for row in 0..numbers.len() {
            let key_hash = match input.keys {
                Some(keys) => keys.key_hash(row),
                None => Some(0),
            };
            self.buffer.clear();
            let content = match numbers.row(row) {
                Row::Null => Content::None,
                // Which function it is read for is not known here: some fail for its length.
                Row::WithNull(_) => Content::WithNull,
                Row::Vector(range) => {
                    numbers.append(range, &mut self.buffer);
                    Content::Vector
                }
            };
            let found = key_hash.filter(|_| input.may_match(row) && content != Content::None);
            places.push(match found {
                Some(key_hash) => {
                    let hash = hash_of(0, content, &self.buffer);
                    RowPlace {
                        position: 1,
                        kind: 0,
                        hash: (hash >> 32) as u32 ^ hash as u32,
                        key_hash,
                    }
                }
                None => RowPlace::default(),
            });
        }
        Ok(())
    }
}
