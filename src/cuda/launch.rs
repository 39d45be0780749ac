//! Which kernel suits a chunk.

use super::{Form, Lanes, Launch, Layout};

/// What is known of a chunk of candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkShape {
    pub groups: u32,
    pub candidates: u32,
    /// Tokens of the largest probe set, and of a candidate's probe set on average.
    pub greatest_probe: u32,
    pub average_probe: u32,
}

/// Words of shared memory that a block has on every device without asking for more.
const SHARED_WORDS: u32 = 12 * 1024;
/// What a block of layout D has at least: room for a bitmap.
const LEAST_SHARED_WORDS: u32 = 512;

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

    fn choose(shape: &ChunkShape) -> Self {
        match shape.average_probe {
            0..16 => Self::D(Lanes::Four),
            16..64 => Self::D(Lanes::Eight),
            64..256 => Self::D(Lanes::Sixteen),
            _ => Self::D(Lanes::ThirtyTwo),
        }
    }

    fn block(self, shape: &ChunkShape) -> u32 {
        let group = shape.candidates / shape.groups.max(1);
        match self {
            Self::A => 128,
            Self::C => match shape.average_probe {
                0..512 => 32,
                512..4096 => 64,
                _ => 128,
            },
            Self::B | Self::D(_) => match group {
                0..64 => 32,
                64..128 => 64,
                _ => 128,
            },
        }
    }

    fn shared_words(self, shape: &ChunkShape, block: u32) -> u32 {
        let greatest = shape.greatest_probe.min(SHARED_WORDS);
        match self {
            Self::A => 0,
            Self::B => greatest,
            Self::C => (greatest + block * 16).clamp(block * 16, SHARED_WORDS),
            Self::D(_) => (4 * greatest.next_power_of_two()).clamp(LEAST_SHARED_WORDS, 8192),
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
        Self { layout, form, block, shared_words: layout.shared_words(shape, block) }
    }
}
