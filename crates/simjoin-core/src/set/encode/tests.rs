//! Encoders against plain sets, and against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, Int64Builder, LargeListBuilder, ListArray,
    ListBuilder, StringBuilder, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::engine::{EncodeInput, FinishContext, KeyConverter, KeyDictionary};
use crate::memory::{Budget, Reservation};
use crate::set::encode::builder::Tokenizers;
use crate::set::encode::{ProbeEncoder, ProbeScratch, finish};
use crate::set::*;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::values::TextTokenizer;
use crate::values::byte_tokens::ByteTokens;
use crate::values::text_tokens::{TextScratch, with_text_tokens};

type Rows = Vec<Option<Vec<Option<i64>>>>;

fn reservation() -> Reservation {
    let pool = Budget::unlimited();
    pool.reservation()
}

/// Skewed tokens, among them negative, large and repeated ones; rows that repeat others, shuffled.
fn random_rows(rng: &mut StdRng, count: usize) -> Rows {
    let mut rows: Rows = vec![];
    for i in 0..count {
        let row = match rng.random_range(0..10) {
            0 => None,
            1..4 if i > 0 => {
                let mut copy = rows[rng.random_range(0..i)].clone();
                if let Some(tokens) = &mut copy {
                    tokens.reverse();
                }
                copy
            }
            _ => {
                let size = rng.random_range(0..9);
                let token = |rng: &mut StdRng| match rng.random_range(0..20) {
                    0 => None,
                    1 => Some(-rng.random_range(1..9)),
                    2 => Some(rng.random_range(0..9) << 50),
                    3 => Some(rng.random_range(0..200_000)),
                    _ => Some(rng.random_range(0..40).min(rng.random_range(0..400))),
                };
                Some((0..size).map(|_| token(rng)).collect())
            }
        };
        rows.push(row);
    }
    rows
}

fn integers(rows: &[Option<Vec<Option<i64>>>]) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    rows.iter().for_each(|row| lists.append_option(row.clone()));
    Arc::new(lists.finish())
}

/// The rows as text: short tokens, and some longer than a word.
fn texts(rows: &[Option<Vec<Option<i64>>>], views: bool) -> ArrayRef {
    let text = |token: &Option<i64>| match token {
        Some(t) if t % 3 == 0 => Some(format!("a longer token {t}")),
        other => other.map(|t| t.to_string()),
    };
    let row = |row: &Option<Vec<Option<i64>>>| {
        row.as_ref().map(|row| row.iter().map(text).collect::<Vec<_>>())
    };
    if views {
        let mut lists = LargeListBuilder::new(StringViewBuilder::new());
        rows.iter().for_each(|r| lists.append_option(row(r)));
        return Arc::new(lists.finish());
    }
    let mut lists = ListBuilder::new(StringBuilder::new());
    rows.iter().for_each(|r| lists.append_option(row(r)));
    Arc::new(lists.finish())
}

/// The part of a collection that the join reads.
type Content = (Vec<(Vec<u32>, u32, Vec<u32>)>, Vec<(Run, u32)>, Vec<u32>, u32);

fn content(sets: &SetCollection) -> Content {
    let all = (0..sets.len())
        .map(|s| (sets.tokens(s).to_vec(), sets.size(s), sets.groups().rows(s).to_vec()))
        .collect();
    let runs = sets.runs().iter().map(|(run, range)| (run, range.end)).collect();
    (all, runs, sets.groups().rows_without_item().to_vec(), sets.universe())
}

struct Side<'a> {
    lists: &'a ArrayRef,
    keys: Option<&'a ArrayRef>,
    filter: Option<&'a BooleanArray>,
}

impl Side<'_> {
    /// Encodes batches of 7 rows with `encoders` encoders, each batch with a random one.
    fn encode(
        &self,
        rng: &mut StdRng,
        encoders: usize,
        threads: Threads,
    ) -> (SetCollection, ProbeEncoder, KeyDictionary) {
        self.encode_for(true, rng, encoders, threads)
    }

    /// Encodes rows, to be probed with rows of others or not.
    fn encode_for(
        &self,
        meets_others: bool,
        rng: &mut StdRng,
        encoders: usize,
        threads: Threads,
    ) -> (SetCollection, ProbeEncoder, KeyDictionary) {
        let converter = KeyConverter::try_new(vec![DataType::Int64], false).unwrap();
        let reservation = reservation();
        let mut parts: Vec<_> = (0..encoders).map(|_| Default::default()).collect();
        for from in (0..self.lists.len()).step_by(7) {
            let len = 7.min(self.lists.len() - from);
            let lists = self.lists.slice(from, len);
            let keys = self.keys.map(|keys| converter.convert(&[keys.slice(from, len)]).unwrap());
            let filter = self.filter.map(|filter| filter.slice(from, len));
            let input =
                EncodeInput { values: &lists, keys: keys.as_ref(), filter: filter.as_ref() };
            let part: &mut (BuildEncoder, KeyDictionary) =
                &mut parts[rng.random_range(0..encoders)];
            part.0.push_at(from as u32, &input, &mut part.1, &reservation, 0).unwrap();
        }
        let context = FinishContext {
            reservation: &reservation,
            base: 0,
            peak: &|| {},
            cancel: &CancelFlag::default(),
            threads,
            meets_others,
            self_join: !meets_others,
            probe: None,
        };
        let finished = finish(parts, &context).unwrap();
        let held =
            [finished.0.size_in_bytes(), finished.1.size_in_bytes(), finished.2.size_in_bytes()];
        assert_eq!(reservation.size(), held.iter().sum::<usize>());
        finished
    }
}

/// The result does not depend on the numbers of encoders and threads, nor on which encoder reads
/// which batch.
#[test]
fn encoders_and_threads_do_not_change_the_collection() {
    let mut rng = StdRng::seed_from_u64(3);
    for round in 0..12 {
        let rows = random_rows(&mut rng, 900);
        let lists = match round % 3 {
            0 => integers(&rows),
            1 => texts(&rows, false),
            _ => texts(&rows, true),
        };
        let keys = (0..rows.len()).map(|_| Some(rng.random_range(0..5)).filter(|&k| k > 0));
        let keys: ArrayRef = Arc::new(keys.collect::<Int64Array>());
        let filter: BooleanArray = (0..rows.len()).map(|_| Some(rng.random_bool(0.9))).collect();
        let side = Side {
            lists: &lists,
            keys: (round % 2 == 1).then_some(&keys),
            filter: (round % 4 > 1).then_some(&filter),
        };
        let (expected, encoder, key_ids) = side.encode(&mut rng, 1, Threads::small(1));
        let probe = |encoder: &ProbeEncoder, keys: &KeyDictionary| {
            let converter = KeyConverter::try_new(vec![DataType::Int64], false);
            let key_rows = converter
                .unwrap()
                .convert(&[ArrayRef::clone(side.keys.unwrap_or(&keys_of(&lists)))]);
            let key_rows = key_rows.unwrap();
            let input = EncodeInput {
                values: &lists,
                keys: side.keys.map(|_| &key_rows),
                filter: side.filter,
            };
            let scratch = &mut ProbeScratch::default();
            content(&encoder.encode(&input, keys, scratch, &reservation(), 0).unwrap())
        };
        // The build side knows its own tokens, and keys by the same ids.
        assert_eq!(probe(&encoder, &key_ids), content(&expected), "round {round}");
        for (encoders, threads) in [(1, 2), (2, 1), (2, 2), (7, 7), (3, 1)] {
            let (sets, encoder, keys) = side.encode(&mut rng, encoders, Threads::small(threads));
            let context = format!("round {round}: {encoders} encoders, {threads} threads");
            assert_eq!(content(&sets), content(&expected), "{context}");
            assert_eq!(probe(&encoder, &keys), content(&expected), "{context}");
            // Where no other rows come, tokens are counted only.
            let (sets, counting, _) =
                side.encode_for(false, &mut rng, encoders, Threads::small(threads));
            assert_eq!(content(&sets), content(&expected), "{context}");
            assert_eq!(counting.token_count(), encoder.token_count());
            assert_eq!(counting.size_in_bytes(), 0);
        }
    }
}

fn keys_of(lists: &ArrayRef) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; lists.len()]))
}

/// Sets, rows, sizes and the order of tokens by frequency, against maps of plain sets.
#[test]
fn collections_hold_the_sets_of_the_rows() {
    let mut rng = StdRng::seed_from_u64(4);
    for threads in [1, 3] {
        let rows = random_rows(&mut rng, 2000);
        let lists = integers(&rows);
        let side = Side { lists: &lists, keys: None, filter: None };
        let (sets, encoder, _) = side.encode(&mut rng, threads, Threads::small(threads));
        let plain: Vec<BTreeSet<i64>> =
            rows.iter().map(|row| row.iter().flatten().flatten().copied().collect()).collect();
        let mut by_set: BTreeMap<BTreeSet<i64>, Vec<u32>> = BTreeMap::new();
        for (row, set) in plain.iter().enumerate() {
            by_set.entry(set.clone()).or_default().push(row as u32);
        }
        let setless = by_set.remove(&BTreeSet::new()).unwrap();
        assert_eq!(sets.groups().rows_without_item(), setless);
        assert_eq!(sets.len() as usize, by_set.len());
        let mut frequency = BTreeMap::new();
        by_set.keys().flatten().for_each(|&t| *frequency.entry(t).or_insert(0) += 1);
        assert_eq!(encoder.token_count() as usize, frequency.len());
        let mut token_of = BTreeMap::new();
        let mut sizes = vec![];
        for set in 0..sets.len() {
            let row = sets.groups().rows(set)[0] as usize;
            assert_eq!(by_set[&plain[row]], sets.groups().rows(set), "set {set}");
            assert!(sets.tokens(set).is_sorted_by(|a, b| a < b));
            assert_eq!(sets.tokens(set).len(), plain[row].len());
            sizes.push((sets.size(set), sets.tokens(set).to_vec()));
            if let ([rank], Some(token)) = (sets.tokens(set), plain[row].first()) {
                token_of.insert(*rank, frequency[token]);
            }
        }
        assert!(sizes.is_sorted_by(|a, b| a < b), "sets are not in order");
        assert!(token_of.values().is_sorted(), "ranks do not follow frequencies");
    }
}

#[test]
fn unknown_tokens_are_counted_once() {
    let one = |tokens: Vec<Option<&str>>| {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value(tokens);
        lists.finish()
    };
    let reservation = reservation();
    let mut encoder = BuildEncoder::default();
    let build: ListArray = one(vec![Some("a"), Some("b")]);
    let input = EncodeInput { values: &build, keys: None, filter: None };
    encoder.push(&input, &mut KeyDictionary::default(), &reservation, 0).unwrap();
    let cancel = CancelFlag::default();
    let (_, encoder) = encoder.finish(&reservation, 0, &|| {}, &cancel).unwrap();
    let other = "none of those of the build side";
    let tokens = [Some("b"), Some(other), None, Some("x"), Some(other), Some("b"), Some("x")];
    let probe = one(tokens.to_vec());
    let input = EncodeInput { values: &probe, keys: None, filter: None };
    let mut scratch = ProbeScratch::default();
    let sets =
        encoder.encode(&input, &KeyDictionary::default(), &mut scratch, &reservation, 0).unwrap();
    assert_eq!((sets.len(), sets.size(0), sets.unknown(0)), (1, 3, 2));
}

/// Too little memory is an error, after which the reservation is that of the bytes held.
#[test]
fn the_limit_of_memory_holds_while_encoding_and_finishing() {
    let mut rng = StdRng::seed_from_u64(5);
    let lists = integers(&random_rows(&mut rng, 3000));
    let mut refused = 0;
    for limit in [1 << 10, 1 << 17, 1 << 19, 700_000, 1 << 20, 1 << 24] {
        let pool = Budget::new(limit);
        let reservation = pool.reservation();
        let run = || {
            let mut parts: Vec<(BuildEncoder, KeyDictionary)> =
                (0..2).map(|_| Default::default()).collect();
            for (nth, from) in (0..3000).step_by(500).enumerate() {
                let lists = lists.slice(from, 500);
                let input = EncodeInput { values: &lists, keys: None, filter: None };
                let (encoder, keys) = &mut parts[nth % 2];
                encoder.push_at(from as u32, &input, keys, &reservation, 0)?;
            }
            let context = FinishContext {
                reservation: &reservation,
                base: 0,
                peak: &|| {},
                cancel: &CancelFlag::default(),
                threads: Threads::small(2),
                meets_others: true,
                self_join: false,
                probe: None,
            };
            finish(parts, &context)
        };
        match run() {
            Ok((sets, ..)) => assert!(sets.len() > 1000),
            Err(error) => {
                assert!(limit < 1 << 24, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 2);
}

#[test]
fn a_cancelled_build_stops() {
    let lists = integers(&random_rows(&mut StdRng::seed_from_u64(6), 100));
    let reservation = reservation();
    let mut encoder = BuildEncoder::default();
    let input = EncodeInput { values: &lists, keys: None, filter: None };
    encoder.push(&input, &mut KeyDictionary::default(), &reservation, 0).unwrap();
    let cancel = CancelFlag::default();
    drop(cancel.on_drop());
    assert!(encoder.finish(&reservation, 0, &|| {}, &cancel).is_err());
}

/// Texts are encoded like the lists of their tokens, on both sides, also where the other side has
/// lists.
#[test]
fn texts_are_the_lists_of_their_tokens() {
    let mut rng = StdRng::seed_from_u64(8);
    let letters = ['a', 'b', 'c', 'B', ' ', 'ß', 'İ', '中', '🙂'];
    for q in 0..10 {
        let tokenizer = match NonZeroUsize::new(q) {
            Some(q) => TextTokenizer::QGrams(q),
            None => TextTokenizer::Words,
        };
        let mut draw = |letters: &[char]| -> Vec<Option<String>> {
            let text = |rng: &mut StdRng| {
                let len = rng.random_range(0..14);
                (0..len).map(|_| letters[rng.random_range(0..letters.len())]).collect()
            };
            (0..300).map(|_| rng.random_bool(0.9).then(|| text(&mut rng))).collect()
        };
        // Of the probe side, tokens may be unknown.
        let sides = [draw(&letters[..7]), draw(&letters)];
        let lists = sides.each_ref().map(|texts| {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for text in texts {
                let Some(text) = text else {
                    lists.append_null();
                    continue;
                };
                let mut scratch = TextScratch::default();
                with_text_tokens!(tokenizer.tokens(text, &mut scratch), tokens => {
                    for i in 0..tokens.count() {
                        lists.values().append_value(std::str::from_utf8(tokens.bytes(i)).unwrap());
                    }
                });
                lists.append(true);
            }
            lists.finish()
        });
        let texts = sides.each_ref().map(StringViewArray::from_iter);
        let encode = |values: [&dyn Array; 2], tokenizers: Tokenizers| {
            let mut encoder = BuildEncoder::default().reading(tokenizers);
            let reservation = reservation();
            let input = EncodeInput { values: values[0], keys: None, filter: None };
            encoder.push(&input, &mut KeyDictionary::default(), &reservation, 0).unwrap();
            assert_eq!(encoder.reserved(), reservation.size());
            let cancel = CancelFlag::default();
            let (sets, encoder) = encoder.finish(&reservation, 0, &|| {}, &cancel).unwrap();
            let input = EncodeInput { values: values[1], keys: None, filter: None };
            let scratch = &mut ProbeScratch::default();
            let keys = KeyDictionary::default();
            let probed = encoder.encode(&input, &keys, scratch, &reservation, 0).unwrap();
            (content(&sets), content(&probed))
        };
        let expected = encode([&lists[0], &lists[1]], Tokenizers::default());
        let both = Tokenizers { build: Some(tokenizer), probe: Some(tokenizer) };
        assert_eq!(encode([&texts[0], &texts[1]], both), expected, "{tokenizer:?}");
        let of_build = Tokenizers { probe: None, ..both };
        assert_eq!(encode([&texts[0], &lists[1]], of_build), expected, "{tokenizer:?}");
        let of_probe = Tokenizers { build: None, ..both };
        assert_eq!(encode([&lists[0], &texts[1]], of_probe), expected, "{tokenizer:?}");
        // Stored rows come in lists, whatever the tokenizer.
        assert_eq!(encode([&lists[0], &lists[1]], both), expected, "{tokenizer:?}");
    }
}
