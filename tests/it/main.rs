//! Everything the crate promises, tried from outside: through SQL, through the Rust API and
//! through the `simjoin` binary.
//!
//! [`oracle`] is the only truth. It is a nested loop over plain Rust rows that shares no code
//! with the crate, as [`vector_oracle`] does for the functions over vectors; [`support`] turns such rows into Arrow tables and answers back into lines.

#[cfg(unix)]
#[path = "../emulator/mod.rs"]
mod emulator;
mod forms;
mod oracle;
mod vector_oracle;

mod case;
mod cases;
mod lists;
mod program;
mod stages;
mod support;

mod bad_input;
mod cli;
mod cli_copy;
mod cli_deep;
mod cli_errors;
mod cli_files;
mod cli_float_bounds;
mod cli_limits;
mod cli_order;
#[cfg(unix)]
mod cli_pipes;
#[cfg(unix)]
mod cli_prompt;
mod cli_review;
mod cli_scripts;
#[cfg(unix)]
mod cli_signals;
mod cli_terminal;
mod cli_text_files;
mod cli_verbs;
mod cli_weighted_verbs;
mod cluster;
mod counts;
mod data;
mod dictionaries;
mod differential;
mod distinct_from;
mod documentation;
mod empty_inputs;
mod equal_answers;
mod examples;
mod expected_rows;
mod functions;
mod fuzz;
#[cfg(unix)]
mod gpu;
#[cfg(unix)]
mod gpu_chunks;
#[cfg(unix)]
mod gpu_emulator;
#[cfg(unix)]
mod gpu_faults;
#[cfg(unix)]
mod gpu_kernels;
mod joins;
mod limits;
mod memory_limits;
mod names;
mod nearest;
mod not_in;
mod options;
mod phases;
mod plans;
mod plans_declined;
mod prepared;
mod properties;
#[cfg(unix)]
mod pty;
mod results;
mod results_fused;
mod results_memory;
mod results_nodes;
mod results_written;
mod row_orders;
mod scores;
mod self_joins;
mod slt;
mod spill;
mod spill_faults;
mod strategies;
mod texts;
mod thresholds;
mod vectors;
