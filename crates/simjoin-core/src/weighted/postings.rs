//! The prefixes of the sets of a build side, by token.

use std::mem::size_of;
use std::ops::Range;

use super::collection::WeightedSets;
use super::limits::{LimitForm, SLACK_32, WeightLimits};
use super::signature::{GROUP, LEAST_GROUPED, Signature};
use crate::engine::{ItemId, PrepareContext};
use crate::error::Result;
use crate::util::parallel::{for_each, threads_for};

/// The weight that sets have left from each of their tokens on: norms, or sums.
#[derive(Debug, Default)]
pub(super) struct Rests(Vec<f64>);

impl Rests {
    /// Takes up a set. Norms are relative to that of the whole set where the limits are.
    pub(super) fn read(&mut self, limits: &WeightLimits, sets: &WeightedSets, item: ItemId) {
        let (_, weights) = sets.set(item);
        let rests = &mut self.0;
        rests.clear();
        rests.resize(weights.len(), 0.0);
        let mass = sets.mass(item);
        let mut left = 0_u64;
        match limits.form {
            LimitForm::Product { relative, .. } => {
                let unit = if relative { (mass.squares as f64).sqrt().recip() } else { 1.0 };
                for (rest, &weight) in rests.iter_mut().zip(weights).rev() {
                    left += u64::from(weight) * u64::from(weight);
                    *rest = (left as f64).sqrt() * unit;
                }
            }
            LimitForm::Sum { .. } => {
                for (rest, &weight) in rests.iter_mut().zip(weights).rev() {
                    left += u64::from(weight);
                    *rest = left as f64;
                }
            }
        }
    }

    /// The weight left from each token on.
    pub(super) fn as_slice(&self) -> &[f64] {
        &self.0
    }
}

/// The gate of a norm: a little above it.
#[inline]
pub(super) fn gate(norm: f64) -> f32 {
    norm as f32 * (1.0 + SLACK_32)
}

/// A posting that is being sorted.
#[derive(Debug, Clone, Copy)]
struct Posting {
    gate: f32,
    item: ItemId,
    signature: Signature,
}

/// For each token, the sets whose prefix has it.
///
/// Where norms are multiplied, postings of one key fall by the norm that is left, which is their gate. Where sums are
/// compared, postings are in the order of the sets, whose totals rise; the gate is the sum that is left without the part
/// that the total of the set asks for.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// By token, the first posting, and where its signatures begin; one more.
    starts: Vec<usize>,
    signature_starts: Vec<usize>,
    pub items: Vec<ItemId>,
    pub gates: Vec<f32>,
    signatures: Vec<u8>,
    /// The bytes of a signature.
    pub signature_bytes: usize,
    /// The greatest norm of a build set, where norms are absolute; 1 otherwise.
    pub greatest_norm: f64,
}

/// The postings of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub items: &'a [ItemId],
    pub gates: &'a [f32],
    pub signatures: &'a [u8],
}

impl Postings {
    /// The postings of the prefixes of all sets.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn new(
        limits: &WeightLimits,
        sets: &WeightedSets,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let prefixes = prefixes(limits, sets, context)?;
        let mut starts = vec![0; sets.ranked.len() + 1];
        for (item, len) in (0..).zip(&prefixes) {
            let (tokens, _) = sets.set(item);
            tokens[..*len as usize].iter().for_each(|token| starts[*token as usize + 1] += 1);
        }
        let signature_bytes = limits.signature_bytes();
        let mut signature_starts = vec![0; starts.len()];
        for token in 1..starts.len() {
            signature_starts[token] =
                signature_starts[token - 1] + bytes_of_list(starts[token], signature_bytes);
            starts[token] += starts[token - 1];
        }
        let count = starts.last().copied().unwrap_or(0);
        let bytes = signature_starts.last().copied().unwrap_or(0);
        let none = Posting { gate: 0.0, item: 0, signature: Signature::default() };
        let mut postings = context.filled(count, none)?;
        fill(limits, sets, &prefixes, &starts, &mut postings, context)?;
        let (items, gates) = (context.filled(count, 0)?, context.filled(count, 0.0)?);
        let signatures = context.filled(bytes, 0)?;
        let greatest_norm = greatest_norm(limits, sets);
        let mut made = Self {
            starts,
            signature_starts,
            items,
            gates,
            signatures,
            signature_bytes,
            greatest_norm,
        };
        made.arrange(limits, sets, &mut postings, context)?;
        context.reservation.shrink(count * size_of::<Posting>());
        Ok(made)
    }

    /// A bound on the bytes of the postings of so many tokens, and of making them.
    pub(super) fn bytes(sets: usize, tokens: usize) -> usize {
        let posting = size_of::<Posting>()
            + size_of::<ItemId>()
            + size_of::<f32>()
            + 2 * size_of::<Signature>();
        tokens * (posting + 2 * size_of::<usize>()) + sets * size_of::<u32>() + 64
    }

    /// The postings of a token.
    #[inline]
    pub(super) fn list(&self, token: u32) -> List<'_> {
        let token = token as usize;
        let range = self.starts[token]..self.starts[token + 1];
        let signatures = self.signature_starts[token]..self.signature_starts[token + 1];
        List {
            items: &self.items[range.clone()],
            gates: &self.gates[range],
            signatures: &self.signatures[signatures],
        }
    }

    /// Sorts each list where norms are multiplied, and takes its postings apart.
    fn arrange(
        &mut self,
        limits: &WeightLimits,
        sets: &WeightedSets,
        postings: &mut [Posting],
        context: PrepareContext<'_>,
    ) -> Result<()> {
        /// Postings of a task.
        const SHARE: usize = 1 << 14;
        let by_norm = matches!(limits.form, LimitForm::Product { .. });
        let Self { starts, signature_starts, items, gates, signatures, signature_bytes, .. } = self;
        let signature_bytes = *signature_bytes;
        let (mut postings, mut items, mut gates, mut signatures) =
            (postings, &mut items[..], &mut gates[..], &mut signatures[..]);
        let (mut tasks, mut token) = (vec![], 0);
        while token + 1 < starts.len() {
            let first = token;
            while token + 1 < starts.len() && starts[token] - starts[first] < SHARE {
                token += 1;
            }
            let count = starts[token] - starts[first];
            let bytes = signature_starts[token] - signature_starts[first];
            tasks.push((
                first..token,
                postings.split_off_mut(..count).unwrap_or_default(),
                items.split_off_mut(..count).unwrap_or_default(),
                gates.split_off_mut(..count).unwrap_or_default(),
                signatures.split_off_mut(..bytes).unwrap_or_default(),
            ));
        }
        let (starts, signature_starts) = (&*starts, &*signature_starts);
        let threads = threads_for(context.threads, 8 * starts.last().copied().unwrap_or(0));
        for_each(threads, tasks, |(tokens, postings, items, gates, signatures)| {
            context.cancel.check()?;
            let base = (starts[tokens.start], signature_starts[tokens.start]);
            for token in tokens {
                let range = starts[token] - base.0..starts[token + 1] - base.0;
                let list = &mut postings[range.clone()];
                if by_norm {
                    sort_by_gate(sets, list);
                }
                for (at, posting) in range.zip(&*list) {
                    (items[at], gates[at]) = (posting.item, posting.gate);
                }
                let bytes = signature_starts[token] - base.1..signature_starts[token + 1] - base.1;
                write_signatures(list, signature_bytes, &mut signatures[bytes]);
            }
            Ok(())
        })
    }
}

/// The bytes of the signatures of a list.
fn bytes_of_list(postings: usize, bytes: usize) -> usize {
    match postings < LEAST_GROUPED {
        true => postings * bytes,
        false => postings.next_multiple_of(GROUP) * bytes,
    }
}

fn write_signatures(list: &[Posting], bytes: usize, to: &mut [u8]) {
    if list.len() < LEAST_GROUPED {
        for (row, posting) in to.chunks_exact_mut(bytes).zip(list) {
            row.iter_mut().zip(posting.signature.to_bytes()).for_each(|(to, byte)| *to = byte);
        }
        return;
    }
    for (group, postings) in to.chunks_exact_mut(GROUP * bytes).zip(list.chunks(GROUP)) {
        for (lane, posting) in postings.iter().enumerate() {
            let places = group.iter_mut().skip(lane).step_by(GROUP);
            places.zip(posting.signature.to_bytes()).for_each(|(to, byte)| *to = byte);
        }
    }
}

/// Sorts the postings of each key by falling gates, equal ones by their sets.
fn sort_by_gate(sets: &WeightedSets, list: &mut [Posting]) {
    let mut rest = list;
    while let Some(first) = rest.first() {
        let run = sets.runs.partition_point(|run| run.items.end <= first.item);
        let end = sets.runs.get(run).map_or(ItemId::MAX, |run| run.items.end);
        let count = rest.partition_point(|posting| posting.item < end);
        let (of_key, behind) = rest.split_at_mut(count);
        of_key.sort_unstable_by(|a, b| b.gate.total_cmp(&a.gate).then(a.item.cmp(&b.item)));
        rest = behind;
    }
}

/// The number of tokens of each set with which it may have its first token in common with a match.
fn prefixes(
    limits: &WeightLimits,
    sets: &WeightedSets,
    context: PrepareContext<'_>,
) -> Result<Vec<u32>> {
    let (mut rests, mut prefixes) = (Rests::default(), context.filled(sets.len() as usize, 0)?);
    if limits.is_void() {
        return Ok(prefixes);
    }
    let greatest = greatest_norm(limits, sets);
    for (item, prefix) in (0..).zip(&mut prefixes) {
        context.cancel.check_at(64 * item as usize)?;
        rests.read(limits, sets, item);
        let least = match limits.form {
            LimitForm::Product { least, relative: true } => least,
            // Of the norms of other probe sets nothing is known.
            LimitForm::Product { .. } if !limits.is_self_join => 0.0,
            LimitForm::Product { least, .. } => least / greatest,
            LimitForm::Sum { build: 0.0, .. } => 0.0,
            // The total of the partner is at least what both have in common.
            LimitForm::Sum { probe, build } => {
                build / (1.0 - probe).max(f64::MIN_POSITIVE) * sets.mass(item).total as f64
            }
        };
        *prefix =
            rests.as_slice().partition_point(|rest| *rest >= least * (1.0 - f64::from(SLACK_32)))
                as u32;
    }
    Ok(prefixes)
}

fn greatest_norm(limits: &WeightLimits, sets: &WeightedSets) -> f64 {
    match limits.form {
        LimitForm::Product { relative: false, .. } => {
            let squares = sets.masses.iter().map(|mass| mass.squares).max().unwrap_or(0);
            (squares.max(1) as f64).sqrt()
        }
        _ => 1.0,
    }
}

/// Puts the postings of all prefixes in their lists.
fn fill(
    limits: &WeightLimits,
    sets: &WeightedSets,
    prefixes: &[u32],
    starts: &[usize],
    postings: &mut [Posting],
    context: PrepareContext<'_>,
) -> Result<()> {
    let (mut next, mut rests) = (starts.to_vec(), Rests::default());
    let (mut signatures, signature_bytes) = (vec![], limits.signature_bytes());
    for (item, len) in (0..).zip(prefixes) {
        context.cancel.check_at(64 * item as usize)?;
        let (tokens, _) = sets.set(item);
        rests.read(limits, sets, item);
        // The signature of what is left.
        signatures.clear();
        signatures.resize(tokens.len(), Signature::default());
        let mut signature = Signature::default();
        for (place, &token) in signatures.iter_mut().zip(tokens).rev() {
            signature.add(token, signature_bytes);
            *place = signature;
        }
        let total = sets.mass(item).total as f64;
        for (place, &token) in tokens[..*len as usize].iter().enumerate() {
            let rest = rests.as_slice()[place];
            let gate = match limits.form {
                LimitForm::Product { .. } => gate(rest),
                LimitForm::Sum { build, .. } => {
                    // The error of the difference is one of the total.
                    (rest - build * total + f64::from(SLACK_32) * total) as f32
                }
            };
            let to = &mut next[token as usize];
            postings[*to] = Posting { gate, item, signature: signatures[place] };
            *to += 1;
        }
    }
    Ok(())
}

impl List<'_> {
    /// The places of the postings of some sets, which are all sets of a key.
    #[inline]
    pub(super) fn of_key(&self, items: &Range<ItemId>, is_only_key: bool) -> Range<usize> {
        if is_only_key {
            return 0..self.items.len();
        }
        // Keys are in order, whatever the order within a key.
        let start = self.items.partition_point(|item| *item < items.start);
        start..start + self.items[start..].partition_point(|item| *item < items.end)
    }
}

/// The lengths of the lists of all tokens.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub(super) fn lengths(
    limits: &WeightLimits,
    sets: &WeightedSets,
    context: PrepareContext<'_>,
) -> Result<Vec<u32>> {
    let mut lengths = vec![0; sets.ranked.len()];
    for (item, len) in (0..).zip(prefixes(limits, sets, context)?) {
        let (tokens, _) = sets.set(item);
        tokens[..len as usize].iter().for_each(|token| lengths[*token as usize] += 1);
    }
    context.reservation.shrink(sets.len() as usize * size_of::<u32>());
    Ok(lengths)
}
