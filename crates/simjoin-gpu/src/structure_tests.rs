//! The directions in which the folders of the crate depend on each other and on those of `simjoin-core`.

use std::path::{Path, PathBuf};

use crate::structure::modules::{assert_order, assert_rings_of_files};
use crate::structure::{assert_directions, assert_rings};

/// The folders of `simjoin-core`.
const BELOW: [&str; 5] = ["engine", "error", "memory", "tuning", "util"];

/// The folders that each folder may use.
const ALLOWED: [(&str, &[&str]); 5] = [
    ("offload", &["engine", "error", "memory", "runtime", "tuning", "util"]),
    ("runtime", &["error", "util"]),
    ("set", &["engine", "error", "memory", "offload", "runtime", "util"]),
    ("string", &["engine", "error", "memory", "offload", "runtime", "util"]),
    ("vector", &["engine", "error", "memory", "offload", "runtime", "tuning", "util"]),
];

/// The modules of `set`; each may use those that stand before it.
const WITHIN_SET: [&str; 6] = ["device", "offload", "bitmap", "bwjoin", "scancount", "strategies"];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn folders_depend_on_each_other_in_one_direction() {
    assert_directions(&src(), &ALLOWED, &BELOW);
}

#[test]
fn no_folder_has_a_ring() {
    assert_rings(&src(), &[], 4);
}

#[test]
fn no_family_has_a_ring_of_files() {
    for family in ["set", "vector"] {
        assert_rings_of_files(&src(), family, 0);
    }
}

/// Strategies stand above what they share.
#[test]
fn modules_of_sets_depend_on_earlier_ones() {
    assert_order(&src(), "set", &WITHIN_SET);
}
