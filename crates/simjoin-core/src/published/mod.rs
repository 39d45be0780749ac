//! Strategies that only comparisons run: systems of the literature, and techniques that win nowhere.
//!
//! A strategy of this folder keeps its name in `simjoin.strategy`, and gives the same answers as every
//! other; `auto` never takes it. The folder uses the families' own parts. They know nothing of it:
//! a session hands its strategies to the families.
//!
//! | folder | | useful for |
//! |---|---|---|
//! | `groupjoin` | GroupJoin, on the CPU: `groupjoin` | collections with many equal prefixes, where it beats `ppjoin` by little |
//! | `indexed` | published filters by inverted index on a GPU: `bwjoin-published`, `fgssjoin`, `sf-gssjoin` | comparison with `bwjoin` |
//! | `points` | published joins of points on a GPU: `nested-loop-published`, `directory-published` | comparison with `nested-loop` and `directory` |
//! | `intersection` | techniques for intersections of large sets on a GPU | `cargo bench --bench suite -- large`; no join runs them |

pub mod groupjoin;
pub mod indexed;
pub mod intersection;
pub mod points;

use self::groupjoin::GroupJoin;
use self::indexed::PublishedIndex;
use self::points::PublishedPoints;
use crate::engine::Strategy;
use crate::set::SetJoin;
use crate::vector::join::VectorJoin;

/// The strategies of sets.
pub static OF_SETS: &[&dyn Strategy<SetJoin>] =
    &[&GroupJoin, &PublishedIndex::Bwjoin, &PublishedIndex::FgssJoin, &PublishedIndex::SfGssJoin];

/// The strategies of distances between vectors.
pub static OF_DISTANCES: &[&dyn Strategy<VectorJoin>] =
    &[&PublishedPoints::Loop, &PublishedPoints::Directory];
