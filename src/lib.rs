//! Exact similarity joins of sets, texts and vectors for [Apache DataFusion](https://datafusion.apache.org).
//!
//! A set-similarity join finds the pairs of rows whose token sets are similar: near-duplicate
//! documents, records of one entity in two tables, users with the same taste. In SQL it is a join
//! on a similarity predicate, `a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8`. The answer is that
//! of a nested loop over all pairs, bit for bit; the way there is an index over set prefixes.
//!
//! ```text
//! SQL text ──► SIMJOIN sugar ──► DataFusion logical plan ──► similarity predicate recognised
//!               (sql)                                          (plan)      │
//!    build side                                                            ▼
//!    RecordBatches ─► encode ─► items, with the rows that hold them ─► choose, prepare
//!                     (set::encode)           (engine)                     │
//!    probe side                                                            ▼
//!    each RecordBatch ─► encode ─► unit ─► strategy: filter ─► candidates ─► verify ─► matches
//!                                          (set::filter, bitmap)  (set::verify)          │
//!                                                                                        ▼
//!               rows of items, residual filter, join type, score ─► pairs or counts as batches
//!               (exec)
//! ```
//!
//! Folders in that order: [`sql`], [`plan`], [`spec`] (what a join computes), [`exec`] (the operator),
//! [`results`] (what becomes of pairs), `shuffle` (how a cluster shares a join). `src/tests/arrows.rs` holds the
//! directions in which they depend on each other. Below them stands the crate `simjoin-core`: `engine` (the boundary
//! to a family of similarities), `set`, `string` and `vector` (the families) over `simd` and `values`.
//! Above stand `simjoin-ballista` (clusters), `simjoin-session` (sessions for programs, over the readers of
//! `simjoin-files`) and `simjoin-cli` (the command `simjoin`).
//!
//! `ARCHITECTURE.md` in the repository follows statements through these folders, and defines the words that the
//! code uses: family, item, slot, key, unit, candidate, match, strategy, placement, position, piece, tile, node.
//!
//! [`install`] puts it into a session; [`SimJoinContextExt`] and [`SimJoinDataFrameExt`] use it
//! from Rust:
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::*;
//! use datafusion_simjoin::{SimJoinContextExt, install};
//!
//! # #[tokio::main]
//! # async fn main() -> datafusion::common::Result<()> {
//! let builder = SessionStateBuilder::new_with_default_features();
//! let ctx = SessionContext::new_with_state(install(builder)?.build());
//! ctx.sql("CREATE TABLE name AS VALUES ('Jane Doe'), ('Doe, Jane'), ('John Roe')").await?;
//! let same = ctx
//!     .simjoin_sql(
//!         "SELECT a.column1, b.column1 FROM name a SIMJOIN name b \
//!          ON jaccard(word_tokens(a.column1), word_tokens(b.column1)) >= 0.9 \
//!          AND a.column1 < b.column1",
//!     )
//!     .await?;
//! assert_eq!(same.count().await?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Programs that parse SQL by themselves hand the text to [`sql::rewrite_sql`] first. The same
//! predicate in a plain `JOIN`, in `WHERE` over a cross join, or in `EXISTS` is recognised without
//! any sugar. The options are in [`config`], the functions in [`functions`].

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]
#![warn(missing_docs, unreachable_pub)]

pub mod config;
pub(crate) mod disk;
pub mod exec;
pub(crate) mod families;
pub mod functions;
#[doc(hidden)]
pub mod internals;
pub mod nearest;
pub(crate) mod operator;
pub mod plan;
pub mod results;
mod session;
pub(crate) mod shuffle;
pub mod spec;
pub mod sql;
pub(crate) mod strategies;

#[cfg(test)]
#[path = "../tests/emulator/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod emulator;
#[cfg(test)]
#[path = "../tests/structure/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod structure;
#[cfg(test)]
mod tests;

pub use simjoin_core::predicate;
pub(crate) use simjoin_core::{
    engine, error, memory, set, simd, string, top, tuning, util, values, vector, weighted,
};

pub use config::SimJoinOptions;
pub use families::Families;
pub use plan::{PairFunction, ScoreOrder, SimJoinPlanner, SimJoinQueryPlanner};
pub use session::{SimJoinContextExt, SimJoinDataFrameExt, families, install, install_parts};
pub use sql::{rewrite_sql, rewrite_sql_with_dialect};

/// The examples of the README and the manual, as doc-tests.
#[cfg(doctest)]
mod manual {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/benches.md")]
    struct Benches;
    #[doc = include_str!("../docs/cluster.md")]
    struct Cluster;
    #[doc = include_str!("../docs/command-line.md")]
    struct CommandLine;
    #[doc = include_str!("../docs/contributing.md")]
    struct Contributing;
    #[doc = include_str!("../docs/explain.md")]
    struct Explain;
    #[doc = include_str!("../docs/gpu.md")]
    struct Gpu;
    #[doc = include_str!("../docs/limits.md")]
    struct Limits;
    #[doc = include_str!("../docs/memory.md")]
    struct Memory;
    #[doc = include_str!("../docs/options.md")]
    struct Options;
    #[doc = include_str!("../docs/results.md")]
    struct Results;
    #[doc = include_str!("../docs/rust.md")]
    struct Rust;
    #[doc = include_str!("../docs/scale.md")]
    struct Scale;
    #[doc = include_str!("../docs/sql.md")]
    struct Sql;
    #[doc = include_str!("../docs/strategies.md")]
    struct Strategies;
}
