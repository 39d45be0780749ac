//! Work of a GPU. Filters: tiles of signatures by kernel, width and union. Verification: layouts and
//! sizes of blocks over a fixed stream of candidates, and the pipeline of filter, copies and kernels.

mod filter;
mod pipeline;
mod stream;
pub(crate) mod verify;

use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion_simjoin::config::{DeviceChoice, GpuOptions, LayoutChoice};
use datafusion_simjoin::internals::engine::{DeviceRequest, MatchNeed, Pairing};
use datafusion_simjoin::internals::set::{Bounds, Measure, Role};
use datafusion_simjoin::internals::set::{JoinSpec, SetCollection};
use simjoin_core::Error;
use simjoin_gpu::runtime::Device;
use simjoin_gpu::set::device::DeviceJoin;

use crate::engine;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Whole joins by tiles of signatures, for each kernel, width and union
    Filter(filter::Arguments),
    /// A fixed stream of AllPairs' candidates through the CPU's verifier and each kernel
    Verify(verify::Arguments),
    /// Whole joins by AllPairs: filter alone, and filter, copies and kernels together
    Pipeline(pipeline::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Filter(arguments) => filter::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Pipeline(arguments) => pipeline::run(arguments),
    }
}

/// Reads the name of a layout.
fn layout(name: &str) -> Result<LayoutChoice, String> {
    let fixed = LayoutChoice::ALL.into_iter().filter(|layout| *layout != LayoutChoice::Auto);
    fixed.clone().find(|layout| layout.to_string() == name).ok_or_else(|| {
        let names: Vec<String> = fixed.map(|layout| layout.to_string()).collect();
        format!("the layouts are {}", names.join(", "))
    })
}

/// A self-join, each pair once.
fn spec(measure: Measure, threshold: f64, need: MatchNeed, gpu: GpuOptions) -> JoinSpec {
    JoinSpec {
        bounds: Bounds { measure, threshold },
        probe_role: Role::First,
        pairing: Pairing::Unordered,
        need,
        nearest: None,
        candidate_chunk: 1 << 14,
        simd: engine::default_simd(),
        gpu,
        tuning: Default::default(),
    }
}

/// The join on the first device, with the sets there.
fn on_device(sets: &SetCollection, spec: &JoinSpec) -> Result<Arc<DeviceJoin>> {
    let request = DeviceRequest {
        choice: DeviceChoice::cuda(0),
        self_join: true,
        work: f64::INFINITY,
        on_failure: Arc::new(|_| {}),
    };
    let device =
        Device::open(0).map_err(|e| exec_datafusion_err!("this bench needs a GPU: {e}"))?;
    Ok(DeviceJoin::try_new(vec![device], sets, spec, &request).map_err(Error::from)?)
}
