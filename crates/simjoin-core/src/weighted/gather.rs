//! From rows that have been read to distinct sets.

use std::cmp::Ordering;
use std::mem::size_of;
use std::sync::Arc;

use super::collection::{KeyRun, RankedTokens, WeightedSets};
use super::measure::Mass;
use super::rows::{WeightedRow, WeightedRows};
use crate::engine::{KeyId, RowGroups};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, map, sort_unstable_by};
use crate::values::dictionary::{Dictionary, DictionaryKey, NO_ID, mix};

/// Rows that an encoder has read.
pub(super) struct Part {
    pub rows: Vec<WeightedRow>,
    pub content: WeightedRows,
}

/// A row whose tokens are ranks, in order.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    key: KeyId,
    row: u32,
    mass: Mass,
    hash: u64,
    part: u32,
    len: u32,
    start: usize,
}

/// A bound on the bytes of the sets of `rows` rows with so many tokens, and of gathering them.
pub(super) fn footprint(rows: usize, tokens: usize) -> usize {
    let of_row =
        size_of::<Ranked>() + size_of::<Mass>() + 2 * size_of::<usize>() + size_of::<KeyRun>();
    rows * (of_row + 3 * size_of::<u32>()) + tokens * 2 * size_of::<u32>() + 256
}

/// The distinct sets of build rows, whose tokens are ranked anew.
pub(super) fn build(
    mut parts: Vec<Part>,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<WeightedSets> {
    let dictionaries: Vec<Dictionary> =
        parts.iter_mut().map(|part| std::mem::take(&mut part.content.dictionary)).collect();
    let (mut dictionary, mut ids) = united(dictionaries, threads, cancel)?;
    let mut frequencies = vec![0_u32; dictionary.len() as usize];
    for (part, ids) in parts.iter().zip(&ids) {
        cancel.check()?;
        part.content
            .tokens
            .iter()
            .for_each(|token| frequencies[ids[*token as usize] as usize] += 1);
    }
    let ranks = ranks(&dictionary, &frequencies, threads, cancel)?;
    dictionary.map_ids(&ranks, threads)?;
    ids.iter_mut().flatten().for_each(|id| *id = ranks[*id as usize]);
    sets(parts, &ids, Arc::new(RankedTokens { dictionary }), threads, cancel)
}

/// The distinct sets of probe rows, whose tokens have the ranks of the build side.
pub(super) fn probes(
    parts: Vec<Part>,
    ranked: &Arc<RankedTokens>,
    cancel: &CancelFlag,
) -> Result<WeightedSets> {
    let rank = |key: &DictionaryKey<'_>| ranked.dictionary.find_key(*key);
    let of_part = |part: &Part| part.content.dictionary.keys().iter().map(rank).collect();
    let ids: Vec<Vec<u32>> = parts.iter().map(of_part).collect();
    sets(parts, &ids, Arc::clone(ranked), Threads::ONE, cancel)
}

/// One dictionary of all tokens, and for each of the parts the new id of each old one.
fn united(
    mut dictionaries: Vec<Dictionary>,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<(Dictionary, Vec<Vec<u32>>)> {
    if dictionaries.len() <= 1 {
        let dictionary = dictionaries.pop().unwrap_or_default();
        let ids = (0..dictionary.len()).collect();
        return Ok((dictionary, vec![ids]));
    }
    let news: Vec<_> = dictionaries.iter().map(|part| 0..part.len()).enumerate().collect();
    Dictionary::union(&dictionaries, &news, true, threads, cancel)
}

/// By id, the place of each token in the order of their frequencies, then of the tokens themselves.
fn ranks(
    dictionary: &Dictionary,
    frequencies: &[u32],
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<u32>> {
    let keys = dictionary.keys();
    let mut order: Vec<u32> = (0..dictionary.len()).collect();
    sort_unstable_by(threads, &mut order, cancel, |&a, &b| {
        let [a, b] = [a, b].map(|id| id as usize);
        let by_token = || order_of(&keys[a], &keys[b]);
        frequencies[a].cmp(&frequencies[b]).then_with(by_token)
    })?;
    let mut ranks = vec![0; order.len()];
    (0..).zip(order).for_each(|(rank, id)| ranks[id as usize] = rank);
    Ok(ranks)
}

fn order_of(a: &DictionaryKey<'_>, b: &DictionaryKey<'_>) -> Ordering {
    let kind = |key: &DictionaryKey<'_>| match key {
        DictionaryKey::Integer(_) => 0,
        DictionaryKey::Word(_) => 1,
        DictionaryKey::Bytes(..) => 2,
    };
    match (a, b) {
        (DictionaryKey::Integer(a), DictionaryKey::Integer(b)) => a.cmp(b),
        (DictionaryKey::Word(a), DictionaryKey::Word(b)) => a.cmp(b),
        (DictionaryKey::Bytes(a, _), DictionaryKey::Bytes(b, _)) => a.cmp(b),
        _ => kind(a).cmp(&kind(b)),
    }
}

/// Gives each token of the rows of a part its rank, and sorts the tokens of each row.
fn rank_rows(
    number: usize,
    part: &mut Part,
    ids: &[u32],
    cancel: &CancelFlag,
) -> Result<Vec<Ranked>> {
    let Part { rows, content } = part;
    let (mut ranked, mut pairs) = (Vec::with_capacity(rows.len()), Vec::<u64>::new());
    for (step, row) in rows.iter().enumerate() {
        cancel.check_at(64 * step)?;
        if row.len == 0 {
            continue;
        }
        let range = row.range();
        let (tokens, weights) = (&mut content.tokens[range.clone()], &mut content.weights[range]);
        let mass = Mass::of(weights);
        pairs.clear();
        let known = tokens.iter().map(|token| ids[*token as usize]).zip(weights.iter());
        let known = known.filter(|(rank, _)| *rank != NO_ID);
        pairs.extend(known.map(|(rank, weight)| u64::from(rank) << 32 | u64::from(*weight)));
        pairs.sort_unstable();
        let mut hash = u64::from(row.key);
        for ((pair, token), weight) in pairs.iter().zip(tokens).zip(weights) {
            (*token, *weight) = ((pair >> 32) as u32, *pair as u32);
            hash = mix(hash ^ pair);
        }
        let (len, part, WeightedRow { key, row, start, .. }) =
            (pairs.len() as u32, number as u32, *row);
        ranked.push(Ranked { key, row, mass, hash, part, len, start });
    }
    Ok(ranked)
}

fn sets(
    mut parts: Vec<Part>,
    ids: &[Vec<u32>],
    ranked: Arc<RankedTokens>,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<WeightedSets> {
    let tasks = parts.iter_mut().zip(ids).enumerate().collect();
    let rows = map(threads, tasks, |(number, (part, ids)): (usize, (&mut Part, &Vec<u32>))| {
        rank_rows(number, part, ids, cancel)
    })?;
    let mut rows: Vec<Ranked> = rows.into_iter().flatten().collect();
    let set = |row: &Ranked| {
        let range = row.start..row.start + row.len as usize;
        let content = &parts[row.part as usize].content;
        (&content.tokens[range.clone()], &content.weights[range])
    };
    let by_set = |a: &Ranked, b: &Ranked| {
        let figures = |row: &Ranked| (row.key, row.mass, row.hash);
        figures(a).cmp(&figures(b)).then_with(|| set(a).cmp(&set(b)))
    };
    sort_unstable_by(threads, &mut rows, cancel, |a, b| by_set(a, b).then(a.row.cmp(&b.row)))?;
    let mut sets = WeightedSets { starts: vec![0], ranked, ..WeightedSets::default() };
    let tokens = rows.iter().map(|row| row.len as usize).sum();
    sets.tokens.reserve_exact(tokens);
    sets.weights.reserve_exact(tokens);
    let mut offsets = vec![0];
    for equal in rows.chunk_by(|a, b| by_set(a, b).is_eq()) {
        let (tokens, weights) = set(&equal[0]);
        sets.tokens.extend_from_slice(tokens);
        sets.weights.extend_from_slice(weights);
        sets.starts.push(sets.tokens.len());
        let item = sets.masses.len() as u32;
        sets.masses.push(equal[0].mass);
        match sets.runs.last_mut() {
            Some(run) if run.key == equal[0].key => run.items.end = item + 1,
            _ => sets.runs.push(KeyRun { key: equal[0].key, items: item..item + 1 }),
        }
        offsets.push(offsets[offsets.len() - 1] + equal.len() as u32);
    }
    let rows = rows.iter().map(|row| row.row).collect();
    let read = parts.iter().flat_map(|part| &part.rows);
    let without = read.filter(|row| row.len == 0).map(|row| row.row);
    let mut without: Vec<u32> = without.collect();
    without.sort_unstable();
    sets.groups = RowGroups::new(offsets, rows, without);
    Ok(sets)
}
