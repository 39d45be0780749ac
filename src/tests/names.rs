//! One meaning a name: the names of types in the code of all crates. docs/contributing.md says what the shared
//! names mean.

use std::collections::BTreeMap;
use std::path::Path;

use crate::structure::{code, files};

/// The most types of one name. The two of a name may differ where no file names both.
const MOST: usize = 2;

/// Names with one meaning that more types have, by the number of these types. A type of another meaning gets
/// another name.
const SHARED: [(&str, usize); 14] = [
    ("CurrentUnit", 4),
    ("Launcher", 4),
    ("Places", 3),
    ("PlanLimits", 4),
    ("Planner", 4),
    ("ProbeGroup", 4),
    ("ProbeRun", 5),
    ("ProbeSet", 3),
    ("ReadRows", 3),
    ("Run", 3),
    ("Scratch", 5),
    ("Shared", 5),
    ("State", 7),
    ("Threshold", 3),
];

/// The name of the struct, enum or trait that a line declares.
fn declared(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let behind_pub = words.strip_prefix("pub").filter(|rest| rest.starts_with([' ', '(']));
    let words = match behind_pub {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => words,
    };
    let name = ["struct ", "enum ", "trait "].iter().find_map(|word| words.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
    (end > 0).then_some(&name[..end])
}

#[test]
fn few_types_share_a_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![];
    ["src", "crates", "python/src"]
        .into_iter()
        .for_each(|folder| files(&root.join(folder), &mut all));
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut read = 0;
    for path in all {
        let within = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let is_test = |part: &str| part.ends_with("tests") || part.ends_with("tests.rs");
        if within.split('/').any(|part| is_test(part) || part == "examples") {
            continue;
        }
        read += 1;
        for name in code(&path).lines().filter_map(declared) {
            types.entry(name.to_string()).or_default().push(within.clone());
        }
    }
    assert!(read > 500, "{read} files");
    let shared = BTreeMap::from(SHARED);
    let mut wrong = vec![];
    for (name, declared) in &types {
        let most = shared.get(name.as_str()).copied().unwrap_or(MOST);
        if declared.len() > most {
            wrong.push(format!("{name} is declared more than {most} times: {declared:?}"));
        }
    }
    for (name, count) in SHARED {
        let found = types.get(name).map_or(0, Vec::len);
        if found < count {
            wrong.push(format!("{name} is declared {found} times, not {count}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shared_names_are_explained() {
    let page = include_str!("../../docs/contributing.md");
    let (_, section) = page.split_once("\n## Names of types\n").expect("the section");
    let table = section.split("\n## ").next().unwrap_or_default();
    for (name, _) in SHARED {
        assert!(
            table.contains(&format!("`{name}`")),
            "docs/contributing.md says nothing of {name}"
        );
    }
}

#[test]
fn declarations_are_found() {
    let lines = [
        ("pub(in crate::set) struct Bounds<T> {", Some("Bounds")),
        ("    enum State {", Some("State")),
        ("pub trait Family: Debug {", Some("Family")),
        ("pub fn structure()", None),
        ("struct_of()", None),
    ];
    for (line, name) in lines {
        assert_eq!(declared(line), name, "{line}");
    }
}
