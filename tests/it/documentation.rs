//! The README and the manual: their statements and commands run, their links lead somewhere, and
//! they name every function.

use std::fs;
use std::path::Path;

use datafusion_simjoin::functions;
use datafusion_simjoin::internals::set::Measure;

use crate::cli::run;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// Every page, by its path in the repository.
fn pages() -> Vec<String> {
    let manual = fs::read_dir(root().join("docs")).expect("docs").map(|entry| {
        let name = entry.expect("an entry").file_name();
        format!("docs/{}", name.to_str().expect("text"))
    });
    let others = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "README.md",
        "benches/README.md",
        "benches/runs/README.md",
    ];
    let all = manual.chain(jobs()).chain(others.map(str::to_string));
    all.filter(|page| page.ends_with(".md")).collect()
}

/// The pages per job.
fn jobs() -> Vec<String> {
    let mut pages: Vec<String> = fs::read_dir(root().join("docs/jobs"))
        .expect("docs/jobs")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .map(|name| format!("docs/jobs/{name}"))
        .collect();
    pages.sort();
    assert!(pages.len() > 7, "{pages:?}");
    pages
}

/// The code blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = read(page);
    let fence = format!("```{language}");
    let mut found = vec![];
    let mut lines = text.lines();
    while lines.any(|line| line == fence) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.push(block.join("\n"));
    }
    found
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 160, "{lines} lines: what is more belongs into docs");
}

/// The first screen shows what the command prints.
#[test]
fn the_readme_shows_what_a_verb_prints() {
    let shown = blocks("README.md", "text");
    let [shown] = shown.as_slice() else { panic!("{shown:?}") };
    let (command, printed) = shown.split_once('\n').expect("a command and its output");
    let command = command.strip_prefix("$ simjoin ").expect("a command");
    let words: Vec<&str> = command.split(' ').chain(["-q"]).collect();
    let ran = run(root(), &words);
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out.trim_end(), printed);
}

#[test]
fn the_manual_names_every_function() {
    let page = read("docs/sql.md");
    let scalars = functions::all().into_iter();
    let scalars = scalars.flat_map(|f| [&[f.name().to_string()], f.aliases()].concat());
    let windows = functions::windows().into_iter();
    let windows = windows.flat_map(|f| [&[f.name().to_string()], f.aliases()].concat());
    for name in scalars.chain(windows) {
        let quoted = [format!("`{name}`"), format!("`{name}(")];
        assert!(quoted.iter().any(|name| page.contains(name)), "docs/sql.md lacks {name}");
    }
    let readme = read("README.md");
    for measure in Measure::ALL {
        assert!(readme.contains(&format!("`{}`", measure.name())), "README.md lacks {measure:?}");
    }
}

/// The blocks of a page are one script.
#[test]
fn statements_of_the_documentation_run() {
    fs::create_dir_all(root().join("target")).expect("a folder for output");
    let mut tables = 0;
    for page in ["README.md", "docs/results.md", "docs/sql.md"] {
        let statements = blocks(page, "sql");
        assert!(statements.len() >= 3, "{page}: {statements:?}");
        let ran = run(root(), &["-q", "-c", &statements.join("\n")]);
        // A page may show rows with NaN, which a note tells of.
        let is_expected = |line: &str| line.is_empty() || line.starts_with("Note: 1 row has NaN");
        assert!(ran.ok && ran.err.lines().all(is_expected), "{page}: {}", ran.err);
        for table in blocks(page, "text").iter().filter(|block| block.starts_with("+--")) {
            assert!(ran.out.contains(table), "{page} shows\n{table}\nbut prints\n{}", ran.out);
            tables += 1;
        }
    }
    assert!(tables >= 1, "no table was compared");
}

/// The page states wrong answers of DataFusion, and how they become right.
#[test]
fn the_wrong_answers_of_the_limits_are_as_stated() {
    let limits = blocks("docs/limits.md", "sql");
    let [right_join, not_in] = limits.as_slice() else { panic!("{limits:?}") };
    let setting = "SET datafusion.optimizer.join_reordering = false";
    assert!(right_join.contains("-- 0, should be 5") && read("docs/limits.md").contains(setting));
    assert!(not_in.contains("-- no row, should be 2"));
    let nulls = "WHERE b.id";
    assert!(not_in.contains(nulls));
    let without_nulls = not_in.replace(nulls, "WHERE b.k IS NOT NULL AND b.id");
    for (statements, answer) in [
        (right_join.clone(), "0"),
        (format!("{setting};\n{right_join}"), "5"),
        (not_in.clone(), "id"),
        (without_nulls, "2"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &statements]);
        assert!(ran.ok, "{}", ran.err);
        assert_eq!(ran.out.lines().last().unwrap_or("id"), answer, "{}", ran.out);
    }
}

/// The targets of the links and images of a text, code left out.
fn links(text: &str) -> Vec<String> {
    let mut in_code = false;
    let prose = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    let prose: Vec<&str> = prose.collect();
    let prose = prose.join("\n");
    let targets = prose.split("](").skip(1);
    targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_string())).collect()
}

/// The anchors of a page's headings, as GitHub names them.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut broken = vec![];
    let mut checked = 0;
    for page in pages() {
        let here = root().join(&page);
        let folder = here.parent().expect("a folder").to_path_buf();
        for link in links(&read(&page)).iter().filter(|link| !link.contains("://")) {
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { here.clone() } else { folder.join(file) };
            let known = target.exists()
                && (anchor.is_empty() || anchors(&target).iter().any(|known| known == anchor));
            if !known {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(checked > 50 && broken.is_empty(), "{checked} links, of which {broken:?}");
}

/// The blocks of shell commands, in a folder with the files that they read.
#[cfg(unix)]
mod commands {
    use std::path::Path;
    use std::process::Command;

    use tempfile::TempDir;

    use crate::cli::{run, simjoin};

    /// The files that the commands of the manual read.
    fn folder_of_commands() -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let sets = "SELECT value AS id, [value % 5, value % 7, value % 11] AS tokens \
                    FROM generate_series(1, 500)";
        for file in ["docs.parquet", "big.parquet", "part-1.csv"] {
            let columns = if file.ends_with("csv") { "id" } else { "*" };
            let sql = format!("COPY (SELECT {columns} FROM ({sets})) TO '{file}'");
            let ran = run(folder.path(), &["-q", "-c", &sql]);
            assert!(ran.ok, "{file}: {}", ran.err);
        }
        let names = "COPY (SELECT value AS id, concat('name', value % 50) AS name \
                     FROM generate_series(1, 100)) TO 'names.csv.gz' STORED AS CSV \
                     OPTIONS ('format.compression' 'gzip')";
        let ran = run(folder.path(), &["-q", "-c", names]);
        assert!(ran.ok, "{}", ran.err);
        folder
    }

    /// Commands of clusters are tested with processes of their own, commands of the build by CI.
    #[test]
    fn commands_of_the_documentation_run() {
        let folder = folder_of_commands();
        let command = simjoin(folder.path());
        let binary = Path::new(command.get_program());
        let binaries = binary.parent().expect("a folder").to_path_buf();
        let found = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&found)));
        let path = path.expect("a path");
        for (page, commands) in [("docs/memory.md", 1), ("docs/command-line.md", 3)] {
            let blocks = super::blocks(page, "sh");
            assert_eq!(blocks.len(), commands, "{page}: {blocks:?}");
            for block in blocks {
                let mut shell = Command::new("sh");
                shell.current_dir(folder.path()).args(["-ec", &block]).env("PATH", &path);
                let ran = shell.output().expect("a shell");
                let told = String::from_utf8_lossy(&ran.stderr).into_owned();
                assert!(ran.status.success() && told.is_empty(), "{page}: {block}: {told}");
            }
        }
        // These read the files of the repository, and write below `target`.
        let verbs = super::blocks("docs/verbs.md", "sh");
        assert_eq!(verbs.len(), 3, "{verbs:?}");
        for block in verbs {
            let mut shell = Command::new("sh");
            shell.current_dir(super::root()).args(["-ec", &block]).env("PATH", &path);
            let ran = shell.output().expect("a shell");
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(ran.status.success() && !told.contains("Error"), "{block}: {told}");
        }
        for page in super::jobs() {
            let blocks = super::blocks(&page, "sh");
            assert!(!blocks.is_empty() || page.ends_with("README.md"), "{page}");
            for block in blocks {
                let mut shell = Command::new("sh");
                shell.current_dir(super::root()).args(["-ec", &block]).env("PATH", &path);
                let ran = shell.output().expect("a shell");
                let told = String::from_utf8_lossy(&ran.stderr).into_owned();
                assert!(ran.status.success() && !told.contains("Error"), "{page}: {block}: {told}");
            }
            let statements = super::blocks(&page, "sql").join("\n");
            if !statements.is_empty() {
                let ran = run(super::root(), &["-q", "-c", &statements]);
                assert!(ran.ok && !ran.err.contains("Error"), "{page}: {}", ran.err);
            }
        }
        let pairs = run(folder.path(), &["-q", "-c", "SELECT score FROM 'pairs.parquet' LIMIT 1"]);
        assert!(pairs.ok && pairs.out.contains("score"), "{}", pairs.err);
    }
}
