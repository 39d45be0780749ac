//! The ways in which a join is run and timed.

use std::path::PathBuf;

use datafusion::common::Result;
use datafusion_simjoin::SimJoinOptions;
use datafusion_simjoin::config::StrategyName;
use datafusion_simjoin::internals::simd::Simd;

use crate::engine::{self, Joined, Request};

#[derive(Debug, clap::Args)]
pub struct Ways {
    /// Strategies
    #[arg(long, value_delimiter = ',', value_parser = engine::strategy)]
    strategies: Vec<StrategyName>,
    /// Threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Forms of the vector kernels; the fastest one when left out
    #[arg(long, value_delimiter = ',', value_parser = engine::simd,
        default_values_t = [engine::default_simd()])]
    simd: Vec<Simd>,
    /// Devices
    #[arg(long, value_parser = engine::devices, default_value = "cpu")]
    devices: engine::Devices,
    /// Runs of each point
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A point that takes longer than this is run once, in seconds
    #[arg(long, default_value_t = 10.0)]
    once_above: f64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    pub out: PathBuf,
}

impl Ways {
    /// Each strategy, those of `default` where none is named, in each form, on each number of threads
    /// and each device; each unordered pair is made once.
    ///
    /// # Errors
    ///
    /// When the environment has options that are none.
    pub fn requests(&self, default: &[StrategyName]) -> Result<Vec<Request>> {
        // Parts, buffers and blocks of a GPU are those of the environment.
        let gpu = SimJoinOptions::from_env()?.gpu();
        let strategies = if self.strategies.is_empty() { default } else { &self.strategies };
        let mut requests = vec![];
        for &strategy in strategies {
            for &simd in &self.simd {
                for &threads in &self.threads {
                    let request =
                        |&device| Request { strategy, device, threads, symmetric: true, simd, gpu };
                    requests.extend(self.devices.0.iter().map(request));
                }
            }
        }
        Ok(requests)
    }

    /// Runs a join as often as is asked for, and hands each run with its number to `write`.
    ///
    /// # Errors
    ///
    /// The errors of both functions.
    pub fn time(
        &self,
        mut join: impl FnMut() -> Result<Joined>,
        mut write: impl FnMut(usize, &Joined) -> Result<()>,
    ) -> Result<()> {
        for run in 0..self.runs.max(1) {
            let joined = join()?;
            write(run, &joined)?;
            if joined.seconds() > self.once_above {
                break;
            }
        }
        Ok(())
    }
}
