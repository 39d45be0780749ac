//! The directions in which the folders of the crate depend on each other, and the rings within.
//!
//! ```text
//! set, string, vector, weighted ─► engine, simd, values
//! library ─► all of them
//! ```

use std::path::{Path, PathBuf};

use crate::structure::modules::{assert_order, assert_rings_of_files};
use crate::structure::{assert_directions, assert_no_tokens, assert_rings};

/// The folders that each folder may use.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("datafusion", &["error", "memory"]),
    ("engine", &["error", "memory", "predicate", "simd", "top", "tuning", "util", "values"]),
    ("error", &[]),
    (
        "library",
        &[
            "engine",
            "error",
            "memory",
            "predicate",
            "set",
            "simd",
            "string",
            "top",
            "tuning",
            "util",
            "values",
            "vector",
            "weighted",
        ],
    ),
    ("memory", &["error"]),
    ("predicate", &["error"]),
    ("set", &["engine", "error", "memory", "predicate", "simd", "tuning", "util", "values"]),
    ("simd", &[]),
    ("string", &["engine", "error", "memory", "predicate", "simd", "tuning", "util", "values"]),
    ("top", &["error", "memory", "predicate", "tuning"]),
    ("tuning", &[]),
    ("util", &["error", "simd", "tuning"]),
    ("values", &["error", "util"]),
    ("vector", &["engine", "error", "memory", "predicate", "simd", "tuning", "util", "values"]),
    ("weighted", &["engine", "error", "memory", "predicate", "simd", "util", "values"]),
];

/// Folders with a ring, modules that use each other round about, each with the size of its greatest one.
const RINGS: [(&str, usize); 1] = [("engine", 2)];

/// The files of the largest ring within each family.
const LARGEST: [(&str, usize); 2] = [("set", 0), ("vector", 0)];

/// The modules of `set`; each may use those that stand before it.
const WITHIN_SET: [&str; 30] = [
    "runs",
    "measure",
    "intersection",
    "axis",
    "collection",
    "join_spec",
    "candidates",
    "candidate_source",
    "verify",
    "rates",
    "filter",
    "statistics",
    "itself",
    "sample",
    "join",
    "probed",
    "encode",
    "stored",
    "shape",
    "costs",
    "candidate_join",
    "nested_loop",
    "filter_verify",
    "bitmap",
    "scancount",
    "bitsliced",
    "rising",
    "strategies",
    "matcher",
    "family",
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn folders_depend_on_each_other_in_one_direction() {
    assert_directions(&src(), &ALLOWED, &[]);
}

#[test]
fn rings_of_modules_do_not_grow() {
    assert_rings(&src(), &RINGS, 20);
}

#[test]
fn rings_of_files_do_not_grow() {
    for (family, largest) in LARGEST {
        assert_rings_of_files(&src(), family, largest);
    }
}

/// Strategies stand above what they share.
#[test]
fn modules_of_sets_depend_on_earlier_ones() {
    assert_order(&src(), "set", &WITHIN_SET);
}

/// The boundary names nothing that only one family has.
#[test]
fn the_boundary_names_no_tokens() {
    assert_no_tokens(&src(), &["engine", "predicate"], 20);
}
