//! Which kernel suits a chunk.

use crate::config::{GpuOptions, LayoutChoice};
use crate::gpu::{Form, Launch, Layout};

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
/// What a block of lanes has at least, and a bitmap at most.
const LEAST_SHARED_WORDS: u32 = 128;
const BITMAP_WORDS: u32 = 4096;

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] =
        [Self::ThreadPerProbe, Self::ThreadPerPair, Self::BlockPerPair, Self::LanesPerPair];

    /// The layout that an option names; `None` where sizes decide.
    pub fn of(choice: LayoutChoice) -> Option<Self> {
        match choice {
            LayoutChoice::Auto => None,
            LayoutChoice::A => Some(Self::ThreadPerProbe),
            LayoutChoice::B => Some(Self::ThreadPerPair),
            LayoutChoice::C => Some(Self::BlockPerPair),
            LayoutChoice::D4 => Some(Self::LanesPerPair),
        }
    }

    /// The name in metrics and in the names of kernels.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThreadPerProbe => "thread_per_probe",
            Self::ThreadPerPair => "thread_per_pair",
            Self::BlockPerPair => "block_per_pair",
            Self::LanesPerPair => "lanes_per_pair",
        }
    }

    /// As measured on an H200: four threads a candidate win, or lie within a tenth, from three tokens
    /// a set to hundreds; sets too large for shared memory are for a block.
    fn choose(shape: &ChunkShape) -> Self {
        match shape.average_probe {
            0..4096 => Self::LanesPerPair,
            _ => Self::BlockPerPair,
        }
    }

    /// Blocks as large as their groups have work for.
    fn block(self, shape: &ChunkShape) -> u32 {
        let group = shape.candidates / shape.groups.max(1);
        match self {
            Self::ThreadPerProbe => 64,
            Self::BlockPerPair => match shape.average_probe {
                0..256 => 32,
                256..1024 => 128,
                _ => 256,
            },
            Self::ThreadPerPair | Self::LanesPerPair => match group {
                0..192 => 128,
                _ => 256,
            },
        }
    }

    /// Words of shared memory: as much as helps, for blocks share what a processor has of it.
    fn shared_words(self, shape: &ChunkShape) -> u32 {
        let greatest = shape.greatest_probe.min(SHARED_WORDS);
        match self {
            Self::ThreadPerProbe => 0,
            Self::ThreadPerPair => greatest.min(1024),
            Self::BlockPerPair => match shape.average_probe {
                0..1024 => (2 * greatest).clamp(512, 4096),
                _ => SHARED_WORDS,
            },
            // A bit for each rank, or else a table that is an eighth full.
            Self::LanesPerPair => match shape.universe / 32 + 2 {
                words @ 0..=BITMAP_WORDS => words.max(4 * greatest),
                _ => 8 * greatest,
            }
            .clamp(LEAST_SHARED_WORDS, SHARED_WORDS),
        }
    }
}

impl Launch {
    /// The kernel for a chunk; the layout and the threads of a block are those of the options where
    /// they are given.
    pub fn choose(shape: &ChunkShape, form: Form, options: &GpuOptions) -> Self {
        let layout = Layout::of(options.layout).unwrap_or_else(|| Layout::choose(shape));
        let block = options.block_size.unwrap_or_else(|| layout.block(shape));
        let shared_words = layout.shared_words(shape);
        Self { layout, form, block, shared_words, most_blocks: u32::MAX }
    }
}
