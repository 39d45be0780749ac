//! Strategies on devices, as a crate above this one hands them over.

use crate::engine::Strategy;
use crate::set::SetJoin;
use crate::string::StringJoin;
use crate::vector::join::VectorJoin;
use crate::vector::nearest::NearestOnDevices;

/// The strategies that search on devices: `simjoin_gpu::DEVICES` are those of NVIDIA GPUs. None by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Devices {
    /// Strategies of sets.
    pub of_sets: &'static [&'static dyn Strategy<SetJoin>],
    /// Strategies of texts.
    pub of_texts: &'static [&'static dyn Strategy<StringJoin>],
    /// Strategies of vectors.
    pub of_vectors: &'static [&'static dyn Strategy<VectorJoin>],
    /// The search of nearest vectors.
    pub nearest_vectors: Option<&'static dyn NearestOnDevices>,
}
