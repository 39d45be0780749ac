//! Files that use each other, within a folder.
//!
//! A file uses those that its `use` lines and paths name. A name that a module re-exports leads to the
//! file that has the item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{code, files};

/// A path of names, from the root of the crate on.
pub type Names = Vec<String>;

/// A module with what it uses.
#[derive(Default)]
pub struct Module {
    /// Paths, and whether the module re-exports what they name.
    paths: Vec<(Names, bool)>,
}

/// The modules of a family, by their paths.
pub struct Modules(BTreeMap<Names, Module>);

pub fn names(path: &str) -> Names {
    path.split("::").map(|name| name.trim().to_string()).collect()
}

/// The paths of a `use` tree, without the names that they are renamed to.
pub fn expand(tree: &str, parent: &Names, paths: &mut Vec<Names>) {
    let tree = tree.trim();
    if let Some((head, list)) = tree.split_once('{') {
        let mut parent = parent.clone();
        parent.extend(head.split("::").map(str::trim).filter(|n| !n.is_empty()).map(String::from));
        let list = list.strip_suffix('}').unwrap_or(list);
        let (mut depth, mut start) = (0, 0);
        for (place, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&list[start..place], &parent, paths);
                    start = place + 1;
                }
                _ => {}
            }
        }
        expand(&list[start..], &parent, paths);
    } else if !tree.is_empty() {
        let path = tree.split(" as ").next().unwrap_or(tree);
        paths.push(parent.iter().cloned().chain(names(path)).collect());
    }
}

/// The `use` lines of some code, each with whether it is public, and the code without them.
pub fn split(code: &str) -> (Vec<(&str, bool)>, String) {
    let (mut lines, mut rest) = (vec![], String::new());
    for statement in code.split_inclusive(';') {
        let found = statement.rfind("use ").filter(|&place| {
            let before = &statement[..place];
            before.ends_with('\n') || before.ends_with(' ') || before.is_empty()
        });
        let tree = found.map(|place| (place, statement[place + 4..].trim_end_matches(';')));
        match tree {
            Some((place, tree)) if !statement[..place].ends_with("cfg(test)]\n") => {
                let line = statement[..place].lines().last().unwrap_or_default();
                lines.push((tree, line.trim_start().starts_with("pub")));
                rest.push_str(&statement[..place]);
            }
            Some(_) => {}
            None => rest.push_str(statement),
        }
    }
    (lines, rest)
}

impl Modules {
    /// The modules of a folder of `src` without those of tests.
    pub fn of(src: &Path, family: &str) -> Self {
        let mut all = vec![];
        files(&src.join(family), &mut all);
        let mut sources = BTreeMap::new();
        for path in all {
            let within = path.strip_prefix(src).unwrap().with_extension("");
            let mut module: Names =
                within.components().map(|c| c.as_os_str().to_string_lossy().into()).collect();
            if module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            if !module.iter().any(|name| name == "tests") {
                sources.insert(module, code(&path));
            }
        }
        let known: BTreeSet<Names> = sources.keys().cloned().collect();
        let modules = sources.into_iter().map(|(name, code)| {
            let module = Module::read(&name, &code, &known);
            (name, module)
        });
        Self(modules.collect())
    }

    /// The module that a path leads to, through re-exports; `None` outside of the family.
    fn resolve(&self, path: &[String], seen: &mut BTreeSet<Names>) -> Option<Names> {
        let len = (1..=path.len()).rev().find(|&len| self.0.contains_key(&path[..len]))?;
        let name = path[..len].to_vec();
        let Some(item) = path.get(len) else { return Some(name) };
        if seen.insert(path[..=len].to_vec()) {
            for (exported, _) in &self.0[&name].paths {
                let is_itself = exported.len() == len + 1 && exported[..len] == name[..];
                if exported.last() == Some(item)
                    && !(is_itself && self.0.contains_key(exported))
                    && let Some(found) = self.resolve(exported, seen)
                {
                    return Some(found);
                }
            }
        }
        Some(name)
    }

    /// The other modules that each one uses.
    pub fn arrows(&self) -> BTreeMap<Names, BTreeSet<Names>> {
        let arrows = self.0.iter().map(|(name, module)| {
            let own = module.paths.iter().filter(|(_, is_public)| !is_public);
            let found = own.filter_map(|(path, _)| self.resolve(path, &mut BTreeSet::new()));
            (name.clone(), found.filter(|found| found != name).collect())
        });
        arrows.collect()
    }
}

impl Module {
    fn read(name: &Names, code: &str, known: &BTreeSet<Names>) -> Self {
        let (lines, rest) = split(code);
        let mut paths = vec![];
        for (tree, is_public) in lines {
            let mut found = vec![];
            expand(&tree.split_whitespace().collect::<Vec<_>>().join(" "), &vec![], &mut found);
            paths.extend(found.into_iter().map(|path| (path, is_public)));
        }
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        for path in rest.split(|c: char| !word(c)).filter(|word| word.contains("::")) {
            paths.push((names(path), false));
        }
        let paths = paths
            .into_iter()
            .filter_map(|(path, public)| Some((absolute(name, &path, known)?, public)));
        Self { paths: paths.collect() }
    }
}

/// A path of a module from the root of the crate on; `None` where it leads to another crate.
fn absolute(module: &Names, path: &Names, known: &BTreeSet<Names>) -> Option<Names> {
    let up = path.iter().take_while(|name| *name == "super").count();
    let (parent, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "self" => (&module[..], &path[1..]),
        "super" => (&module[..module.len().checked_sub(up)?], &path[up..]),
        child => {
            let child: Names = module.iter().cloned().chain([child.to_string()]).collect();
            known.contains(&child).then_some((&module[..], &path[..]))?
        }
    };
    Some(parent.iter().chain(rest).filter(|name| *name != "self").cloned().collect())
}

/// The modules that are reached from `start`.
fn reached(arrows: &BTreeMap<Names, BTreeSet<Names>>, start: &Names) -> BTreeSet<Names> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(next) = open.pop() {
        open.extend(arrows[next].iter().filter(|used| found.insert((*used).clone())));
    }
    found
}

/// Asserts that the largest ring of files of a folder has `largest` files.
pub fn assert_rings_of_files(src: &Path, family: &str, largest: usize) {
    let arrows = Modules::of(src, family).arrows();
    assert!(arrows.len() > 20, "{family}: {} files", arrows.len());
    let reached: BTreeMap<_, _> =
        arrows.keys().map(|name| (name, reached(&arrows, name))).collect();
    let rings = arrows.keys().map(|name| {
        let ring = reached[name].iter().filter(|other| reached[other].contains(name));
        ring.map(|other| other.join("::")).collect::<Vec<_>>()
    });
    let ring = rings.max_by_key(Vec::len).unwrap_or_default();
    assert_eq!(ring.len(), largest, "the largest ring of {family}: {ring:#?}");
}

/// Asserts that the modules of a folder use those alone that stand before them in `order`.
pub fn assert_order(src: &Path, folder: &str, order: &[&str]) {
    let place = |name: &str| order.iter().position(|each| *each == name);
    let (mut wrong, mut met) = (BTreeSet::new(), BTreeSet::new());
    for (module, used) in Modules::of(src, folder).arrows() {
        let Some(own) = module.get(1) else { continue };
        let Some(at) = place(own) else {
            wrong.insert(format!("{own} has no place in this test"));
            continue;
        };
        met.insert(own.clone());
        for other in used.iter().filter_map(|used| used.get(1)).filter(|other| *other != own) {
            if place(other).is_none_or(|other| other > at) {
                wrong.insert(format!("{} uses {other}", module.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(met.len(), order.len(), "a module is gone");
}

#[test]
fn trees_of_names_are_read() {
    let (lines, rest) =
        split("use crate::{a::{b as c, d}, e};\npub(crate) use f::G;\nlet x = h::i();");
    let mut found = vec![];
    lines.iter().for_each(|(tree, _)| expand(tree, &vec![], &mut found));
    assert_eq!(found, ["crate::a::b", "crate::a::d", "crate::e", "f::G"].map(names));
    assert!(!lines[0].1 && lines[1].1 && rest.contains("h::i"));
}
