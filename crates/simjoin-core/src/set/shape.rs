//! The size and the hash of a row's set, by which a cluster places the row, found without a
//! dictionary that lasts.

use crate::engine::{EncodeInput, PlaceReader, RowPlace};
use crate::error::Result;
use crate::set::encode::batch::{BatchTokens, LocatedRows};
use crate::set::encode::distinct::check_size;
use crate::values::dictionary::{Dictionary, DictionaryKey, mix};

/// Reads the size and a hash of each row's set.
#[derive(Debug, Default)]
pub(crate) struct ShapeReader {
    located: LocatedRows,
    ids: Vec<u32>,
    /// By token id, the last row that holds it, counted from 1 within a chunk.
    stamps: Vec<u32>,
    hashes: Vec<u64>,
}

impl PlaceReader for ShapeReader {
    fn read(&mut self, input: &EncodeInput<'_>, shapes: &mut Vec<RowPlace>) -> Result<()> {
        shapes.clear();
        let batch = BatchTokens::try_new(input.values, None)?;
        let key_hash = |row: usize| match &input.keys {
            Some(keys) => keys.key_hash(row),
            None => Some(0),
        };
        let mut from = 0;
        while from < batch.len() {
            let to = batch.chunk(from).end;
            let key_of = |row: usize| Ok(key_hash(row).filter(|_| input.may_match(row)));
            // The tokens of a few rows: ids tell repeats, and exactly so.
            let mut dictionary = Dictionary::default();
            let Self { located, ids, .. } = self;
            batch.encode(from..to, key_of, &mut dictionary, located, ids)?;
            self.hashes.clear();
            self.hashes.extend(dictionary.keys().into_iter().map(hash_of));
            self.stamps.clear();
            self.stamps.resize(dictionary.len() as usize, 0);
            let mut start = 0;
            for (stamp, row) in (1..).zip(&self.located.rows) {
                let ids = &self.ids[start..row.end];
                start = row.end;
                let (mut size, mut hash) = (0, 0_u64);
                for &id in ids {
                    let last = &mut self.stamps[id as usize];
                    if *last != stamp {
                        *last = stamp;
                        size += 1;
                        hash = hash.wrapping_add(self.hashes[id as usize]);
                    }
                }
                check_size(size)?;
                let hash = (mix(hash) >> 32) as u32;
                shapes.push(RowPlace { position: size as u32, kind: 0, hash, key_hash: row.key });
            }
            from = to;
        }
        Ok(())
    }
}

/// The hash of a token by its content.
fn hash_of(token: DictionaryKey<'_>) -> u64 {
    match token {
        DictionaryKey::Integer(token) => {
            mix(token.bits ^ u64::from(token.negative).rotate_right(1))
        }
        DictionaryKey::Word(word) => mix(word),
        DictionaryKey::Bytes(_, hash) => mix(u64::from(hash)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array, ArrayRef, BooleanArray, Int64Builder, ListBuilder, StringArray, StringBuilder,
    };
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::engine::KeyConverter;

    fn shapes(input: &EncodeInput<'_>) -> Vec<RowPlace> {
        let mut shapes = vec![RowPlace::default()];
        ShapeReader::default().read(input, &mut shapes).unwrap();
        shapes
    }

    fn of_lists(lists: &dyn Array) -> Vec<RowPlace> {
        shapes(&EncodeInput { values: lists, keys: None, filter: None })
    }

    fn integers(rows: &[Option<Vec<Option<i64>>>]) -> ArrayRef {
        let mut builder = ListBuilder::new(Int64Builder::new());
        rows.iter().for_each(|row| builder.append_option(row.clone()));
        Arc::new(builder.finish())
    }

    #[test]
    fn sizes_are_those_of_sets_and_hashes_of_their_content() {
        let rows = [
            Some(vec![Some(1), Some(2), Some(1), None]),
            Some(vec![Some(2), Some(1)]),
            None,
            Some(vec![]),
            Some(vec![None]),
            Some(vec![Some(-1), Some(1)]),
            Some((0..30_000).map(|i| Some(i % 20_000)).collect()),
            Some(vec![Some(1), Some(2)]),
        ];
        let found = of_lists(&integers(&rows));
        let sizes: Vec<u32> = found.iter().map(|shape| shape.position).collect();
        assert_eq!(sizes, [2, 2, 0, 0, 0, 2, 20_000, 2]);
        assert!(found[0] == found[1] && found[0] == found[7]);
        assert_ne!(found[0].hash, found[5].hash);
        // The same in any chunk, and in any list layout and width.
        let layouts = [
            DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int64, true))),
            DataType::ListView(Arc::new(Field::new_list_field(DataType::Int64, true))),
            DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
        ];
        for layout in layouts {
            let array = cast(&integers(&rows), &layout).unwrap();
            assert_eq!(of_lists(&array), found, "{layout}");
        }
    }

    #[test]
    fn text_is_told_apart_by_its_bytes() {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for row in [["a", "a long token"], ["a long token", "a"], ["a", "another long one"]] {
            builder.append_value(row.map(Some));
        }
        let lists = builder.finish();
        let found = of_lists(&lists);
        assert!(found.iter().all(|shape| shape.position == 2));
        assert_eq!(found[0], found[1]);
        assert_ne!(found[0], found[2]);
    }

    #[test]
    fn rows_that_cannot_match_have_no_size() {
        let lists = integers(&vec![Some(vec![Some(1)]); 4]);
        let converter = KeyConverter::try_new(vec![DataType::Utf8], false).unwrap();
        let keys = StringArray::from(vec![Some("x"), None, Some("x"), Some("y")]);
        let keys = converter.convert(&[Arc::new(keys) as ArrayRef]).unwrap();
        let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(true)]);
        let input = EncodeInput { values: &lists, keys: Some(&keys), filter: Some(&filter) };
        let found = shapes(&input);
        let sizes: Vec<u32> = found.iter().map(|shape| shape.position).collect();
        assert_eq!(sizes, [1, 0, 0, 1]);
        assert_ne!(found[0].key_hash, found[3].key_hash);
    }
}
