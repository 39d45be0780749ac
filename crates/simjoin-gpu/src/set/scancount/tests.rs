//! Large sets on a device against the nested loop, with tokens cut anywhere and buffers so small that
//! all work is cut. Without a GPU the kernels run on the host.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join::SetJoin;

use super::cut::{PairCounts, TokenCut};
use super::shape::LightShape;
use super::work::JobSettings;
use super::{CutChoice, pairs};
use crate::device_harness::sets::on_devices::{
    OnDevices, check_faults, check_faults_of_one_of_two, check_left_to_cpu, check_shapes,
    check_tiles_in_place, tests_on_devices,
};
use crate::device_harness::sets::place_of;
use crate::engine::{DevicePlace, PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::harness::sets::Sides;
use crate::harness::sets::{Forced, forced, shapes};
use crate::set::scancount::LargeSets;

/// `scancount` on a device, with room and a cut given.
#[derive(Debug, Clone, Copy)]
pub(in crate::set) struct FixedLarge {
    /// The share of the universe that is light.
    light: f64,
    postings: u32,
    lists: u32,
    cells: u64,
    matches: u32,
    bytes: u64,
    /// The kernel for devices of compute capability 9.0.
    large: bool,
}

impl FixedLarge {
    /// Room for few tokens.
    pub(super) fn apply(
        &self,
        build: &SetCollection,
        settings: JobSettings,
    ) -> (JobSettings, TokenCut) {
        let of = if self.large { LightShape::LARGE } else { LightShape::SMALL };
        let shape = LightShape { postings: self.postings, lists: self.lists, ..of };
        let (cells, bytes) = (self.cells, self.bytes);
        let capacity = self.matches.max(build.len());
        let settings = JobSettings {
            shape,
            cells,
            capacity,
            starts_bytes: bytes,
            bits_bytes: bytes,
            ..settings
        };
        let heavy = (f64::from(build.universe()) * self.light) as u32;
        let cut = TokenCut::at(build, heavy, pairs(build, &settings), &shape);
        (settings, cut)
    }
}

impl OnDevices for FixedLarge {
    fn draw(rng: &mut StdRng) -> Self {
        Self {
            light: *[0.0, 0.9, 0.95, 0.99, 1.0].choose(rng).unwrap(),
            postings: *[1, 17, 300].choose(rng).unwrap(),
            lists: *[2, 64, 512].choose(rng).unwrap(),
            // Every work that is cut, or done again, takes its time on the host.
            cells: *[1 << 14, 1 << 20].choose(rng).unwrap(),
            matches: *[1 << 11, 1 << 16].choose(rng).unwrap(),
            bytes: *[10_000, 1 << 24].choose(rng).unwrap(),
            large: rng.random_bool(0.03),
        }
    }

    fn ranges(&self) -> &'static [u32] {
        // Blocks of many threads take their time on the host.
        &[64, u32::MAX]
    }
}

forced!(FixedLarge);

impl Forced for FixedLarge {
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let (build, spec) = (&join.build, join.spec);
        let on_cpu = || super::strategy::on_cpu(build, spec, context);
        let cpu = || on_cpu().into_prepared();
        let Some(device) = place_of(place)? else { return cpu() };
        match super::prepare(build, spec, &device, CutChoice::Fixed(*self), on_cpu, context)? {
            Ok(prepared) => Ok(prepared),
            Err(error) if device.devices.demanded => Err(error.into()),
            Err(_) => cpu(),
        }
    }
}

tests_on_devices!(FixedLarge, 71, (20, 30), 12);

/// Sets that do not fit on the device are left to the CPU; the reason is told. Where the query insists on
/// the device, tiles join in pieces, and the query fails where not even a piece fits.
#[test]
fn large_sets_that_do_not_fit_are_left_to_the_cpu() {
    check_left_to_cpu::<FixedLarge>(76, "without overlaps: ");
    check_tiles_in_place(&LargeSets, "without overlaps: ");
}

/// Cuts ascend from 0 to the first heavy token, which lies in the universe.
#[test]
fn cuts_ascend_to_the_first_heavy_token() {
    let mut rng = StdRng::seed_from_u64(77);
    for _ in 0..50 {
        let shape = shapes::zipfian(&mut rng, 12);
        let build = Sides::itself(&shape.name, &shape.build).build;
        let of = LightShape { postings: rng.random_range(1..500), ..LightShape::SMALL };
        let sets = f64::from(build.len());
        let rows = sets * *[1.0, 0.1].choose(&mut rng).unwrap();
        let pairs = PairCounts { rows, columns: sets, same: rows == sets };
        let cut = TokenCut::new(&build, pairs, &of);
        assert!(cut.cuts.is_sorted_by(|a, b| a < b) && cut.cuts[0] == 0, "{cut:?}");
        assert_eq!(*cut.cuts.last().unwrap(), cut.heavy);
        assert!(cut.heavy <= cut.universe);
    }
}
