//! The layouts of the literature (Bellas, Gounaris: "An empirical evaluation of exact set
//! similarity join techniques using GPUs", Information Systems 2020), for measurements: joins run
//! them only where `simjoin.debug.gpu_layout` names them. The paper's third layout is
//! [`Layout::BlockPerPair`](super::Layout::BlockPerPair), which joins choose for large sets.

use simjoin_gpu::runtime::{Images, images};

use crate::verified::shape::{ChunkShape, Form, SHARED_WORDS};

/// The kernels of these layouts, loaded with their first launch.
pub(super) static PUBLISHED: Images = images!("published");

/// A layout of the literature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Published {
    /// A thread verifies all candidates of a group.
    ThreadPerProbe,
    /// A block owns a group, a thread verifies a candidate.
    ThreadPerPair,
}

impl Published {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ThreadPerProbe => "thread_per_probe",
            Self::ThreadPerPair => "thread_per_pair",
        }
    }

    pub(super) fn kernel(self, form: Form) -> (&'static Images, &'static str) {
        let name = match (self, form) {
            (Self::ThreadPerProbe, Form::Pairs) => "verify_thread_per_probe_pairs",
            (Self::ThreadPerProbe, Form::Count) => "verify_thread_per_probe_count",
            (Self::ThreadPerPair, Form::Pairs) => "verify_thread_per_pair_pairs",
            (Self::ThreadPerPair, Form::Count) => "verify_thread_per_pair_count",
        };
        (&PUBLISHED, name)
    }

    /// Threads of a block.
    pub(super) fn block(self, shape: &ChunkShape) -> u32 {
        match self {
            Self::ThreadPerProbe => 64,
            Self::ThreadPerPair => match shape.group() {
                0..192 => 128,
                _ => 256,
            },
        }
    }

    /// Words of shared memory of a block.
    pub(super) fn shared_words(self, shape: &ChunkShape) -> u32 {
        match self {
            Self::ThreadPerProbe => 0,
            Self::ThreadPerPair => shape.greatest_probe.min(SHARED_WORDS).min(1024),
        }
    }

    /// The number of blocks of `block` threads for `groups` groups.
    pub(super) fn blocks(self, groups: u32, block: u32) -> u32 {
        match self {
            Self::ThreadPerProbe => groups.div_ceil(block),
            Self::ThreadPerPair => groups,
        }
    }
}
