//! Sessions for programs: what the `simjoin` command line and the module for Python share.
//!
//! ```text
//! options ─► session (memory pool, folders, clusters, tables by file name)
//!               │
//! text ─► prepare: parse ─► statement (plan) ─► folders, writes, tables (checks, limits) ─► frame
//!               │                                                              │
//!            errors ─► hints, meanings                              warnings, tokenizers, scales
//! ```
//!
//! [`session`] builds a session from [`args`]. [`prepare`] brings a text to frames that can run: it
//! plans ([`statement`]), keeps the [`order`] of rows, checks what is read and written ([`folders`],
//! [`writes`], [`spill_folders`]), counts tables in memory ([`tables`]) against the [`limits`], and
//! looks for probable mistakes ([`warnings`], [`tokenizers`], [`scales`], [`nan`]). [`errors`] turns an error into
//! one line and a hint ([`hints`], [`meanings`]). [`analyze`] explains the time of a plan that has run
//! ([`phases`], [`summary`]); [`progress`] tells how far it is; [`table`] lays out rows, without
//! characters that a terminal would obey ([`escape`]). [`verbs`] writes the statements of whole jobs over tables, [`report`] a page
//! to review their pairs.
//!
//! Programs in other languages open a [`host::Host`]. The other modules serve the command line, and
//! change without notice.

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]
#![warn(missing_docs, unreachable_pub)]

pub mod analyze;
pub mod args;
pub mod cells;
#[cfg(feature = "ballista")]
pub mod cluster;
#[cfg(not(feature = "ballista"))]
#[path = "cluster_disabled.rs"]
pub mod cluster;
pub mod errors;
pub mod escape;
pub mod folders;
pub mod hints;
pub mod host;
pub mod limits;
pub mod meanings;
pub mod nan;
pub mod operator;
pub mod order;
pub mod phases;
pub mod prepare;
pub mod progress;
pub mod reads;
pub mod report;
mod runtime;
pub mod scales;
pub mod session;
pub mod size;
pub mod spill_folders;
pub mod statement;
pub mod summary;
pub mod table;
pub mod tables;
pub mod threads;
pub mod tokenizers;
pub mod verbs;
pub mod warnings;
pub mod writes;
