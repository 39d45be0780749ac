//! The inverted index of the build side whose entries are groups of sets.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::set::{Run, SetCollection, SetId};

/// Sets handled between two looks at the cancel flag.
const CHECK_EVERY: u32 = 4096;

/// The number of a group, in the order of its sets.
pub(super) type GroupId = u32;

/// Sets of one blocking key and size whose indexed prefixes are identical. Such sets follow each
/// other, because the sets of a run are ordered by their tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// The first set; the next group starts behind the last one.
    pub start: SetId,
    pub size: u32,
    /// The length of the indexed prefix, and its last token (0 where it is empty).
    pub prefix: u32,
    pub last: u32,
}

/// A group in whose prefix a token stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Posting {
    pub group: GroupId,
    /// Where in the prefix the token stands.
    pub position: u32,
}

/// Posting lists of groups in flat arrays, each list ascending by group.
///
/// Because groups follow (blocking key, size), the postings of one key and a size range are one
/// stretch of a list.
#[derive(Debug)]
pub(super) struct GroupIndex {
    /// One more than there are groups: the last one stands for the end of the sets.
    groups: Vec<Group>,
    /// `offsets[token]..offsets[token + 1]` is the list of the token.
    offsets: Vec<u64>,
    postings: Vec<Posting>,
}

impl GroupIndex {
    /// Groups the sets by their first `prefix(size)` tokens and indexes those, once a group.
    pub(super) fn try_new(
        build: &SetCollection,
        prefix: impl Fn(u32) -> u32,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let universe = build.universe() as usize;
        context.reservation.try_grow((universe + 1) * size_of::<u64>())?;
        let mut offsets = vec![0_u64; universe + 1];
        let mut count = 1;
        each_group(build, &prefix, context, |_, tokens| {
            count += 1;
            tokens.iter().for_each(|&t| offsets[t as usize] += 1);
        })?;
        // Each offset becomes the end of its list; filling from the back turns it into the start.
        let mut total = 0;
        for offset in &mut offsets {
            total += *offset;
            *offset = total;
        }
        let bytes = count * size_of::<Group>() + total as usize * size_of::<Posting>();
        context.reservation.try_grow(bytes)?;
        let mut groups = Vec::with_capacity(count);
        each_group(build, &prefix, context, |group, _| groups.push(group))?;
        groups.push(Group { start: build.len(), size: u32::MAX, prefix: 0, last: 0 });
        let mut postings = vec![Posting::default(); total as usize];
        for (id, group) in groups[..count - 1].iter().enumerate().rev() {
            if (id as u32).is_multiple_of(CHECK_EVERY) {
                context.cancel.check()?;
            }
            let tokens = &build.tokens(group.start)[..group.prefix as usize];
            for (position, &token) in tokens.iter().enumerate() {
                let place = &mut offsets[token as usize];
                *place -= 1;
                postings[*place as usize] =
                    Posting { group: id as GroupId, position: position as u32 };
            }
        }
        Ok(Self { groups, offsets, postings })
    }

    /// A group and its sets.
    #[inline]
    pub(super) fn group(&self, id: GroupId) -> (Group, Range<SetId>) {
        let group = self.groups[id as usize];
        (group, group.start..self.groups[id as usize + 1].start)
    }

    /// The size of the sets of a group.
    #[inline]
    pub(super) fn size(&self, id: GroupId) -> u32 {
        self.groups[id as usize].size
    }

    /// The groups that start in a range of sets.
    pub(super) fn starting_in(&self, sets: &Range<SetId>) -> Range<GroupId> {
        let before = |set: SetId| {
            let groups = &self.groups[..self.groups.len() - 1];
            groups.partition_point(|g| g.start < set) as GroupId
        };
        before(sets.start)..before(sets.end)
    }

    /// The first group that starts at `set` or behind it. `from` starts no later than that and is
    /// where the search begins: near the answer it is quick.
    pub(super) fn first_at(&self, set: SetId, from: GroupId) -> GroupId {
        let groups = &self.groups[from as usize..self.groups.len() - 1];
        let mut step = 1;
        while groups.get(step).is_some_and(|g| g.start < set) {
            step *= 2;
        }
        let near = &groups[step / 2..groups.len().min(step)];
        from + (step / 2 + near.partition_point(|g| g.start < set)) as GroupId
    }

    /// Where the postings of `token` with groups in `range` lie.
    #[inline]
    pub(super) fn stretch(&self, token: u32, range: &Range<GroupId>) -> Range<usize> {
        let (start, end) = (self.offsets[token as usize], self.offsets[token as usize + 1]);
        let list = &self.postings[start as usize..end as usize];
        let first = list.partition_point(|p| p.group < range.start);
        let last = first + list[first..].partition_point(|p| p.group < range.end);
        start as usize + first..start as usize + last
    }

    #[inline]
    pub(super) fn postings(&self, stretch: Range<usize>) -> &[Posting] {
        &self.postings[stretch]
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len() - 1
    }
}

/// Calls `add` for each group, in order, with the tokens of its prefix.
fn each_group(
    build: &SetCollection,
    prefix: impl Fn(u32) -> u32,
    context: PrepareContext<'_>,
    mut add: impl FnMut(Group, &[u32]),
) -> Result<()> {
    for (Run { size, .. }, sets) in build.runs().iter() {
        let prefix = prefix(size);
        let mut former: Option<&[u32]> = None;
        for set in sets {
            if set.is_multiple_of(CHECK_EVERY) {
                context.cancel.check()?;
            }
            let tokens = &build.tokens(set)[..prefix as usize];
            if former != Some(tokens) {
                former = Some(tokens);
                let last = tokens.last().copied().unwrap_or(0);
                add(Group { start: set, size, prefix, last }, tokens);
            }
        }
    }
    Ok(())
}
