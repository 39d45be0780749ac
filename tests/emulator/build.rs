//! Compiles the emulator.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: [&str; 10] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-pthread",
    "-shared",
    "-Wl,-soname,libcuda.so",
];

/// Kernels count bits: without the instruction, each count is a call.
const INSTRUCTIONS: &[&str] = if cfg!(target_arch = "x86_64") { &["-mpopcnt"] } else { &[] };

/// The library, compiled unless an earlier run did; or why it cannot be.
///
/// # Panics
///
/// When the sources do not compile, or without a message of the compiler's.
pub fn library() -> Result<PathBuf, String> {
    if !cfg!(target_os = "linux") {
        return Err("the emulator runs on Linux".into());
    }
    let sources = sources().expect("the kernels' sources are readable");
    let executable = env::current_exe().expect("the test's executable has a path");
    let folder = executable.parent().expect("an executable is in a folder");
    let mut hasher = DefaultHasher::new();
    (&sources, FLAGS, INSTRUCTIONS, env::var_os("CXX")).hash(&mut hasher);
    let folder = folder.join(format!("cuda-emulator-{:016x}", hasher.finish()));
    let library = folder.join("libcuda.so");
    if library.exists() {
        return Ok(library);
    }
    fs::create_dir_all(&folder).expect("the build folder is writable");
    // Other processes may build at the same time: readers see a whole file of either.
    let unfinished = folder.join(format!("libcuda.so.{}", std::process::id()));
    let units = sources.keys().filter(|path| path.extension().is_some_and(|name| name == "cpp"));
    let output = compiler()?
        .args(FLAGS)
        .args(INSTRUCTIONS)
        .arg("-o")
        .arg(&unfinished)
        .args(units)
        .output()
        .map_err(|error| format!("the C++ compiler does not start: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the CUDA emulator does not compile:\n{messages}");
    fs::rename(&unfinished, &library).expect("the build folder is writable");
    Ok(library)
}

/// All sources of kernels and emulator.
fn sources() -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    // The tests of a crate of the workspace lie deeper than the kernels.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut kernels = folders.map(|folder| folder.join("kernels"));
    let kernels = kernels.find(|kernels| kernels.join("emulator").is_dir());
    let kernels = kernels.ok_or_else(|| io::Error::other("there is no folder kernels"))?;
    let mut sources = BTreeMap::new();
    for folder in [kernels.clone(), kernels.join("emulator")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let kind = path.extension().and_then(|name| name.to_str()).unwrap_or_default();
            if matches!(kind, "cpp" | "h" | "cu" | "cuh") {
                sources.insert(path.clone(), fs::read(path)?);
            }
        }
    }
    Ok(sources)
}

/// The first compiler that answers.
fn compiler() -> Result<Command, String> {
    let named = env::var("CXX").ok();
    let names = match &named {
        Some(name) => vec![name.as_str()],
        None => vec!["c++", "g++", "clang++"],
    };
    for name in &names {
        // CXX may bring flags of its own.
        let mut words = name.split_whitespace();
        let Some(program) = words.next() else { continue };
        let works = Command::new(program).arg("--version").output();
        if works.is_ok_and(|output| output.status.success()) {
            let mut command = Command::new(program);
            command.args(words);
            return Ok(command);
        }
    }
    Err(format!("there is no C++ compiler ({})", names.join(", ")))
}
