//! The directions in which the folders of the crate depend on each other and on those of `simjoin-core`.

use std::path::{Path, PathBuf};

use crate::structure::{assert_directions, assert_rings};

/// The folders of `simjoin-core`.
const BELOW: [&str; 6] = ["engine", "error", "memory", "set", "tuning", "vector"];

/// The folders that each folder may use.
const ALLOWED: [(&str, &[&str]); 5] = [
    ("groupjoin", &["engine", "error", "memory", "set", "tuning", "verified"]),
    ("indexed", &["engine", "error", "set"]),
    ("intersection", &[]),
    ("points", &["engine", "error", "memory", "vector"]),
    ("verified", &["engine", "error", "memory", "set"]),
];

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
