//! Clusters of real processes on this machine: a scheduler and executors of the program `simjoin`,
//! with statements sent to them from here and from its command line.
//!
//! The oracle and the random joins are those of the other tests: a nested loop that shares no code
//! with the crate. Nothing here measures time.

#[path = "../it/case.rs"]
#[allow(dead_code)]
mod case;
#[path = "../it/cases.rs"]
mod cases;
#[path = "../it/forms.rs"]
#[allow(dead_code)]
mod forms;
#[path = "../it/lists.rs"]
#[allow(dead_code)]
mod lists;
#[path = "../it/oracle.rs"]
#[allow(dead_code)]
mod oracle;
#[path = "../it/program.rs"]
mod program;
#[path = "../it/stages.rs"]
#[allow(dead_code)]
mod stages;
#[path = "../it/support.rs"]
#[allow(dead_code)]
mod support;

mod access;
mod answers;
mod changed_files;
mod command_line;
mod control;
mod data_dirs;
mod faults;
mod matches;
mod operation;
mod processes;
