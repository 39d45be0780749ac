//! Packs on their way to the devices of a join, and to another one where a device fails.

use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::{MatchNeed, Pairing};
use crate::gpu::DeviceError;
use crate::set::device::pack::Pack;
use crate::set::device::units::Load;
use crate::set::device::verifier::{DeviceVerifier, Redo};
use crate::set::device::{Launch, VerifyJob};

impl DeviceVerifier {
    /// Submits a pack to the device with the shortest queue.
    pub(super) fn submit_load(&mut self, load: Load) {
        let join = Arc::clone(&self.join);
        let Some((number, device)) = join.devices.shortest_queue() else {
            // All have failed since it was opened.
            self.redone = Some(Redo::of(load));
            return;
        };
        let Load { mut pack, units } = load;
        let launch = Launch::choose(&pack.shape(), self.join.form, &self.spec.gpu);
        pack.contents.kernel = launch.layout.name();
        pack.contents.place = number;
        let Pack { staging, contents } = pack;
        let wide = contents.wide;
        let ticket = self.inbox.ticket(contents, units);
        self.in_flight += 1;
        let build = join.build_on(number).cloned();
        let probe = build.clone().filter(|_| join.has_probe());
        VerifyJob {
            staging,
            launch,
            build,
            wide,
            exact: self.spec.need == MatchNeed::Scores,
            first_only: self.spec.need == MatchNeed::Exists,
            same: self.spec.pairing == Pairing::Unordered && probe.is_some(),
            probe,
            reply: ticket,
        }
        .submit(device);
    }

    /// Sends a pack that a device did not verify to another device. Where no device is left, or no
    /// memory to move the pack to, the CPU verifies it; a query that insists on devices ends with
    /// the error instead.
    pub(super) fn retry(&mut self, mut load: Load, error: DeviceError) -> Result<()> {
        if !self.join.devices.have_failed()
            && (!load.pack.staging.is_lost() || self.rescue(&mut load.pack))
        {
            self.submit_load(load);
            return Ok(());
        }
        if self.join.devices.demanded {
            self.spare.push(load.pack.staging);
            return Err(error.into());
        }
        self.redone = Some(Redo::of(load));
        Ok(())
    }

    /// Moves a pack out of memory that a lost device has pinned. Returns whether there was memory
    /// for it.
    fn rescue(&mut self, pack: &mut Pack) -> bool {
        let Ok(bytes) = self.join.pack_bytes() else { return false };
        if self.reservation.try_grow(bytes).is_err() {
            return false;
        }
        let capacities = self.join.capacities(pack.contents.wide);
        let moved = match self.join.pin(&capacities) {
            Ok(mut staging) => {
                let whole = staging.copy_from(&pack.staging);
                if whole {
                    pack.staging = staging;
                }
                whole
            }
            Err(_) => false,
        };
        self.reservation.shrink(bytes);
        moved
    }
}
