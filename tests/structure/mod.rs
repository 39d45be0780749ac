//! The structure of the source of a crate: which folders and modules use which.
//!
//! Each crate of the workspace has the tests of its own structure, which use this.

pub mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The code of a file without comments and its tests.
pub fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that `code` names behind `parent` (such as `crate::`), one by one or in braces.
pub fn used(code: &str, parent: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |text: &str| {
        let name = |c: &char| c.is_alphanumeric() || *c == '_';
        names.insert(text.trim_start().chars().take_while(name).collect::<String>())
    };
    for rest in code.split(parent).skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            add(rest);
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (place, c) in list.char_indices() {
            match c {
                '}' if depth == 0 => {
                    add(&list[start..place]);
                    break;
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    add(&list[start..place]);
                    start = place + 1;
                }
                _ => {}
            }
        }
    }
    names
}

/// The name of a file or folder as a module.
pub fn module_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The file with the modules of a folder: `mod.rs`, or `lib.rs` of a crate.
fn root_of(folder: &Path) -> PathBuf {
    let root = folder.join("lib.rs");
    if root.exists() { root } else { folder.join("mod.rs") }
}

/// The modules of a folder, and by each name that its `mod.rs` gives out the module that it comes from.
pub fn modules(folder: &Path) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| module_of(&entry.unwrap().path()));
    let modules: BTreeSet<String> =
        entries.filter(|name| !["lib", "mod", "tests"].contains(&name.as_str())).collect();
    let code = code(&root_of(folder));
    let mut given = BTreeMap::new();
    for statement in code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let statement = statement.trim_start_matches("self::");
        let Some((module, names)) = statement.split_once("::") else { continue };
        if modules.contains(module) {
            let words = names.split(|c: char| !c.is_alphanumeric() && c != '_');
            given.extend(words.map(|word| (word.to_string(), module.to_string())));
        }
    }
    (modules, given)
}

/// The modules of a folder of `src` that each of them uses, itself or by way of others.
pub fn reach(src: &Path, folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = src.join(folder);
    let parent = match folder {
        "" => "crate::".to_string(),
        folder => format!("crate::{}::", folder.replace('/', "::")),
    };
    let (modules, given) = modules(&root);
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut all = vec![];
    files(&root, &mut all);
    for path in all {
        let within: Vec<String> =
            path.strip_prefix(&root).unwrap().iter().map(|part| module_of(part.as_ref())).collect();
        if within.iter().any(|part| part == "tests") || within == ["mod"] || within == ["lib"] {
            continue;
        }
        let code = code(&path);
        let mut names = used(&code, &parent);
        if within.len() == 1 || within[1..] == ["mod"] {
            names.extend(used(&code, "super::"));
        }
        let resolve = |name: String| match modules.contains(&name) {
            true => Some(name),
            false => given.get(&name).cloned(),
        };
        uses.entry(within[0].clone()).or_default().extend(names.into_iter().filter_map(resolve));
    }
    loop {
        let before: usize = uses.values().map(BTreeSet::len).sum();
        let known = uses.clone();
        for others in uses.values_mut() {
            let further = others.iter().filter_map(|other| known.get(other)).flatten().cloned();
            *others = further.chain(others.iter().cloned()).collect();
        }
        if before == uses.values().map(BTreeSet::len).sum::<usize>() {
            return uses;
        }
    }
}

/// The folders of `src` with modules of their own, by their paths, without tests.
pub fn folders(src: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(src.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = module_of(&path);
        if path.is_dir() && name != "tests" {
            let inner = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            found.push(inner.clone());
            folders(src, &inner, found);
        }
    }
}

/// Asserts that the modules inside of a crate and of its folders depend on each other in one direction, but for the rings of
/// `known`, each of a folder with its size, and that there are more than `least` folders.
pub fn assert_rings(src: &Path, known: &[(&str, usize)], least: usize) {
    let mut all = vec![];
    folders(src, "", &mut all);
    all.retain(|folder| src.join(folder).join("mod.rs").exists());
    all.push(String::new());
    let mut wrong = vec![];
    for folder in &all {
        let ringed = known.iter().find(|(ringed, _)| ringed == folder);
        let most = ringed.map_or(1, |(_, most)| *most);
        let reach = reach(src, folder);
        let ring = |module: &String| -> Vec<String> {
            let back = |other: &&String| reach.get(*other).is_some_and(|far| far.contains(module));
            let far = reach[module].iter().filter(back).filter(|other| *other != module);
            far.chain([module]).cloned().collect()
        };
        let greatest = reach.keys().map(ring).max_by_key(Vec::len).unwrap_or_default();
        if greatest.len().max(1) != most {
            wrong.push(format!("{folder}: {} instead of {most}: {greatest:?}", greatest.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() > least, "{} folders", all.len());
}

/// Asserts that each folder of `src` uses those alone that `allowed` has for it, and these all. `below` are
/// the folders of other crates, which are named as if they were this crate's.
pub fn assert_directions(src: &Path, allowed: &[(&str, &[&str])], below: &[&str]) {
    let mut all = vec![];
    files(src, &mut all);
    let of_folder: BTreeMap<_, _> = allowed.iter().copied().collect();
    let mut wrong = vec![];
    let mut met = BTreeSet::new();
    let mut arrows = BTreeSet::new();
    for path in all {
        let within = path.strip_prefix(src).unwrap();
        let is_test = within.components().any(|part| {
            let name = part.as_os_str().to_string_lossy();
            name == "tests" || name == "tests.rs"
        });
        let first = within.components().next().unwrap().as_os_str().to_string_lossy();
        let folder = first.trim_end_matches(".rs").to_string();
        if is_test || ["lib", "main", "structure_tests"].contains(&folder.as_str()) {
            continue;
        }
        let Some(may_use) = of_folder.get(folder.as_str()) else {
            wrong.push(format!("{folder} has no line in this test"));
            continue;
        };
        for other in used(&code(&path), "crate::") {
            // Items of the root are of the public interface.
            let is_folder =
                of_folder.contains_key(other.as_str()) || below.contains(&other.as_str());
            if !is_folder || other == folder {
                continue;
            }
            if !may_use.contains(&other.as_str()) {
                wrong.push(format!("{} uses {other}", within.display()));
            }
            arrows.insert((folder.clone(), other));
        }
        met.insert(folder);
    }
    for (folder, others) in allowed {
        let unused =
            others.iter().filter(|o| !arrows.contains(&(folder.to_string(), o.to_string())));
        wrong.extend(unused.map(|other| format!("{folder} uses {other} no longer")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<String> = allowed.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(met, known, "a folder is gone");
}

/// Asserts that no file of some folders names what only the family of sets has, and that there are more than
/// `least` files.
pub fn assert_no_tokens(src: &Path, folders: &[&str], least: usize) {
    let (mut wrong, mut read) = (vec![], 0);
    for folder in folders {
        let mut all = vec![];
        files(&src.join(folder), &mut all);
        for path in all {
            let within = path.strip_prefix(src).unwrap();
            if within.to_string_lossy().contains("tests") {
                continue;
            }
            read += 1;
            let code = code(&path);
            // The example of an error message names a function of a family.
            let lines = code.lines().filter(|line| !line.contains("const EXAMPLE: &str ="));
            let words =
                lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
            // A module below the boundary.
            let known = ["byte_tokens"];
            let of_sets = |word: &&str| {
                let lower = word.to_lowercase();
                let names = ["token", "jaccard", "overlap", "setcollection"];
                !known.contains(word) && names.iter().any(|name| lower.contains(name))
            };
            for word in words.filter(of_sets) {
                wrong.push(format!("{}: {word}", within.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > least, "{read} files");
}

#[test]
fn names_in_braces_are_found() {
    let code = "use crate::{a::{b, c}, d};\nlet x = crate::e::f();";
    let names: Vec<_> = used(code, "crate::").into_iter().collect();
    assert_eq!(names, ["a", "d", "e"]);
}
