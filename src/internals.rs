//! Parts of the engine for the crates of clusters and sessions, the benches and the integration tests. They change
//! without notice.

/// The boundary to a family of similarities.
pub mod engine {
    pub use crate::engine::{
        ANYWHERE, AnyChoice, AnyMatcher, Argument, Axis, Chosen, Collection, DeviceRequest,
        EncodeInput, Encoding, Family, FinishContext, Funnel, KeyDictionary, Match, MatchBuffer,
        MatchNeed, MatchSpec, Matcher, Orders, Pairing, Placement, PrepareContext, PreparedJoin,
        ProbeRows, ProbeUnit, Progress, RowPlace, Strategy, StrategyInfo, Unit,
    };
}

/// The strategies of all families.
pub mod strategies {
    pub use crate::strategies::{of_sets, of_vectors};
}

/// The family of sets of tokens.
pub mod set {
    pub use crate::set::{
        Bounds, BuildEncoder, Candidate, CandidateChunk, CandidateFilter, CandidateJoin,
        CandidateSource, JoinSpec, Measure, Role, SetCollection, SetFamily, SetJoin, SetUnit,
        SourceProgress,
    };

    /// Encoding of the build side.
    pub mod encode {
        pub use crate::set::encode::finish;
    }

    /// The rates of kernels that estimates of costs are made of.
    pub mod rates {
        pub use crate::set::bitmap::test_rate;
        pub use crate::set::filter::postings::scan_rate;
    }

    /// The overlap of two lists of integers.
    pub mod intersection {
        pub use crate::set::intersection::{Key, KeySlice, size, size_if_ascending};
    }

    /// The filters of candidates.
    pub mod filter {
        pub use crate::set::filter::{PositionalIndex, PrefixIndex};
    }
}

/// The family of vectors.
pub mod vector {
    use std::sync::Arc;

    use crate::engine::Family;

    /// The family.
    pub fn family() -> Arc<dyn Family> {
        Arc::new(crate::session::vectors())
    }
}

/// The placing of rows on the tasks of a cluster.
pub mod shuffle {
    pub use crate::shuffle::{
        AxisGridExec, AxisHistogramExec, Counter, Grid, GridPairs, GridSpec, Histogram, Place,
        PlacedRows, Tiling, place_of,
    };
}

/// The vector instructions of the processor.
pub mod simd {
    pub use crate::simd::Simd;
}

/// Helpers.
pub mod util {
    /// Cancelling work.
    pub mod cancel {
        pub use crate::util::cancel::CancelFlag;
    }

    /// Work on several threads.
    pub mod parallel {
        pub use crate::util::parallel::Threads;
    }
}

/// Parts of sessions that the crates above this one use.
pub mod session {
    pub use crate::operator::errors::is_out_of_memory;
    pub use crate::session::restored;
}
