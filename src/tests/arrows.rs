//! The directions in which the folders of `src` depend on each other. Cargo holds the walls between this
//! crate and `simjoin-core`, whose folders these may use, and those to the crates above, whose modules are
//! looked at here as well.
//!
//! ```text
//! session ─► plan ─► exec, shuffle ─► families ─► core: engine ─► predicate
//! plan ─► nearest ─► exec;  session ─► core: set, string, vector; published
//! ```
//!
//! [`ALLOWED`] has the others: to helpers, options and functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::structure::{assert_directions, assert_no_tokens, assert_rings, code, files, used};

/// The folders of `simjoin-core`.
const BELOW: [&str; 12] = [
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
];

/// The folders that each folder may use. A folder below the boundary never uses what is above it.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("config", &["engine", "simd", "spec"]),
    ("disk", &["operator", "util"]),
    ("exec", &["config", "disk", "engine", "families", "operator", "spec", "tuning", "util"]),
    ("families", &["engine", "spec"]),
    ("functions", &["error", "set", "simd", "spec", "string", "util", "values", "vector"]),
    (
        "internals",
        &["engine", "operator", "session", "set", "shuffle", "simd", "strategies", "util"],
    ),
    (
        "nearest",
        &[
            "config", "disk", "engine", "error", "exec", "families", "memory", "operator",
            "results", "spec", "top", "tuning", "util",
        ],
    ),
    ("operator", &["error", "tuning"]),
    (
        "plan",
        &[
            "config",
            "engine",
            "exec",
            "families",
            "functions",
            "nearest",
            "results",
            "shuffle",
            "spec",
            "sql",
        ],
    ),
    ("results", &["operator", "util"]),
    (
        "session",
        &["config", "engine", "families", "functions", "plan", "set", "sql", "string", "vector"],
    ),
    ("shuffle", &["engine", "operator", "spec", "tuning"]),
    ("spec", &["predicate"]),
    ("sql", &[]),
    ("strategies", &["engine", "session"]),
];

/// The modules of `exec`; each may use those that stand before it.
const WITHIN_EXEC: [&str; 19] = [
    "cores",
    "expected",
    "hands_on",
    "input",
    "sink",
    "once",
    "layout",
    "metrics",
    "rows",
    "build_side",
    "answer",
    "build",
    "probe",
    "spill",
    "partition",
    "mode",
    "node",
    "parts",
    "read_once",
];

/// Folders with a ring, modules that use each other round about, each with the size of its greatest one. In
/// all other folders the modules use each other in one direction. A ring may only become smaller.
const RINGS: [(&str, usize); 5] = [
    ("engine", 2),
    ("exec/answer", 3),
    ("nearest", 2),
    ("plan/recognise", 2),
    ("plan/relations", 2),
];

/// Folders, each with the size of its greatest ring.
type Rings = &'static [(&'static str, usize)];

/// The crates above this one, each with its rings and less than the number of its folders.
const ABOVE: [(&str, Rings, usize); 4] = [
    ("simjoin-ballista", &[], 3),
    ("simjoin-cli", &[("", 2)], 0),
    ("simjoin-files", &[], 2),
    ("simjoin-session", &[("progress", 2)], 1),
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The source of another crate of the workspace.
fn src_of(other: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(other).join("src")
}

#[test]
fn rings_of_modules_do_not_grow() {
    assert_rings(&src(), &RINGS, 20);
    for (other, rings, least) in ABOVE {
        assert_rings(&src_of(other), rings, least);
    }
}

#[test]
fn folders_depend_on_each_other_in_one_direction() {
    assert_directions(&src(), &ALLOWED, &BELOW);
}

/// Rows flow through `exec` in one direction, and so do the uses of its modules.
#[test]
fn modules_of_the_operator_depend_on_earlier_ones() {
    let exec = src().join("exec");
    let mut all = vec![];
    files(&exec, &mut all);
    let place = |name: &str| WITHIN_EXEC.iter().position(|each| *each == name);
    let mut wrong = vec![];
    let mut met = BTreeSet::new();
    for path in all {
        let within = path.strip_prefix(&exec).unwrap();
        let first = within.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_string();
        if module == "mod" || module == "tests" {
            continue;
        }
        let code = code(&path);
        let Some(own) = place(&module) else {
            wrong.push(format!("{module} has no place in this test"));
            continue;
        };
        let parents = used(&code, "super::");
        let uses = used(&code, "crate::exec::").into_iter().chain(parents);
        for other in uses.filter(|other| place(other).is_some_and(|other| other > own)) {
            wrong.push(format!("{} uses {other}", within.display()));
        }
        met.insert(module);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(met.len(), WITHIN_EXEC.len(), "a module is gone");
}

/// The crate of what only comparisons run is known to the session alone.
#[test]
fn only_the_session_names_the_published_systems() {
    const CRATE: &str = concat!("simjoin", "_published");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![];
    ["src", "crates", "python/src"]
        .into_iter()
        .for_each(|folder| files(&root.join(folder), &mut all));
    let own = root.join("crates/simjoin-published");
    all.retain(|path| !path.starts_with(&own));
    assert!(all.len() > 500, "{} files", all.len());
    all.retain(|path| fs::read_to_string(path).unwrap().contains(CRATE));
    assert_eq!(all, [src().join("session.rs")]);
}

/// What tests make small travels as a value.
#[test]
fn no_decision_hangs_on_whether_a_test_runs() {
    const SWITCH: &str = concat!("cfg!", "(test)");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![];
    ["src", "crates", "python/src"]
        .into_iter()
        .for_each(|folder| files(&root.join(folder), &mut all));
    all.retain(|path| fs::read_to_string(path).unwrap().contains(SWITCH));
    assert!(all.is_empty(), "{all:?}");
}

/// No folder above the boundary names what only one family has.
#[test]
fn nothing_above_the_boundary_names_tokens() {
    assert_no_tokens(&src(), &["spec", "exec", "shuffle", "plan"], 50);
    assert_no_tokens(&src_of("simjoin-ballista"), &[""], 20);
}
