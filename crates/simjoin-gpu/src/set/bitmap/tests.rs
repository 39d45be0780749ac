//! Tiles of every width, kernel and union against the nested loop, with buffers so small that units
//! are done again. Without a GPU the kernels run on the host.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use simjoin_core::set::bitmap::Front;
use simjoin_core::set::filter::SignatureScheme;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::measure::Measure;

use crate::device_harness::sets::on_devices::{
    OnDevices, both_sides, check_faults, check_faults_of_one_of_two, check_shapes, tests_on_devices,
};
use crate::device_harness::sets::place_of;
use crate::emulator::gpu;
use crate::engine::GpuOptions;
use crate::engine::{DevicePlace, PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::harness::sets::{Forced, forced, shapes};
use crate::harness::sets::{OnDevice, Sides, spec};
use crate::set::bitmap::Residence;
use crate::set::bitmap::scheme::TileScheme;
use crate::set::bitmap::shape::{TileKernel, WIDTHS};
use crate::set::bitmap::strategy::on_cpu;
use crate::set::bitmap::{BitmapTiles, FixedTiles};

impl FixedTiles {
    /// Plain columns, with room for many hits.
    pub(in crate::set) fn with_room() -> Self {
        Self {
            kernel: TileKernel::Counts,
            width: 8,
            members: 1,
            capacity: Some(1 << 20),
            residence: Residence::IfRoom,
        }
    }
}

impl OnDevices for FixedTiles {
    fn draw(rng: &mut StdRng) -> Self {
        Self {
            kernel: *[TileKernel::Counts, TileKernel::Products, TileKernel::Warpgroups]
                .choose(rng)
                .unwrap(),
            width: *WIDTHS.choose(rng).unwrap(),
            members: *[1, 2, 4].choose(rng).unwrap(),
            capacity: [1, 40, 1000, 1 << 16].choose(rng).copied(),
            residence: *[Residence::IfRoom, Residence::Never].choose(rng).unwrap(),
        }
    }

    fn ranges(&self) -> &'static [u32] {
        // Blocks of many threads take their time on the host.
        match self.kernel {
            TileKernel::Counts => &[3, 64, u32::MAX],
            TileKernel::Products | TileKernel::Warpgroups => &[64, u32::MAX],
        }
    }
}

forced!(FixedTiles);

impl Forced for FixedTiles {
    /// On the CPU where there is no device, or one that is not demanded has not the room.
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let (build, spec) = (&join.build, join.spec);
        let on_cpu = || {
            let scheme = SignatureScheme::fit(build);
            on_cpu(build, spec, scheme, Front::LEAST, context).into_prepared()
        };
        let Some(device) = place_of(place)? else { return on_cpu() };
        match self.prepare_on_device(build, spec, &device, context) {
            Err(_) if !device.devices.demanded => on_cpu(),
            prepared => prepared,
        }
    }
}

tests_on_devices!(FixedTiles, 41, (12, 40), 8);

#[test]
fn tiles_of_universes_around_the_width() {
    check_shapes::<FixedTiles>(49, |rng| {
        [64, 256, 300, 1024].map(|universe| shapes::universe(rng, universe)).into()
    });
}

/// Tiles of sets that do not fit on the device are refused; where the query insists on the device, it
/// fails. The reason is told.
#[test]
fn tiles_that_do_not_fit_are_left_to_the_cpu() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(48);
    let [sides, _] = both_sides(&mut rng);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    let expected = sides.expected(&spec);
    for limit in [1, 1 << 15] {
        spec.gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let on = OnDevice { ordinal: 0, second: None, demanded: false, fault: None };
        let (found, told) = sides.run_within(&FixedTiles::draw(&mut rng), spec, on, 64 << 20);
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(told.len() == 1 && told[0].starts_with("without tiles: "), "{told:?}");
        let on = OnDevice { demanded: true, ..on };
        let (found, told) = sides.run_within(&BitmapTiles, spec, on, 256 << 20);
        let error = found.unwrap_err();
        assert!(error.is_out_of_device_memory(), "{error}");
        assert!(error.to_string().contains("signature tiles of the join need"), "{error}");
        assert!(told.len() == 1 && told[0].starts_with("without tiles: "), "{told:?}");
    }
}

/// Bits are those of frequent tokens first, then every bit of the rest gets as many as any other.
#[test]
fn rare_tokens_are_dealt_evenly() {
    let mut rng = StdRng::seed_from_u64(45);
    let shape = shapes::universe(&mut rng, 1024);
    let sides = Sides::itself(&shape.name, &shape.build);
    let scheme = TileScheme::new(&sides.build, 8);
    let mut tokens = vec![0; 256];
    for token in 0..scheme.universe {
        tokens[scheme.bit_of(token) as usize] += 1;
    }
    assert!(!scheme.is_exact());
    let (owned, hashed) = tokens.split_at(scheme.owned as usize);
    assert!(owned.iter().all(|&tokens| tokens == 1), "{owned:?}");
    let (least, most) = (hashed.iter().min().unwrap(), hashed.iter().max().unwrap());
    assert!(most - least <= 1, "{hashed:?}");
    assert!(TileScheme::new(&sides.build, 32).is_exact());
}
