//! The choice of a strategy, and of where its candidates are verified.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use crate::config::{DeviceChoice, StrategyChoice};
use crate::engine::{Cost, JoinSpec, JoinStrategy, PrepareContext};
use crate::gpu::Device;
use crate::set::SetCollection;
use crate::set::costs;
use crate::set::costs::Verification;
use crate::set::{BitmapBlocks, FilterVerify, Statistics};
use crate::set::{DeviceJoin, DeviceRequest};

/// Joins estimated to take less (nanoseconds of a core) are not worth a sample.
const WORTH_SAMPLING: f64 = 12e6;

/// What it takes to use a GPU: to create a context and load the kernels where that has not been
/// done yet, and to pin memory. Nanoseconds.
const OPEN_DEVICE: f64 = 500e6;
const USE_DEVICE: f64 = 20e6;
/// The share of the time that a GPU must save: estimates are rough.
const WORTH_A_DEVICE: f64 = 0.2;

const FILTERS: [&FilterVerify; 3] =
    [&FilterVerify::PPJoin, &FilterVerify::AllPairs, &FilterVerify::GroupJoin];
const BITMAP: &BitmapBlocks = &BitmapBlocks;

/// A strategy with the figures that speak for it.
#[derive(Debug)]
pub struct Choice {
    pub strategy: &'static dyn JoinStrategy,
    pub statistics: Statistics,
    /// Its estimate.
    pub cost: Cost,
    /// The other strategies and their estimates, where they were compared.
    pub others: Vec<(&'static str, Cost)>,
    /// Where candidates are verified, if not on the CPU.
    pub device: Option<Arc<DeviceJoin>>,
    /// Why there.
    pub reason: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (estimated {}", self.strategy.name(), self.cost)?;
        for (i, (name, cost)) in self.others.iter().enumerate() {
            write!(f, "{} {name} {cost}", if i == 0 { ";" } else { "," })?;
        }
        f.write_str("), ")?;
        match &self.device {
            Some(join) => write!(f, "{join}")?,
            None => f.write_str("cpu")?,
        }
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        Ok(())
    }
}

/// The strategy that `choice` names, or the cheapest one by its own estimate, on the device that
/// `request` names, or where it ends first.
///
/// # Errors
///
/// When a device is demanded that cannot be used, or that the strategy has no use for.
pub fn choose(
    choice: StrategyChoice,
    build: &Arc<SetCollection>,
    spec: &JoinSpec,
    request: &DeviceRequest,
    context: PrepareContext<'_>,
) -> Result<Choice> {
    let mut statistics = Statistics::gather(build, spec, context)?;
    let indexed = FilterVerify::PPJoin.estimate(&statistics, spec).0;
    let filters: &[&'static FilterVerify] = match choice {
        StrategyChoice::Auto => &FILTERS,
        StrategyChoice::PPJoin => &FILTERS[..1],
        StrategyChoice::AllPairs => &FILTERS[1..2],
        StrategyChoice::GroupJoin => &FILTERS[2..],
        StrategyChoice::Bitmap => &[],
    };
    if indexed > WORTH_SAMPLING || choice == StrategyChoice::Bitmap {
        statistics.sample(build, spec);
    }
    let mut strategies: Vec<&'static dyn JoinStrategy> = vec![];
    if matches!(choice, StrategyChoice::Auto | StrategyChoice::Bitmap) {
        strategies.push(BITMAP);
    }
    strategies.extend(filters.iter().map(|&f| f as &'static dyn JoinStrategy));
    let costs = strategies.into_iter().map(|s| (s, s.estimate(&statistics, spec)));
    let on_cpu = cheapest(costs);
    let costs = filters.iter().map(|&filter| {
        let cost = costs::estimate(*filter, &statistics, spec, Verification::Device);
        (filter as &'static dyn JoinStrategy, cost)
    });
    let on_device = cheapest(costs);
    let open = || DeviceJoin::open(build, spec, request);
    let (device, reason) = match (request.choice, &on_device) {
        (DeviceChoice::Cpu, _) => (None, String::new()),
        (DeviceChoice::Cuda(_), None) => {
            return exec_err!(
                "simjoin.device = '{}' needs a strategy that a GPU takes part in: auto, allpairs, \
                 ppjoin or groupjoin; simjoin.strategy = '{choice}' runs on the CPU alone",
                request.choice
            );
        }
        (DeviceChoice::Cuda(_), Some(_)) => (Some(open()?), "as demanded".to_string()),
        (DeviceChoice::Auto, None) => (None, "bitmap blocks have no candidates to send".into()),
        (DeviceChoice::Auto, Some((_, (_, cost)))) => {
            let threads = context.threads as f64;
            let alone = on_cpu.as_ref().map_or(f64::INFINITY, |(_, (_, cost))| cost.0 / threads);
            let device_nanos = filters.iter().map(|f| costs::device_nanos(**f, &statistics, spec));
            let device_nanos = device_nanos.fold(f64::INFINITY, f64::min);
            let setup = match Device::opened(0) {
                Some(_) => USE_DEVICE,
                None => OPEN_DEVICE,
            };
            let together = setup + (cost.0 / threads).max(device_nanos);
            if together > alone * (1.0 - WORTH_A_DEVICE) {
                let (alone, together) = (Cost(alone), Cost(together));
                (None, format!("{alone}; with a GPU {together} at best"))
            } else {
                match open() {
                    Ok(join) => {
                        (Some(join), format!("{} instead of {}", Cost(together), Cost(alone)))
                    }
                    Err(error) => (None, format!("no GPU: {error}")),
                }
            }
        }
    };
    let chosen = if device.is_some() { on_device } else { on_cpu };
    let Some((others, (strategy, cost))) = chosen else {
        return exec_err!("simjoin.strategy = '{choice}' names no strategy");
    };
    let others = others.into_iter().map(|(s, cost)| (s.name(), cost)).collect();
    Ok(Choice { strategy, statistics, cost, others, device, reason })
}

type Costed = (&'static dyn JoinStrategy, Cost);

/// The cheapest strategy, and the others by cost.
fn cheapest(costs: impl Iterator<Item = Costed>) -> Option<(Vec<Costed>, Costed)> {
    let mut costs: Vec<Costed> = costs.collect();
    costs.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let mut costs = costs.into_iter();
    let first = costs.next()?;
    Some((costs.collect(), first))
}
