//! The choice of a strategy and of its placement.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::strategy::Nanos;
use super::{
    Cost, DeviceChoice, DevicePlace, DeviceRequest, Estimate, MatchSpec, Matcher, Placement,
    PrepareContext, PreparedJoin, StartTimes, Strategy, StrategyName, Terms, listed,
};
use crate::error::{Error, Result, exec_err, internal_err, plan_err};
use crate::util::parallel::Threads;

/// The share of the time that a GPU must save where it is not demanded: estimates are rough.
const WORTH_A_DEVICE: f64 = 0.1;

/// A strategy and its placement, with the figures behind the choice.
#[derive(Debug)]
pub(super) struct Choice<J: 'static> {
    join: J,
    /// The strategies that were compared.
    compared: Vec<Compared<J>>,
    /// The chosen one of them, and its cost.
    place: usize,
    cost: Cost,
    /// The other strategies in the same placement and their estimates, where they were compared.
    others: Vec<(&'static str, Cost)>,
    /// The devices, unless it runs on the CPU.
    device: Option<Arc<dyn DevicePlace>>,
    /// Why the strategy is placed there.
    reason: String,
    /// The choices that take its place should the devices refuse it, the best first.
    next: VecDeque<Ranked>,
}

/// A strategy and its estimate.
#[derive(Debug)]
struct Compared<J: 'static> {
    strategy: &'static dyn Strategy<J>,
    estimate: Estimate,
}

impl<J: 'static> Compared<J> {
    /// The time that it takes on a device that is open.
    fn if_open(&self, context: PrepareContext<'_>) -> Option<f64> {
        let is_open = self.strategy.devices().is_some_and(|devices| devices.is_open());
        self.estimate.cost.filter(|_| is_open).map(|cost| cost.elapsed(context.threads.count()))
    }
}

/// A [`Choice`] as the operator knows it.
pub trait AnyChoice: fmt::Debug + fmt::Display {
    /// Prepares the join. Where the devices refuse the strategy, the next best one is chosen
    /// instead.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled; when demanded devices refuse.
    fn prepare(&mut self, context: PrepareContext<'_>) -> Result<Arc<dyn PreparedJoin>>;

    /// The choice as EXPLAIN ANALYZE shows it.
    fn chosen(&self) -> Chosen;

    /// The time that it took to bring the join to its devices.
    fn start_times(&self) -> StartTimes;

    /// Whether a GPU takes part.
    fn is_on_device(&self) -> bool;
}

impl<J: fmt::Debug + 'static> AnyChoice for Choice<J> {
    fn prepare(&mut self, context: PrepareContext<'_>) -> Result<Arc<dyn PreparedJoin>> {
        loop {
            let Compared { strategy, estimate } = &self.compared[self.place];
            let (join, device) = (&self.join, self.device.as_ref());
            let error = match strategy.prepare(join, estimate, device, context) {
                Err(error) => error,
                prepared => return prepared,
            };
            let has_refused = device.is_some_and(|device| device.has_refused());
            let next = if has_refused { self.next.pop_front() } else { None };
            let Some(Ranked { place, placement, cost, .. }) = next else { return Err(error) };
            let reason = format!("in place of {} on a GPU", strategy.name());
            if placement == Placement::Cpu {
                self.move_to_cpu(reason, context)?;
                continue;
            }
            (self.place, self.cost, self.reason) = (place, cost, reason);
            let name = self.strategy();
            self.others.retain(|(other, _)| *other != name);
        }
    }

    fn chosen(&self) -> Chosen {
        let manner = self.compared[self.place].estimate.manner;
        // A strategy that is no match for the data has no estimate.
        let others = self.others.iter().map(|(name, cost)| (*name, cost.work()));
        Chosen {
            strategy: self.strategy(),
            work: self.cost.work(),
            manner,
            others: others.filter(|(_, work)| work.is_finite()).collect(),
            place: self.device.as_ref().map_or("cpu".to_string(), |device| device.to_string()),
            reason: self.reason.clone(),
            notes: String::new(),
        }
    }
    fn start_times(&self) -> StartTimes {
        self.device.as_ref().map(|device| device.start_times()).unwrap_or_default()
    }

    fn is_on_device(&self) -> bool {
        self.device.is_some()
    }
}

impl<J: 'static> Choice<J> {
    /// Chooses the best strategy on the CPU, where devices are not to be had: estimates for the CPU have
    /// not been refined where a device was to take less time in any case.
    fn move_to_cpu(&mut self, reason: String, context: PrepareContext<'_>) -> Result<()> {
        let strategies: Vec<_> = self.compared.iter().map(|compared| compared.strategy).collect();
        let placements = &[Placement::Cpu];
        self.compared = compare(&strategies, &mut self.join, placements, context)?;
        let ranked = rank(&self.compared, placements, context.threads);
        let Some(first) = ranked.first() else {
            return plan_err!("no strategy of the join runs on the CPU");
        };
        self.place_at(first, &ranked, None, reason);
        Ok(())
    }

    /// The choice of `first`, one of those `ranked`, with its devices and reason.
    fn of(
        (join, compared): (J, Vec<Compared<J>>),
        first: &Ranked,
        ranked: &[Ranked],
        device: Option<Arc<dyn DevicePlace>>,
        reason: String,
    ) -> Self {
        let mut choice = Self {
            join,
            compared,
            place: first.place,
            cost: first.cost,
            others: vec![],
            device: None,
            reason: String::new(),
            next: VecDeque::new(),
        };
        choice.place_at(first, ranked, device, reason);
        choice
    }

    fn place_at(
        &mut self,
        first: &Ranked,
        ranked: &[Ranked],
        device: Option<Arc<dyn DevicePlace>>,
        reason: String,
    ) {
        let is_first = |r: &Ranked| r.place == first.place;
        let behind = ranked.iter().position(is_first).map_or(0, |place| place + 1);
        let beside = ranked
            .iter()
            .filter(|r| !is_first(r) && r.placement == first.placement && r.elapsed.is_finite());
        let named = |r: &Ranked| (self.compared[r.place].strategy.name(), r.cost);
        self.others = beside.map(named).collect();
        self.next = ranked.get(behind..).unwrap_or_default().iter().copied().collect();
        (self.place, self.cost) = (first.place, first.cost);
        (self.device, self.reason) = (device, reason);
    }

    fn strategy(&self) -> &'static str {
        self.compared[self.place].strategy.name()
    }
}

/// A choice as EXPLAIN ANALYZE shows it.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The name of the strategy.
    pub strategy: &'static str,
    /// The estimated work in nanoseconds.
    pub work: f64,
    /// The manner in which the CPU runs the strategy, where there are several.
    pub manner: Option<&'static str>,
    /// The other strategies in the same placement, and their work.
    pub others: Vec<(&'static str, f64)>,
    /// The name of the device that runs the strategy, or of the CPU.
    pub place: String,
    /// The reason for the place.
    pub reason: String,
    /// Words about the course of the join since the choice.
    pub notes: String,
}

impl Chosen {
    /// A copy of the choice with a further note.
    pub fn noting(&self, note: &str) -> Self {
        let notes = format!("{}{note}", self.notes);
        Self { notes, ..self.clone() }
    }
}

impl<J: fmt::Debug + 'static> fmt::Display for Choice<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chosen().fmt(f)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (estimated {}", self.strategy, Nanos(self.work))?;
        if let Some(manner) = self.manner {
            write!(f, " {manner}")?;
        }
        for (i, (name, work)) in self.others.iter().enumerate() {
            write!(f, "{} {name} {}", if i == 0 { ";" } else { "," }, Nanos(*work))?;
        }
        write!(f, "), {}", self.place)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        f.write_str(&self.notes)
    }
}

type Admitted<J> = Vec<&'static dyn Strategy<J>>;

/// The strategies of `matcher` that `choice` names and that run where `device` says.
///
/// # Errors
///
/// A plan error when there is none.
pub(super) fn admitted<M: Matcher>(
    matcher: &M,
    choice: StrategyName,
    device: DeviceChoice,
) -> Result<Admitted<M::Join>> {
    let own = matcher.strategies();
    let all: Vec<_> = own.iter().chain(matcher.comparisons()).copied().collect();
    let names = |strategies: &[&'static dyn Strategy<M::Join>]| names_among(&all, strategies);
    let named: Vec<_> = match choice.name() {
        None => own.to_vec(),
        Some(name) => all.iter().copied().filter(|strategy| strategy.name() == name).collect(),
    };
    if named.is_empty() {
        return plan_err!(
            "simjoin.strategy = '{choice}' is no strategy of this similarity; use {}",
            names(&all)
        );
    }
    let on = |placement: Placement, strategies: &Admitted<M::Join>| -> Vec<_> {
        strategies.iter().copied().filter(|strategy| strategy.placement() == placement).collect()
    };
    match device {
        DeviceChoice::Auto => return Ok(named),
        DeviceChoice::Cpu => {
            let found = on(Placement::Cpu, &named);
            if found.is_empty() {
                return plan_err!(
                    "simjoin.strategy = '{choice}' runs on a GPU alone, but simjoin.device = 'cpu': \
                     set simjoin.device = 'cuda', or simjoin.strategy to {}",
                    names(&on(Placement::Cpu, &all))
                );
            }
            return Ok(found);
        }
        DeviceChoice::Cuda(_) => {}
    }
    let found = on(Placement::Gpu, &named);
    if found.is_empty() {
        let needed = "needs a strategy that a GPU takes part in";
        let others = on(Placement::Gpu, &all);
        if others.is_empty() {
            return plan_err!("simjoin.device = '{device}' {needed}; this similarity has none");
        }
        return plan_err!(
            "simjoin.device = '{device}' {needed}: {}; simjoin.strategy = '{choice}' runs on the \
             CPU alone",
            names(&others)
        );
    }
    Ok(found)
}

/// The names of some of all strategies, each once: a name may stand for a strategy on the CPU and for another one
/// on GPUs.
fn names_among<J: 'static>(
    all: &[&'static dyn Strategy<J>],
    some: &[&'static dyn Strategy<J>],
) -> String {
    let mut names: Vec<&str> = vec![];
    for name in all.iter().map(|strategy| strategy.name()) {
        if !names.contains(&name) && some.iter().any(|strategy| strategy.name() == name) {
            names.push(name);
        }
    }
    listed(names)
}

/// A strategy in a placement.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    /// The place of the strategy among those compared.
    place: usize,
    placement: Placement,
    cost: Cost,
    elapsed: f64,
}

impl Ranked {
    /// The time by which it is ranked: a GPU that is not demanded must save a noticeable part of
    /// the time.
    fn handicapped(&self, placements: &[Placement]) -> f64 {
        match self.placement {
            Placement::Gpu if placements.len() > 1 => self.elapsed / (1.0 - WORTH_A_DEVICE),
            Placement::Gpu | Placement::Cpu => self.elapsed,
        }
    }
}

/// Ranks every strategy that `choice` names in every placement that `request` admits by its own
/// estimate of the time, and takes the first that can be had.
///
/// # Errors
///
/// When a device is demanded that cannot be used, or that the strategy has no use for.
pub(super) fn choose<M: Matcher>(
    matcher: &M,
    choice: StrategyName,
    build: &Arc<M::Items>,
    spec: &MatchSpec,
    request: &DeviceRequest,
    context: PrepareContext<'_>,
) -> Result<Choice<M::Join>> {
    let strategies = admitted(matcher, choice, request.choice)?;
    let placements: &[Placement] = match request.choice {
        DeviceChoice::Auto => &[Placement::Cpu, Placement::Gpu],
        DeviceChoice::Cpu => &[Placement::Cpu],
        DeviceChoice::Cuda(_) => &[Placement::Gpu],
    };
    let mut join = matcher.join(build, spec, context)?;
    let compared = compare(&strategies, &mut join, placements, context)?;
    let ranked = rank(&compared, placements, context.threads);
    let mut refused: Option<Error> = None;
    for first in &ranked {
        let work = first.cost.device + first.cost.transfer;
        let request = &DeviceRequest { work, ..request.clone() };
        let (device, reason) = match (first.placement, request.choice) {
            (Placement::Cpu, _) => {
                let reason = why_cpu(&ranked, request.choice, refused.as_ref());
                if refused.is_some() {
                    let mut choice =
                        Choice::of((join, compared), first, &ranked, None, String::new());
                    choice.move_to_cpu(reason, context)?;
                    return Ok(choice);
                }
                note_loss(&compared, &ranked, first);
                (None, reason)
            }
            (Placement::Gpu, _) if refused.is_some() => continue,
            (Placement::Gpu, DeviceChoice::Auto) => match open(&compared, first, &join, request) {
                Ok(device) => (Some(device), why_gpu(&ranked, first)),
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            },
            (Placement::Gpu, _) => {
                let reason = match first.elapsed.is_finite() {
                    true => "as demanded",
                    false => "as demanded, without work for it",
                };
                (Some(open(&compared, first, &join, request)?), reason.to_string())
            }
        };
        return Ok(Choice::of((join, compared), first, &ranked, device, reason));
    }
    match refused {
        Some(refused) => exec_err!(
            "simjoin.strategy = '{choice}' runs on a GPU alone, and there is none: {}; set \
             simjoin.strategy = 'auto'",
            refused.message()
        ),
        None => plan_err!("simjoin.strategy = '{choice}' has no strategy to run"),
    }
}

/// The strategies on the CPU that `choice` names and that find the nearest partners of items.
pub(super) fn finding_nearest<M: Matcher>(matcher: &M, choice: StrategyName) -> Admitted<M::Join> {
    let finds = |strategy: &&'static dyn Strategy<M::Join>| {
        strategy.finds_nearest()
            && strategy.placement() == Placement::Cpu
            && choice.name().is_none_or(|name| name == strategy.name())
    };
    matcher.strategies().iter().copied().filter(finds).collect()
}

/// The best of these strategies; `None` where none of them suits the data. One that is named need not.
///
/// # Errors
///
/// When memory is refused, or the work cancelled.
pub(super) fn nearest<M: Matcher>(
    matcher: &M,
    choice: StrategyName,
    build: &Arc<M::Items>,
    spec: &MatchSpec,
    context: PrepareContext<'_>,
) -> Result<Option<Arc<dyn PreparedJoin>>> {
    let strategies = finding_nearest(matcher, choice);
    let mut join = matcher.join(build, spec, context)?;
    let placements = &[Placement::Cpu];
    let compared = compare(&strategies, &mut join, placements, context)?;
    let ranked = rank(&compared, placements, context.threads);
    let best = match ranked.first() {
        Some(first) => compared.get(first.place),
        None if !choice.is_auto() => compared.first(),
        None => None,
    };
    best.map(|best| best.strategy.prepare(&join, &best.estimate, None, context)).transpose()
}

/// Opens the devices of a strategy on GPUs.
fn open<J: 'static>(
    compared: &[Compared<J>],
    ranked: &Ranked,
    join: &J,
    request: &DeviceRequest,
) -> Result<Arc<dyn DevicePlace>> {
    match compared[ranked.place].strategy.devices() {
        Some(devices) => devices.open(join, request),
        None => internal_err!("a strategy on the CPU opens no device"),
    }
}

/// The estimates of the strategies of some placements. Those on GPUs come first: they are quickly made, and tell
/// the others whether an open device wins in any case.
fn compare<J: 'static>(
    strategies: &[&'static dyn Strategy<J>],
    join: &mut J,
    placements: &[Placement],
    context: PrepareContext<'_>,
) -> Result<Vec<Compared<J>>> {
    let is_only = strategies.windows(2).all(|pair| pair[0].name() == pair[1].name());
    let mut terms = Terms { is_only, open_device: None, context };
    let runs = |strategy: &&'static dyn Strategy<J>| placements.contains(&strategy.placement());
    let mut compared: Vec<(usize, Compared<J>)> = vec![];
    for placement in [Placement::Gpu, Placement::Cpu] {
        let all = strategies.iter().copied().filter(runs).enumerate();
        for (place, strategy) in all.filter(|(_, strategy)| strategy.placement() == placement) {
            let estimate = strategy.estimate(join, &terms)?;
            compared.push((place, Compared { strategy, estimate }));
        }
        if placement == Placement::Gpu {
            let open = compared.iter().filter_map(|(_, compared)| compared.if_open(context));
            terms.open_device = open.reduce(f64::min);
        }
    }
    compared.sort_by_key(|(place, _)| *place);
    Ok(compared.into_iter().map(|(_, compared)| compared).collect())
}

/// The strategies in their placements, the best first.
fn rank<J: 'static>(
    compared: &[Compared<J>],
    placements: &[Placement],
    threads: Threads,
) -> Vec<Ranked> {
    let mut ranked = vec![];
    for &placement in placements {
        for (place, Compared { strategy, estimate }) in compared.iter().enumerate() {
            let Some(cost) = estimate.cost.filter(|_| strategy.placement() == placement) else {
                continue;
            };
            ranked.push(Ranked { place, placement, cost, elapsed: cost.elapsed(threads.count()) });
        }
    }
    ranked.sort_by(|a, b| a.handicapped(placements).total_cmp(&b.handicapped(placements)));
    ranked
}

/// Tells the devices of the best strategy on GPUs the nanoseconds that it would save a join on the CPU if they
/// were open.
fn note_loss<J: 'static>(compared: &[Compared<J>], ranked: &[Ranked], chosen: &Ranked) {
    let on_gpu = ranked.iter().filter(|r| r.placement == Placement::Gpu && r.elapsed.is_finite());
    let open = |ranked: &Ranked| ranked.elapsed - ranked.cost.setup;
    let best = on_gpu.min_by(|a, b| open(a).total_cmp(&open(b)));
    let devices = best.and_then(|best| compared[best.place].strategy.devices());
    if let (Some(best), Some(devices)) = (best, devices) {
        devices.note_loss((chosen.elapsed - open(best) / (1.0 - WORTH_A_DEVICE)).max(0.0));
    }
}

/// The shortest time in a placement that has work.
fn best(ranked: &[Ranked], placement: Placement) -> Option<Nanos> {
    let best = ranked.iter().find(|r| r.placement == placement && r.elapsed.is_finite());
    best.map(|r| Nanos(r.elapsed))
}

fn why_cpu(ranked: &[Ranked], device: DeviceChoice, refused: Option<&Error>) -> String {
    match (device, refused, best(ranked, Placement::Gpu), best(ranked, Placement::Cpu)) {
        // Nothing to be mended: `simjoin.device = 'cuda'` says what was looked for.
        (DeviceChoice::Auto, Some(refused), ..) if refused.is_without_gpu() => {
            "no GPU found".to_string()
        }
        (DeviceChoice::Auto, Some(refused), ..) => format!("no GPU: {}", refused.message()),
        (DeviceChoice::Auto, None, Some(gpu), Some(cpu)) => {
            format!("{cpu}; with a GPU {gpu} at best")
        }
        (DeviceChoice::Auto, None, None, _) => "it has no work for a GPU".to_string(),
        _ => String::new(),
    }
}

fn why_gpu(ranked: &[Ranked], chosen: &Ranked) -> String {
    match best(ranked, Placement::Cpu) {
        Some(cpu) => format!("{} instead of {cpu}", Nanos(chosen.elapsed)),
        None => format!("{}", Nanos(chosen.elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_gpu_is_told_in_a_few_words() {
        let told = |message: &str| {
            let refused = Error::Execution(message.to_string());
            why_cpu(&[], DeviceChoice::Auto, Some(&refused))
        };
        let missing =
            "no NVIDIA driver could be loaded (libcuda was not found): install driver 550";
        assert_eq!(told(missing), "no GPU found");
        // A GPU that cannot be used is worth a look.
        let old = "the NVIDIA driver runs CUDA 11.8 at most, but 12.4 is needed";
        assert_eq!(told(old), format!("no GPU: {old}"));
    }
}
