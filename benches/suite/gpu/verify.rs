//! Joins that verify the same candidates on the CPU and on a GPU.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use datafusion_simjoin::config::{GpuOptions, LayoutChoice};
use datafusion_simjoin::internals::engine::{
    Funnel, MatchBuffer, MatchNeed, PreparedJoin, ProbeUnit, Progress,
};
use datafusion_simjoin::internals::set::{CandidateJoin, JoinSpec, Measure, SetCollection};
use simjoin_gpu::set::device::DeviceJoin;
use simjoin_published::verified::verified_on_devices;

use super::stream::{Filter, Replay, Stream, Touched};
use crate::csv::CsvWriter;
use crate::data::{self, DataOptions};
use crate::{engine, machine};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    #[arg(long, value_delimiter = ',', default_values_t = [0.8])]
    thresholds: Vec<f64>,
    #[arg(long, value_parser = engine::measure, default_value_t = Measure::Jaccard)]
    measure: Measure,
    /// The filter that makes the candidates
    #[arg(long, value_enum, default_value_t = Filter::Allpairs)]
    filter: Filter,
    /// Candidates, at most
    #[arg(long, default_value_t = 100_000_000)]
    candidates: u64,
    /// Threads that fill chunks, and on which the CPU verifies
    #[arg(long, default_value_t = 16)]
    threads: usize,
    #[arg(long, value_delimiter = ',', value_parser = super::layout)]
    layouts: Vec<LayoutChoice>,
    #[arg(long, value_delimiter = ',', default_values_t = [32, 64, 128, 256])]
    blocks: Vec<u32>,
    /// Also with exact overlaps, and in the counting form
    #[arg(long)]
    needs: bool,
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A kernel that takes longer than this is run once, in seconds
    #[arg(long, default_value_t = 2.0)]
    once_above: f64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// `seconds`: wall time of the whole stream, packing and transfers included; on the CPU of all
/// threads. `kernel_seconds`: in kernels. `touched_bytes`: tokens that a merge reads until the
/// decision.
const HEADER: &str = "data,filter,measure,threshold,need,layout,block,candidates,groups,matches,threads,\
                      seconds,kernel_seconds,copy_seconds,bytes_to,bytes_from,touched_bytes,\
                      pairs_per_second,touched_bytes_per_second";

/// Runs all points and appends them to verify.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("verify.csv"), HEADER)?;
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        let encoded = data::encode(&set.name, &set.read()?, arguments.threads)?;
        for &threshold in &arguments.thresholds {
            let base =
                super::spec(arguments.measure, threshold, MatchNeed::Pairs, GpuOptions::default());
            let stream = Arc::new(Stream::collect(
                &encoded.sets,
                &base,
                arguments.filter,
                arguments.threads,
                arguments.candidates,
            )?);
            let needs: &[MatchNeed] = match arguments.needs {
                true => &[MatchNeed::Pairs, MatchNeed::Scores, MatchNeed::Count],
                false => &[MatchNeed::Pairs],
            };
            for &need in needs {
                let point =
                    Point { arguments, name: &encoded.name, sets: &encoded.sets, threshold, need };
                point.run(stream.threads.len(), &stream, &mut csv)?;
            }
        }
    }
    Ok(())
}

struct Point<'a> {
    arguments: &'a Arguments,
    name: &'a str,
    sets: &'a Arc<SetCollection>,
    threshold: f64,
    need: MatchNeed,
}

/// The outcome of the stream.
struct Taken {
    seconds: f64,
    funnel: Funnel,
}

impl Point<'_> {
    fn run(&self, threads: usize, stream: &Arc<Stream>, csv: &mut CsvWriter) -> Result<()> {
        let exact = self.need == MatchNeed::Scores;
        let touched = stream.touched(self.sets, exact)?;
        let mut spec =
            super::spec(self.arguments.measure, self.threshold, self.need, GpuOptions::default());
        let cpu = self.median(|| self.verify(threads, stream, None, spec))?;
        self.write(csv, "cpu", 0, stream, &touched, &cpu)?;
        let mut points = vec![(LayoutChoice::Auto, None)];
        for &layout in self.arguments.layouts.iter() {
            points.extend(self.arguments.blocks.iter().map(|&block| (layout, Some(block))));
        }
        for (layout, block) in points {
            spec.gpu = GpuOptions { layout, block_size: block, ..GpuOptions::default() };
            let join = super::on_device(self.sets, &spec)?;
            let taken = self.median(|| self.verify(threads, stream, Some(&join), spec))?;
            if taken.funnel.matches != cpu.funnel.matches {
                return exec_err!(
                    "{layout} in blocks of {block:?} finds {} matches of {}, the CPU {}",
                    taken.funnel.matches,
                    self.name,
                    cpu.funnel.matches
                );
            }
            let name = layout.to_string();
            self.write(csv, &name, block.unwrap_or(0), stream, &touched, &taken)?;
        }
        Ok(())
    }

    /// The run of median time.
    fn median(&self, mut run: impl FnMut() -> Result<Taken>) -> Result<Taken> {
        let mut taken = vec![run()?];
        while taken.len() < self.arguments.runs && taken[0].seconds < self.arguments.once_above {
            taken.push(run()?);
        }
        taken.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(taken.swap_remove(taken.len() / 2))
    }

    /// The stream through the cursors of a join, one on each thread.
    fn verify(
        &self,
        threads: usize,
        stream: &Arc<Stream>,
        device: Option<&Arc<DeviceJoin>>,
        spec: JoinSpec,
    ) -> Result<Taken> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let reservation = MemoryConsumer::new("verify").register(&pool);
        let replay = Arc::new(Replay::new(stream));
        let join = CandidateJoin::new(Arc::clone(self.sets), spec, replay);
        let join: Arc<dyn PreparedJoin> = match device {
            Some(device) => verified_on_devices(join, device, &reservation)?,
            None => Arc::new(join),
        };
        let start = Instant::now();
        let parts = data::on_threads(threads, || {
            let mut cursor = join.open(&reservation)?;
            // Any range will do; its sets are matches of themselves.
            let items = Arc::clone(self.sets) as _;
            cursor.feed(ProbeUnit::new(0, items, 0..1))?;
            cursor.finish();
            let mut matches = MatchBuffer::new(1 << 14);
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            let mut cx = Context::from_waker(&waker);
            loop {
                match cursor.poll(&mut cx, &mut matches) {
                    Poll::Ready(progress) => {
                        matches.clear();
                        if progress? == Progress::Ended {
                            return Ok(cursor.funnel());
                        }
                    }
                    Poll::Pending => std::thread::park(),
                }
            }
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let mut funnel = Funnel::default();
        parts.iter().for_each(|part| engine::add(&mut funnel, part));
        funnel.matches = funnel.matches.saturating_sub(threads as u64);
        Ok(Taken { seconds, funnel })
    }

    fn write(
        &self,
        csv: &mut CsvWriter,
        layout: &str,
        block: u32,
        stream: &Stream,
        touched: &Touched,
        taken: &Taken,
    ) -> Result<()> {
        let device = &taken.funnel.device;
        let kernel = device.kernels.sum() as f64 / 1e9;
        let busy = if kernel > 0.0 { kernel } else { taken.seconds };
        let bytes = 4 * (touched.build_tokens + touched.probe_tokens);
        let candidates = stream.candidates();
        csv.row(&[
            &self.name,
            &format!("{:?}", self.arguments.filter).to_lowercase(),
            &self.arguments.measure.name(),
            &self.threshold,
            &format!("{:?}", self.need),
            &layout,
            &block,
            &candidates,
            &stream.groups(),
            &taken.funnel.matches,
            &self.arguments.threads,
            &format!("{:.6}", taken.seconds),
            &format!("{kernel:.6}"),
            &format!("{:.6}", device.copy_nanos as f64 / 1e9),
            &device.bytes_to,
            &device.bytes_from,
            &bytes,
            &format!("{:.4e}", candidates as f64 / busy),
            &format!("{:.4e}", bytes as f64 / busy),
        ])
    }
}

/// Wakes a thread that waits for the device.
pub(crate) struct Unpark(pub std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
