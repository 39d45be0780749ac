//! Which kernel suits a chunk.

use simjoin_gpu::runtime::{Images, LaunchGrid, images};

use crate::engine::{GpuOptions, LayoutChoice};
use crate::verified::layouts::Published;
use crate::verified::shape::{ChunkShape, Form, SHARED_WORDS};

/// The kernels that joins choose from.
pub(crate) static VERIFY: Images = images!("verify");

/// The way in which a kernel divides the candidates of a chunk among its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// A block owns a group, four lanes of a warp verify a candidate together.
    LanesPerPair,
    /// A block owns a group, all its threads verify a candidate together.
    BlockPerPair,
    /// A layout of the literature, for measurements.
    Published(Published),
}

/// Which kernel runs, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The way in which threads share the candidates.
    pub layout: Layout,
    /// The form in which the kernel writes.
    pub form: Form,
    /// Threads of a block: 32, 64, 128 or 256.
    pub block: u32,
    /// Dynamic shared memory of a block, in words of 4 bytes. Cut down to what the device has; the
    /// kernels are right with any.
    pub shared_words: u32,
    /// The greatest number of blocks, at least 1: with fewer than there is work for, each takes up
    /// several groups, one after another.
    pub most_blocks: u32,
}

/// The least words of a block of lanes, and the most words of a bitmap.
const LEAST_SHARED_WORDS: u32 = 128;
const BITMAP_WORDS: u32 = 4096;

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] = [
        Self::LanesPerPair,
        Self::BlockPerPair,
        Self::Published(Published::ThreadPerProbe),
        Self::Published(Published::ThreadPerPair),
    ];

    /// The layout that an option names; `None` where sizes decide.
    pub fn of(choice: LayoutChoice) -> Option<Self> {
        match choice {
            LayoutChoice::Auto => None,
            LayoutChoice::A => Some(Self::Published(Published::ThreadPerProbe)),
            LayoutChoice::B => Some(Self::Published(Published::ThreadPerPair)),
            LayoutChoice::C => Some(Self::BlockPerPair),
            LayoutChoice::D4 => Some(Self::LanesPerPair),
        }
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::LanesPerPair => "lanes_per_pair",
            Self::BlockPerPair => "block_per_pair",
            Self::Published(layout) => layout.name(),
        }
    }

    /// As measured on an H200: four threads a candidate win, or lie within a tenth, from three
    /// tokens a set to hundreds; sets too large for shared memory are for a block.
    fn choose(shape: &ChunkShape) -> Self {
        match shape.average_probe {
            0..4096 => Self::LanesPerPair,
            _ => Self::BlockPerPair,
        }
    }

    /// Blocks as large as their groups have work for.
    fn block(self, shape: &ChunkShape) -> u32 {
        match self {
            Self::LanesPerPair => match shape.group() {
                0..192 => 128,
                _ => 256,
            },
            Self::BlockPerPair => match shape.average_probe {
                0..256 => 32,
                256..1024 => 128,
                _ => 256,
            },
            Self::Published(layout) => layout.block(shape),
        }
    }

    /// Words of shared memory of a block: no more than helps, for the blocks on a processor share
    /// its memory.
    fn shared_words(self, shape: &ChunkShape) -> u32 {
        let greatest = shape.greatest_probe.min(SHARED_WORDS);
        match self {
            // A bit for each rank, or else a table that is an eighth full.
            Self::LanesPerPair => match shape.universe / 32 + 2 {
                words @ 0..=BITMAP_WORDS => words.max(4 * greatest),
                _ => 8 * greatest,
            }
            .clamp(LEAST_SHARED_WORDS, SHARED_WORDS),
            Self::BlockPerPair => match shape.average_probe {
                0..1024 => (2 * greatest).clamp(512, 4096),
                _ => SHARED_WORDS,
            },
            Self::Published(layout) => layout.shared_words(shape),
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

    /// The program and the name of the kernel.
    pub(super) fn kernel(&self) -> (&'static Images, &'static str) {
        let name = match (self.layout, self.form) {
            (Layout::LanesPerPair, Form::Pairs) => "verify_lanes_per_pair_pairs",
            (Layout::LanesPerPair, Form::Count) => "verify_lanes_per_pair_count",
            (Layout::BlockPerPair, Form::Pairs) => "verify_block_per_pair_pairs",
            (Layout::BlockPerPair, Form::Count) => "verify_block_per_pair_count",
            (Layout::Published(layout), form) => return layout.kernel(form),
        };
        (&VERIFY, name)
    }

    /// The blocks and threads for `groups` groups.
    pub(super) fn grid(&self, groups: u32, shared_words: u32) -> LaunchGrid {
        let blocks = match self.layout {
            Layout::LanesPerPair | Layout::BlockPerPair => groups,
            Layout::Published(layout) => layout.blocks(groups, self.block),
        };
        LaunchGrid {
            blocks: blocks.min(self.most_blocks).max(1),
            threads: self.block,
            shared_words,
        }
    }
}
