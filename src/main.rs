//! The `simjoin` command line; see [`datafusion_simjoin::cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    datafusion_simjoin::cli::run()
}
