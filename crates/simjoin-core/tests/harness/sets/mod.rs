//! Runs a strategy over two collections and holds what it gives to a nested loop.

mod check;
mod drive;
mod rounds;
pub(crate) mod shapes;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray};
use arrow::datatypes::{DataType, UInt32Type};

use simjoin_core::engine::{
    AnyChoice, AnyMatcher, Argument, Collection, DeviceRequest, EncodeInput, Family, KeyConverter,
    KeyDictionary, Match, MatchNeed, MatchSpec, Orders, Pairing, PrepareContext,
};
use simjoin_core::engine::{DeviceChoice, GpuOptions, StrategyName};
use simjoin_core::error::Result;
use simjoin_core::memory::{Budget, Reservation};
use simjoin_core::predicate::{Call, Predicate, Side};
use simjoin_core::set::encode::{BuildEncoder, ProbeScratch};
use simjoin_core::set::statistics::Statistics;
use simjoin_core::set::{
    Bounds, JoinSpec, Measure, Role, SetCollection, SetFamily, SetId, SetJoin,
};
use simjoin_core::simd::Simd;
use simjoin_core::tuning::Tuning;
use simjoin_core::util::cancel::CancelFlag;
use simjoin_core::util::parallel::Threads;

pub(crate) use self::drive::{Drive, Fault, OnDevice};
pub(crate) use self::rounds::{
    Forced, NEEDS, check_each, check_shape, drive, forced, rounds, thresholds,
};

/// Rows of a side: the blocking key and the tokens, which may repeat.
pub(crate) type Rows = Vec<(i64, Vec<u32>)>;

/// Two encoded sides, and what they have in common by their original tokens.
pub(crate) struct Sides {
    name: String,
    pub build: Arc<SetCollection>,
    pub probe: Arc<SetCollection>,
    /// The probe sets under other addresses: units of two inputs come from different collections.
    probes: Vec<Arc<SetCollection>>,
    pub pairing: Pairing,
    /// Sizes by set, counted on the original rows.
    sizes: [Vec<u64>; 2],
    /// By probe set, then build set; `None` where the keys differ.
    overlaps: Vec<Option<u64>>,
}

impl Sides {
    /// Probe rows against build rows.
    pub(crate) fn two(name: &str, build: &Rows, probe: &Rows) -> Self {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let converter = KeyConverter::try_new(vec![DataType::Int64], false).unwrap();
        let (mut encoder, mut keys) = (BuildEncoder::default(), KeyDictionary::default());
        // More than one batch, as the operator would give them.
        for rows in build.chunks(50) {
            let (lists, key) = columns(rows);
            let key = converter.convert(&[key]).unwrap();
            let input = EncodeInput { values: &lists, keys: Some(&key), filter: None };
            encoder.push(&input, &mut keys, &reservation, 0).unwrap();
        }
        let (build_sets, encoder) = encoder.finish(&reservation, 0, &|| {}, &cancel).unwrap();
        let (lists, key) = columns(probe);
        let key = converter.convert(&[key]).unwrap();
        let input = EncodeInput { values: &lists, keys: Some(&key), filter: None };
        let mut scratch = ProbeScratch::default();
        let mut encode =
            || Arc::new(encoder.encode(&input, &keys, &mut scratch, &reservation, 0).unwrap());
        let probes = [encode(), encode(), encode()];
        let probe = (Arc::clone(&probes[0]), probe);
        let sides = Self::compare(name, Pairing::All, (Arc::new(build_sets), build), probe);
        Self { probes: probes.into(), ..sides }
    }

    /// Rows against themselves, each unordered pair once.
    pub(crate) fn itself(name: &str, rows: &Rows) -> Self {
        let build = Self::two(name, rows, &vec![]).build;
        Self::compare(name, Pairing::Unordered, (Arc::clone(&build), rows), (build, rows))
    }

    fn compare(
        name: &str,
        pairing: Pairing,
        (build, build_rows): (Arc<SetCollection>, &Rows),
        (probe, probe_rows): (Arc<SetCollection>, &Rows),
    ) -> Self {
        let build_sets = original_sets(&build, build_rows);
        let probe_sets = original_sets(&probe, probe_rows);
        let mut overlaps = vec![];
        for (probe_key, probe) in &probe_sets {
            overlaps.extend(
                build_sets.iter().map(|(build_key, build)| {
                    (probe_key == build_key).then(|| common(probe, build))
                }),
            );
        }
        let sizes = [build_sets, probe_sets]
            .map(|sets| sets.iter().map(|(_, tokens)| tokens.len() as u64).collect());
        let probes = vec![Arc::clone(&probe)];
        Self { name: name.into(), build, probe, probes, pairing, sizes, overlaps }
    }

    /// The overlap and the sizes (probe, build) of a pair of equal keys.
    fn pair(&self, probe: SetId, build: SetId) -> Option<(u64, u64, u64)> {
        let [build_sizes, probe_sizes] = &self.sizes;
        let place = probe as usize * build_sizes.len() + build as usize;
        self.overlaps[place].map(|o| (o, probe_sizes[probe as usize], build_sizes[build as usize]))
    }

    fn value(&self, spec: &JoinSpec, (o, probe, build): (u64, u64, u64)) -> f64 {
        spec.bounds.measure.value_in_role(o, spec.probe_role, probe, build)
    }

    /// The pairs that the join looks at.
    fn pairs(&self) -> impl Iterator<Item = (SetId, SetId)> + '_ {
        let (probe, build) = (self.probe.len(), self.build.len());
        let end = move |p| if self.pairing == Pairing::Unordered { p + 1 } else { build };
        (0..probe).flat_map(move |p| (0..end(p)).map(move |b| (p, b)))
    }

    /// Every value above 0 that some pair has, ascending.
    pub(crate) fn values(&self, spec: &JoinSpec) -> Vec<f64> {
        let pairs = self.pairs().filter_map(|(p, b)| self.pair(p, b));
        let mut values: Vec<f64> =
            pairs.map(|pair| self.value(spec, pair)).filter(|v| *v > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The matches with their exact overlap, ordered.
    pub(crate) fn expected(&self, spec: &JoinSpec) -> Vec<Match> {
        let matches = self.pairs().filter_map(|(probe, build)| {
            let pair = self.pair(probe, build)?;
            let value = self.value(spec, pair);
            let holds = value > 0.0 && value >= spec.bounds.threshold;
            holds.then_some(Match { probe, build, detail: pair.0 as u32 })
        });
        matches.collect()
    }

    /// A join with a sample.
    pub(crate) fn join(&self, spec: &JoinSpec) -> SetJoin {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(2));
        let mut join = self.join_of(spec, 1e9, context);
        join.sample(context).unwrap();
        join
    }

    /// A join that takes so many nanoseconds by an index of prefixes.
    pub(crate) fn join_of(
        &self,
        spec: &JoinSpec,
        indexed: f64,
        context: PrepareContext<'_>,
    ) -> SetJoin {
        let statistics = Statistics::gather(&self.build, spec, context).unwrap();
        let endless = |_: &SetJoin| f64::INFINITY;
        let mut join = SetJoin::new(Arc::clone(&self.build), *spec, statistics, endless, endless);
        (join.indexed, join.quickest) = (indexed, indexed);
        join
    }

    /// The strategy that would be chosen for the sides.
    pub(crate) fn choose(
        &self,
        strategy: StrategyName,
        device: DeviceChoice,
        spec: &JoinSpec,
    ) -> Result<Box<dyn AnyChoice>> {
        self.choose_of(SetFamily::default(), strategy, device, spec)
    }

    /// The strategy of a family that would be chosen for the sides.
    pub(crate) fn choose_of(
        &self,
        family: SetFamily,
        strategy: StrategyName,
        device: DeviceChoice,
        spec: &JoinSpec,
    ) -> Result<Box<dyn AnyChoice>> {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(2));
        let self_join = Arc::ptr_eq(&self.build, &self.probe);
        let on_failure = Arc::new(|_| {});
        let request = DeviceRequest { choice: device, self_join, work: f64::INFINITY, on_failure };
        let build: Arc<dyn Collection> = Arc::<SetCollection>::clone(&self.build);
        let matcher = matcher(family, spec);
        matcher.choose(strategy, &build, &match_spec_of(spec), &request, context)
    }
}

impl std::fmt::Debug for Sides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [build, probe] = &self.sizes;
        let shape = format!("{} probe sets, {} build sets", probe.len(), build.len());
        write!(f, "{} ({shape}, {} tokens, {:?})", self.name, self.build.universe(), self.pairing)
    }
}

/// The spec of a test; the roles and needs vary around it.
pub(crate) fn spec(measure: Measure, threshold: f64, pairing: Pairing) -> JoinSpec {
    JoinSpec {
        bounds: Bounds::new(measure, threshold),
        probe_role: Role::First,
        pairing,
        need: MatchNeed::Scores,
        nearest: None,
        candidate_chunk: 1 << 16,
        simd: Simd::detect(),
        gpu: GpuOptions::default(),
        tuning: Tuning::small(),
    }
}

/// The predicate as the operator knows it.
fn matcher(family: SetFamily, spec: &JoinSpec) -> Arc<dyn AnyMatcher> {
    let types = DataType::new_list(DataType::UInt32, true);
    let arguments = [Argument::of_type(&types); 2];
    family.bind(predicate_of(spec), arguments).unwrap()
}

/// The predicate of a join whose left argument is the measure's first one.
fn predicate_of(spec: &JoinSpec) -> Predicate {
    let call = Call { function: spec.bounds.measure.function(), first: Side::Left };
    Predicate::new(call, spec.bounds.threshold)
}

/// The join as the operator asks for it.
pub(crate) fn match_spec_of(spec: &JoinSpec) -> MatchSpec {
    let JoinSpec {
        bounds: _,
        probe_role,
        pairing,
        need,
        nearest,
        candidate_chunk,
        simd,
        gpu,
        tuning,
    } = *spec;
    let probe = match probe_role {
        Role::First => Side::Left,
        Role::Second => Side::Right,
    };
    MatchSpec {
        probe,
        orders: Orders::of(pairing),
        need,
        nearest,
        candidate_chunk,
        match_buffer: 1000,
        simd,
        gpu,
        tuning,
        ..MatchSpec::default()
    }
}

pub(crate) fn reservation() -> Reservation {
    let pool = Budget::unlimited();
    pool.reservation()
}

fn columns(rows: &[(i64, Vec<u32>)]) -> (ArrayRef, ArrayRef) {
    let lists = rows.iter().map(|(_, tokens)| Some(tokens.iter().map(|&t| Some(t))));
    let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>(lists);
    let keys = Int64Array::from_iter_values(rows.iter().map(|(key, _)| *key));
    (Arc::new(lists), Arc::new(keys))
}

/// Key and sorted tokens of each set, by the rows that hold it.
fn original_sets(sets: &SetCollection, rows: &Rows) -> Vec<(i64, Vec<u32>)> {
    let original = (0..sets.len()).map(|set| {
        let (key, tokens) = &rows[sets.groups().rows(set)[0] as usize];
        let mut tokens = tokens.clone();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), sets.size(set) as usize);
        (*key, tokens)
    });
    original.collect()
}

fn common(a: &[u32], b: &[u32]) -> u64 {
    let (mut i, mut j, mut o) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        o += u64::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    o
}
