//! The machine of a run.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use datafusion::common::Result;
use datafusion_simjoin::internals::set::rates::{scan_rate, test_rate};

use crate::engine::default_simd;

/// Writes machine.txt beside the figures of a run: processor, cores, memory, commit.
pub fn describe(folder: &Path) -> Result<()> {
    let mut text = String::new();
    // Those of the machine, even where this process is tied to some of them.
    let cores = match std::fs::read_to_string("/proc/cpuinfo") {
        Ok(text) => text.lines().filter(|line| line.starts_with("processor")).count(),
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let line_of = |file: &str, name: &str| -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        }
    };
    note("architecture", Some(std::env::consts::ARCH.to_string()));
    note("processor", line_of("/proc/cpuinfo", "model name"));
    note("family", line_of("/proc/cpuinfo", "cpu family"));
    note("model", line_of("/proc/cpuinfo", "model\t"));
    note("cores", Some(cores.to_string()));
    note("memory", line_of("/proc/meminfo", "MemTotal"));
    note(
        "GPU",
        output("nvidia-smi", &["--query-gpu=name,driver_version", "--format=csv,noheader"]),
    );
    note("vectors", Some(vectors().join(" ")));
    let (simd, usual) = (default_simd(), Default::default());
    let (tests, scans) = (test_rate(simd, usual), scan_rate(simd, usual));
    note("rates", Some(format!("tests {tests:.2}, scans {scans:.2}")));
    note("date", output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]));
    note("commit", output("git", &["describe", "--always", "--dirty"]));
    note("rustc", output("rustc", &["--version"]));
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("machine.txt"), text)?;
    Ok(())
}

/// The processor time of this process so far, of all its threads, in seconds; `None` where the
/// system has no such clock.
pub fn processor_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes a timespec to the pointer, which is that of a live one.
        let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        (status == 0).then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
    }
    #[cfg(not(unix))]
    {
        None
    }
}

/// The processor time since an earlier one.
pub fn processor_seconds_since(start: Option<f64>) -> Option<f64> {
    processor_seconds().zip(start).map(|(end, start)| end - start)
}

fn vectors() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let features = [
            ("popcnt", is_x86_feature_detected!("popcnt")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512vpopcntdq", is_x86_feature_detected!("avx512vpopcntdq")),
        ];
        features.into_iter().filter(|f| f.1).map(|f| f.0).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        vec![]
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}
