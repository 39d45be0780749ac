//! Which devices can be opened. Each case is a process of its own, for a process loads one driver
//! and asks it once.

use std::process::Command;
use std::time::Duration;

use crate::runtime::tests::*;

/// Names the device that a child process opens, if this is one.
const CHILD: &str = "SIMJOIN_TEST_OPEN";

/// Set for a child process that measures its devices.
const TIMED: &str = "SIMJOIN_TEST_TIMED";

/// Not a test: the child process of the others.
#[test]
fn child() {
    let Some(ordinal) = std::env::var_os(CHILD) else { return };
    let ordinal = ordinal.to_str().unwrap().parse().unwrap();
    let opened = Device::open(ordinal).and_then(|device| device.load(&FILL).map(|()| device));
    match opened {
        Ok(device) => println!("<<opened {} {:?}>>", device.name(), device.capability()),
        Err(error) => println!("<<{error}>>"),
    }
}

/// Not a test either: tells whether the times until devices begin are the expected or measured ones.
#[test]
fn timed_child() {
    if std::env::var_os(TIMED).is_none() {
        return;
    }
    let expected = Some(Duration::from_millis(300));
    let before = Device::time_to_begin(0) == expected;
    let device = Device::open(0).unwrap();
    device.load(&FILL).unwrap();
    drop(device.pinned(1 << 20).unwrap());
    let [open, other] = [0, 1].map(|ordinal| Device::time_to_begin(ordinal).unwrap());
    Device::close(0);
    let closed = Device::time_to_begin(0).unwrap();
    let none_is_free = open >= Duration::from_millis(1);
    let opening_counts = open <= other && other == closed && Some(other) != expected;
    println!("<<{before} {none_is_free} {opening_counts}>>");
}

/// The words of a process that opens a device on the emulator, set up by `environment`.
fn outcome(ordinal: u32, library: Option<&str>, environment: &[(&str, &str)]) -> String {
    told_by("child", library, |command| {
        command.env(CHILD, ordinal.to_string()).envs(environment.iter().copied())
    })
}

/// The words of a child process.
fn told_by(
    child: &str,
    library: Option<&str>,
    set_up: impl FnOnce(&mut Command) -> &mut Command,
) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("runtime::tests::opening::{child}"), "--nocapture"]);
    set_up(&mut command);
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{messages}");
    assert!(!messages.contains("panicked"), "{messages}");
    let told = text.split_once("<<").and_then(|(_, rest)| rest.split_once(">>"));
    told.unwrap_or_else(|| panic!("{text}{messages}")).0.to_owned()
}

#[test]
fn a_machine_without_a_driver_is_an_error_and_not_a_panic() {
    // On a machine with a driver it opens or says why not; both without a panic.
    let told = outcome(0, None, &[]);
    assert!(told.starts_with("opened") || told.contains("driver"), "{told}");
}

#[test]
fn devices_that_cannot_be_used_say_why() {
    let Some(emulator) = Emulator::get() else { return };
    let library = emulator.path().parent().unwrap().to_str().unwrap();
    let told = |ordinal, environment: &[_]| outcome(ordinal, Some(library), environment);
    for (capability, shown) in [("9.0", "(9, 0)"), ("8.6", "(8, 6)"), ("7.5", "(7, 5)")] {
        let told = told(0, &[("EMULATOR_CAPABILITY", capability)]);
        assert!(told.starts_with("opened CUDA emulator") && told.contains(shown), "{told}");
    }
    // Later than any machine code: PTX.
    let later = told(1, &[("EMULATOR_CAPABILITY", "12.0")]);
    assert!(later.starts_with("opened"), "{later}");
    let early = told(0, &[("EMULATOR_CAPABILITY", "7.0")]);
    assert!(early.contains("7.0") && early.contains("7.5"), "{early}");
    let old = told(0, &[("EMULATOR_DRIVER", "12030")]);
    assert!(old.contains("12.3") && old.contains("12.4") && old.contains("550"), "{old}");
    let none = told(0, &[("EMULATOR_DEVICES", "0")]);
    assert!(none.contains("sees no CUDA device"), "{none}");
    let beyond = told(2, &[("EMULATOR_DEVICES", "2")]);
    assert!(beyond.contains("no CUDA device 2") && beyond.contains("below 2"), "{beyond}");
}

/// Before a device is opened its start is a guess; then as long as the one that was measured, also
/// for other devices.
#[test]
fn the_start_of_a_device_is_measured() {
    let Some(emulator) = Emulator::get() else { return };
    let library = emulator.path().parent().unwrap().to_str();
    let told = told_by("timed_child", library, |command| command.env(TIMED, "1"));
    assert_eq!(told, "true true true");
}
