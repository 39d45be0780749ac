//! The sets of a join in the order of the grid: by size, then by a hash of their content.

use std::ops::Range;

use datafusion_simjoin::internals::set::SetCollection;
use datafusion_simjoin::internals::set::{Bounds, Role};

/// Bytes of a row in the shuffle beside its tokens: an Int64 id, an Int32 offset, an Int32 task.
pub const ROW_BYTES: u64 = 16;
/// Bytes of a token in the shuffle.
pub const TOKEN_BYTES: u64 = 4;

/// Different sets, ascending by (size, hash).
#[derive(Debug)]
pub struct Content {
    sizes: Vec<u32>,
    hashes: Vec<u64>,
}

impl Content {
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn size(&self, set: u32) -> u32 {
        self.sizes[set as usize]
    }

    pub fn hash(&self, set: u32) -> u64 {
        self.hashes[set as usize]
    }
}

/// The rows of one side: places of their different sets in a [`Content`], ascending, and how many
/// rows hold each.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub sets: Vec<u32>,
    sizes: Vec<u32>,
    /// Rows and tokens of rows in front of each place; one more than sets.
    rows: Vec<u64>,
    tokens: Vec<u64>,
}

impl Side {
    fn push(&mut self, content: &Content, set: u32, rows: u64) {
        if self.rows.is_empty() {
            self.rows.push(0);
            self.tokens.push(0);
        }
        let size = content.size(set);
        self.sets.push(set);
        self.sizes.push(size);
        self.rows.push(self.rows[self.rows.len() - 1] + rows);
        self.tokens.push(self.tokens[self.tokens.len() - 1] + rows * u64::from(size));
    }

    /// Different sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    pub fn size(&self, place: usize) -> u32 {
        self.sizes[place]
    }

    /// Rows of the sets at these places, and the tokens of these rows.
    pub fn rows(&self, places: Range<usize>) -> (u64, u64) {
        if places.start >= places.end {
            return (0, 0);
        }
        (
            self.rows[places.end] - self.rows[places.start],
            self.tokens[places.end] - self.tokens[places.start],
        )
    }

    pub fn all(&self) -> (u64, u64) {
        self.rows(0..self.len())
    }

    /// The first place whose size is `size` or more.
    pub fn first_of_size(&self, size: u32) -> usize {
        self.sizes.partition_point(|&s| s < size)
    }

    /// The sizes there are, ascending, with their rows.
    pub fn histogram(&self) -> Vec<(u32, f64)> {
        let mut sizes: Vec<(u32, f64)> = vec![];
        for (place, &size) in self.sizes.iter().enumerate() {
            let rows = (self.rows[place + 1] - self.rows[place]) as f64;
            match sizes.last_mut() {
                Some(last) if last.0 == size => last.1 += rows,
                _ => sizes.push((size, rows)),
            }
        }
        sizes
    }
}

/// Both sides of a join; a self-join has one.
#[derive(Debug)]
pub struct Input {
    pub content: Content,
    pub left: Side,
    right: Option<Side>,
}

impl Input {
    /// The join of a collection with itself.
    pub fn self_join(sets: &SetCollection) -> Self {
        Self::of(sets, None)
    }

    /// A join of the rows that `is_left` takes with the others.
    pub fn two_sided(sets: &SetCollection, is_left: impl Fn(u32) -> bool) -> Self {
        Self::of(sets, Some(&is_left))
    }

    fn of(sets: &SetCollection, is_left: Option<&dyn Fn(u32) -> bool>) -> Self {
        let hash =
            |set: u32| sets.tokens(set).iter().fold(0, |hash: u64, &t| mix(hash ^ u64::from(t)));
        let hashes: Vec<u64> = (0..sets.len()).map(hash).collect();
        let mut order: Vec<u32> = (0..sets.len()).collect();
        order.sort_unstable_by_key(|&set| (sets.size(set), hashes[set as usize], set));
        let content = Content {
            sizes: order.iter().map(|&set| sets.size(set)).collect(),
            hashes: order.iter().map(|&set| hashes[set as usize]).collect(),
        };
        let (mut left, mut right) = (Side::default(), is_left.map(|_| Side::default()));
        for (place, &set) in order.iter().enumerate() {
            let rows = || sets.groups().rows(set).iter();
            let (all, on_left) = match is_left {
                Some(is_left) => (rows().count(), rows().filter(|&&row| is_left(row)).count()),
                None => (rows().count(), rows().count()),
            };
            if on_left > 0 {
                left.push(&content, place as u32, on_left as u64);
            }
            if let (Some(right), true) = (&mut right, on_left < all) {
                right.push(&content, place as u32, (all - on_left) as u64);
            }
        }
        Self { content, left, right }
    }

    pub fn is_self_join(&self) -> bool {
        self.right.is_none()
    }

    pub fn right(&self) -> &Side {
        self.right.as_ref().unwrap_or(&self.left)
    }

    /// Rows and tokens of both sides; in a self-join of the one.
    pub fn all(&self) -> (u64, u64) {
        let (left, right) = (self.left.all(), self.right.as_ref().map(Side::all));
        let (rows, tokens) = right.unwrap_or_default();
        (left.0 + rows, left.1 + tokens)
    }
}

/// The places of a side's partners for sets of each size.
pub struct Partners {
    /// By place of the probing side.
    ranges: Vec<Range<usize>>,
}

impl Partners {
    /// Places of `y` whose sizes match those of the sets of `x`; in a self-join only the places
    /// up to the set's own, so that each pair counts once.
    pub fn new(x: &Side, y: &Side, bounds: Bounds, self_join: bool) -> Self {
        let mut ranges = Vec::with_capacity(x.len());
        let mut of_size = (0, 0..0);
        for place in 0..x.len() {
            let size = x.size(place);
            if of_size.0 != size {
                let range = match bounds.size_range(Role::First, size) {
                    Some((least, greatest)) => {
                        y.first_of_size(least)..y.first_of_size(greatest + 1)
                    }
                    None => 0..0,
                };
                of_size = (size, range);
            }
            let mut range = of_size.1.clone();
            if self_join {
                range.end = range.end.min(place + 1);
            }
            ranges.push(range);
        }
        Self { ranges }
    }

    /// In a self-join the set itself stands last.
    pub fn of(&self, place: usize) -> Range<usize> {
        self.ranges[place].clone()
    }
}

/// The finalizer of SplitMix64.
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
