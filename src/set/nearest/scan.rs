//! The search for the best sets of a set.

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::best::Best;
use super::index::Index;
use crate::engine::NeighbourRequest;
use crate::set::collection::SetCollection;
use crate::set::measure::{Measure, Role};
use crate::set::runs::SetId;
use crate::set::verify::intersect::intersect;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;

/// Entries of lists that are read for a first bound, about; and sets, for each row that is wanted, that make it.
const FIRST_ENTRIES: usize = if cfg!(test) { 4 } else { 256 };
const FIRST_SETS: usize = 2;

/// Steps of deciding a set, where reading an entry is one.
const DECISION: u64 = 16;

/// A set that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Searched {
    pub set: SetId,
    pub value: f64,
}

/// The set that is searched for: its known tokens, rarest first, and its size, unknown tokens included.
#[derive(Debug, Clone, Copy)]
struct Sought<'a> {
    tokens: &'a [u32],
    size: u32,
}

/// Searches for one set after the other.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    right: &'a SetCollection,
    index: &'a Index,
    measure: Measure,
    /// The role of the set that is searched for.
    role: Role,
    best: Best,
    simd: Simd,
    cancel: &'a CancelFlag,
    /// By right set, how many tokens it is known to share, and whether it has been decided ([`DECIDED`]).
    counts: Vec<u16>,
    /// The sets that share some, in no order: `touched` of them.
    sets: Vec<SetId>,
    touched: usize,
    /// By token, behind the last set for which it was looked up.
    ends: Vec<SetId>,
    steps: u64,
    _memory: MemoryReservation,
}

/// The mark of a set whose value was offered.
const DECIDED: u16 = 1 << 15;

impl<'a> Scan<'a> {
    /// The most tokens of a right set.
    pub(super) const MOST_TOKENS: u32 = DECIDED as u32 - 1;

    /// The bytes of a scan.
    pub(super) fn bytes(right: &SetCollection) -> usize {
        right.len() as usize * (size_of::<u16>() + size_of::<SetId>())
    }

    pub(super) fn new(
        right: &'a SetCollection,
        index: &'a Index,
        (measure, role): (Measure, Role),
        best: Best,
        request: &NeighbourRequest<'a>,
        memory: MemoryReservation,
    ) -> Self {
        let len = right.len() as usize;
        Self {
            right,
            index,
            measure,
            role,
            best,
            simd: request.simd,
            cancel: request.cancel,
            counts: vec![0; len],
            // A set more: the place behind the last one is written to.
            sets: vec![0; len + 1],
            touched: 0,
            ends: vec![],
            steps: 0,
            _memory: memory,
        }
    }

    /// The steps so far, of about a nanosecond.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The sets found, the best ones first.
    pub(super) fn found(&self) -> impl Iterator<Item = Searched> + '_ {
        self.best.sets().map(|(set, value)| Searched { set, value })
    }

    /// Finds the best sets for a set with these known tokens and this size.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn search(&mut self, tokens: &[u32], size: u32) -> Result<()> {
        let sought = Sought { tokens, size };
        self.best.clear();
        self.ends.clear();
        self.begin(sought)?;
        self.make_bound(sought);
        let first = self.look_up(sought)?;
        self.decide(sought, first);
        for set in &self.sets[..self.touched] {
            self.counts[*set as usize] = 0;
        }
        self.steps += 3 * self.touched as u64;
        self.touched = 0;
        Ok(())
    }

    /// The value of a pair that shares `overlap` tokens with a set of a size.
    #[inline]
    fn value(&self, sought: Sought<'_>, overlap: u32, size: u32) -> f64 {
        let (overlap, own, size) = (u64::from(overlap), u64::from(sought.size), u64::from(size));
        self.measure.value_in_role(overlap, self.role, own, size)
    }

    /// Counts a token for some of its sets.
    #[inline]
    fn count(&mut self, token: u32, first: SetId, end: SetId) {
        let list = self.index.sets(token);
        let from = if first == 0 { 0 } else { list.partition_point(|set| *set < first) };
        let list = &list[from..];
        let to = match list.last() {
            Some(last) if *last >= end => list.partition_point(|set| *set < end),
            _ => list.len(),
        };
        let mut touched = self.touched;
        for set in &list[..to] {
            let count = &mut self.counts[*set as usize];
            self.sets[touched] = *set;
            touched += usize::from(*count == 0);
            *count += 1;
        }
        self.touched = touched;
        self.steps += to as u64 + 4;
    }

    /// Counts the rarest tokens for all sets.
    fn begin(&mut self, sought: Sought<'_>) -> Result<()> {
        let enough = FIRST_ENTRIES.max(FIRST_SETS * self.best.wanted());
        for token in sought.tokens {
            if self.touched >= enough {
                break;
            }
            self.cancel.check()?;
            self.count(*token, 0, SetId::MAX);
            self.ends.push(SetId::MAX);
        }
        Ok(())
    }

    /// Offers the sets that share most of the tokens counted: their values make a bound.
    fn make_bound(&mut self, sought: Sought<'_>) {
        let counted = self.ends.len();
        let wanted = FIRST_SETS * self.best.wanted();
        let mut of_counts = vec![0_usize; counted + 1];
        for set in &self.sets[..self.touched] {
            of_counts[self.counts[*set as usize] as usize] += 1;
        }
        let (mut least, mut above) = (counted, 0);
        while least > 1 && above + of_counts[least] < wanted {
            above += of_counts[least];
            least -= 1;
        }
        let mut of_least = wanted.saturating_sub(above);
        for place in 0..self.touched {
            let set = self.sets[place];
            let count = usize::from(self.counts[set as usize]);
            if count < least || count == least && of_least == 0 {
                continue;
            }
            if count == least {
                of_least -= 1;
            }
            self.offer(sought, set, counted);
        }
    }

    /// Computes the value of a set for which the first `counted` tokens were counted, and offers it.
    fn offer(&mut self, sought: Sought<'_>, set: SetId, counted: usize) {
        let count = self.counts[set as usize];
        self.counts[set as usize] = count | DECIDED;
        let rest = &sought.tokens[counted..];
        let mut overlap = u32::from(count);
        if !rest.is_empty() {
            let tokens = self.right.tokens(set);
            overlap = intersect(self.simd, rest, tokens, overlap, 0, true).unwrap_or(overlap);
        }
        self.steps += DECISION;
        let value = self.value(sought, overlap, self.right.size(set));
        if value >= self.best.bound() {
            self.best.offer(value, set, self.right.row_count_of(set));
        }
    }

    /// Counts further tokens for the sets that may reach the bound, and one more than is needed for that. Returns the
    /// first set that may reach it.
    fn look_up(&mut self, sought: Sought<'_>) -> Result<SetId> {
        let bound = self.best.bound();
        // A smaller set may be contained in the other one: the value rises with its size.
        let first = self
            .index
            .first_where(|size| size >= sought.size || self.value(sought, size, size) >= bound);
        let known = sought.tokens.len() as u32;
        for place in self.ends.len()..sought.tokens.len() {
            self.cancel.check()?;
            // A set without the tokens before may share the others, and one more.
            let most = (known - place as u32 + 1).min(known);
            let end = self.index.end_where(most, |size| self.value(sought, most, size) >= bound);
            if end <= first {
                break;
            }
            self.count(sought.tokens[place], first, end);
            self.ends.push(end);
        }
        Ok(first)
    }

    /// Offers the sets among those touched that may be among the best ones.
    fn decide(&mut self, sought: Sought<'_>, first: SetId) {
        let bound = self.best.bound();
        // A set that shares one token of those looked up is one that shares one token in all: the token more that was
        // looked up would have found a second one.
        let one = self.index.end_where(1, |size| self.value(sought, 1, size) >= bound);
        let most =
            self.sets[..self.touched].iter().map(|set| self.counts[*set as usize] & !DECIDED);
        let most = most.max().unwrap_or(0);
        // Those that share most raise the bound for the others.
        let many = (most - most / 3).max(2);
        for shared in [many..=DECIDED - 1, 1..=many - 1] {
            for place in 0..self.touched {
                let set = self.sets[place];
                let count = self.counts[set as usize];
                if !shared.contains(&count) || count < 2 && set >= one || set < first {
                    continue;
                }
                let counted = self.ends.partition_point(|end| *end > set);
                let rest = sought.tokens.len() - counted;
                let size = self.right.size(set);
                let overlap = (u32::from(count) + rest as u32).min(size);
                if self.value(sought, overlap, size) >= self.best.bound() {
                    self.offer(sought, set, counted);
                }
            }
        }
    }
}
