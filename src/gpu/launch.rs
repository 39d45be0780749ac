//! Which kernel suits a chunk.

use crate::gpu::{Form, Lanes, Launch, Layout};

/// What is known of a chunk of candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkShape {
    pub groups: u32,
    pub candidates: u32,
    /// Tokens of the largest probe set, and of a candidate's probe set on average.
    pub greatest_probe: u32,
    pub average_probe: u32,
    /// Tokens are ranks below this.
    pub universe: u32,
}

/// Words of shared memory that a block has on every device without asking for more, less those
/// that kernels declare themselves.
const SHARED_WORDS: u32 = 11 * 1024;
/// What a block of layout D has at least, and a bitmap at most.
const LEAST_SHARED_WORDS: u32 = 128;
const BITMAP_WORDS: u32 = 4096;

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 7] = [
        Self::A,
        Self::B,
        Self::C,
        Self::D(Lanes::Four),
        Self::D(Lanes::Eight),
        Self::D(Lanes::Sixteen),
        Self::D(Lanes::ThirtyTwo),
    ];

    /// The names of layouts in metrics.
    pub const FAMILIES: [&'static str; 4] = ["a", "b", "c", "d"];

    /// The place of the layout in [`Self::FAMILIES`].
    pub fn family(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
            Self::C => 2,
            Self::D(_) => 3,
        }
    }

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D(Lanes::Four) => "d4",
            Self::D(Lanes::Eight) => "d8",
            Self::D(Lanes::Sixteen) => "d16",
            Self::D(Lanes::ThirtyTwo) => "d32",
        }
    }

    /// As measured on an H200: four threads a candidate win, or lie within a tenth, from three tokens
    /// a set to hundreds; sets too large for shared memory are for a block.
    fn choose(shape: &ChunkShape) -> Self {
        match shape.average_probe {
            0..4096 => Self::D(Lanes::Four),
            _ => Self::C,
        }
    }

    /// Blocks as large as their groups have work for.
    fn block(self, shape: &ChunkShape) -> u32 {
        let group = shape.candidates / shape.groups.max(1);
        match self {
            Self::A => 64,
            Self::C => match shape.average_probe {
                0..256 => 32,
                256..1024 => 128,
                _ => 256,
            },
            Self::B | Self::D(_) => match group {
                0..192 => 128,
                _ => 256,
            },
        }
    }

    /// Words of shared memory: as much as helps, for blocks share what a processor has of it.
    fn shared_words(self, shape: &ChunkShape) -> u32 {
        let greatest = shape.greatest_probe.min(SHARED_WORDS);
        match self {
            Self::A => 0,
            Self::B => greatest.min(1024),
            Self::C => match shape.average_probe {
                0..1024 => (2 * greatest).clamp(512, 4096),
                _ => SHARED_WORDS,
            },
            // A bit for each rank, or else a table that is an eighth full.
            Self::D(_) => match shape.universe / 32 + 2 {
                words @ 0..=BITMAP_WORDS => words.max(4 * greatest),
                _ => 8 * greatest,
            }
            .clamp(LEAST_SHARED_WORDS, SHARED_WORDS),
        }
    }
}

impl Launch {
    /// The kernel for a chunk, with the layout and the threads of a block that are given.
    pub fn choose(
        shape: &ChunkShape,
        form: Form,
        layout: Option<Layout>,
        block: Option<u32>,
    ) -> Self {
        let layout = layout.unwrap_or_else(|| Layout::choose(shape));
        let block = block.unwrap_or_else(|| layout.block(shape));
        let shared_words = layout.shared_words(shape);
        Self { layout, form, block, shared_words, most_blocks: u32::MAX }
    }
}
