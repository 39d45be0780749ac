//! Joins in tiles as filters on devices.

use std::ops::Range;

use crate::engine::{Collection, ItemId, Match, MatchOrder, Unit};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::filter::{DeviceFilter, OnHost, TicketOf};
use crate::offload::task::{DeviceJob, DeviceTask};
use crate::offload::tiles::family::{Meeting, MovingRows, TileFamily, TileJoin};
use crate::offload::tiles::job::{ColumnsOf, TileJob, TileKind, Tiles};
use crate::offload::tiles::left::{Again, LeftUnits, PARTS, TileUnit};
use crate::offload::tiles::settings::TileSettings;
use crate::offload::tiles::undecided::UndecidedTiles;
use crate::offload::unit::OpenUnit;
use crate::runtime::DeviceWork;

/// The most ranges of a self-join for each device: each is a job or more.
const RANGES: u32 = 48;
/// The part of the hits that a job has room for which a smaller job gets, and the least room.
const SMALLER: u32 = 4;
const LEAST_CAPACITY: u32 = 1 << 10;

/// The memory that a cursor keeps from plan to plan, and from pair to pair that it decides.
pub(crate) struct TileScratch<F: TileFamily> {
    of_family: F::Scratch,
    /// The rows that meet one piece of the columns after the other.
    moving: Option<MovingRows<F::Moving>>,
}

impl<F: TileFamily> Default for TileScratch<F> {
    fn default() -> Self {
        Self { of_family: F::Scratch::default(), moving: None }
    }
}

impl<F: TileFamily> DeviceFilter for TileJoin<F> {
    type Items = F::Items;
    type Itself = F::Itself;
    type Job = TileJob<F::Kind>;
    type Left = LeftUnits;
    type Scratch = TileScratch<F>;
    type Undecided = UndecidedTiles<<F::Kind as TileKind>::Arrays>;

    fn itself(&self, unit: &Unit<F::Items>) -> Option<F::Itself> {
        self.family.itself(unit)
    }

    fn rows_of(&self, items: Range<ItemId>) -> Range<ItemId> {
        F::rows_of(self, items)
    }

    fn plan(
        &self,
        TileScratch { of_family, moving }: &mut TileScratch<F>,
        unit: &Unit<F::Items>,
        left: &mut Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Vec<Self::Job>> {
        if moving.is_none() {
            *moving = F::moving_rows(self, unit, left, reservation)?;
        }
        let Some(rows) = moving else {
            let tiles = F::tiles(self, of_family, unit, None, left, reservation)?;
            let job = tiles.map(|tiles| self.job(tiles, None, reservation)).transpose()?;
            return Ok(job.into_iter().collect());
        };
        let Some(piece) = rows.pieces.next() else {
            left.start = rows.rows.end;
            *moving = None;
            return Ok(vec![]);
        };
        let meeting = Meeting { rows, columns: F::piece(self, piece) };
        self.jobs_of(of_family, unit, &meeting, reservation)
    }

    fn is_on(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(Option::is_some)
    }

    fn suits_devices(&self, job: &Self::Job) -> bool {
        !job.units.is_empty()
    }

    fn work(&self, device: usize, job: Self::Job, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        DeviceTask::boxed(&self.devices, device, job, ticket)
    }

    fn again(&self, job: &Self::Job, left: Self::Left, unit: Option<&OpenUnit>) -> Vec<Self::Job> {
        let needed = |tile: &TileUnit| unit.is_none_or(|unit| unit.needs_any(job.probes_of(tile)));
        let Again { sparse, dense } = left.jobs(job.units.len(), needed);
        let sparse = sparse.into_iter().map(|units| job.with(job.settings, units, false));
        let most = match job.dense {
            // The units had too many undecided pairs together.
            true => (job.units.len() / PARTS as usize).max(1),
            false => job.settings.most_dense_units(),
        };
        sparse.chain(job.densely(&dense, most)).collect()
    }

    /// Jobs with room for fewer hits and matches, where these are what takes the memory.
    fn smaller(&self, job: &Self::Job) -> Option<Vec<Self::Job>> {
        let settings = TileSettings { capacity: job.settings.capacity / SMALLER, ..job.settings };
        let saves = job.settings.buffer_bytes() - settings.buffer_bytes();
        let device = self.devices.iter().flatten().next();
        let bytes = device.map_or(0, |device| job.bytes(device));
        if settings.capacity < LEAST_CAPACITY || saves < bytes / 2 {
            return None;
        }
        let units = if job.dense { settings.most_dense_units() } else { job.units.len() };
        let jobs = job.units.chunks(units.max(1));
        Some(jobs.map(|units| job.with(settings, units.to_vec(), job.dense)).collect())
    }

    fn undecided(&self, job: &Self::Job) -> OnHost<Self::Undecided> {
        OnHost::Join(UndecidedTiles::new(job))
    }

    fn decide(
        &self,
        scratch: &mut TileScratch<F>,
        unit: &Unit<F::Items>,
        pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        F::decide(self, &mut scratch.of_family, unit, pair)
    }

    fn most_matches(&self) -> u64 {
        self.settings.most_matches()
    }

    fn range_unit(&self) -> u32 {
        self.settings.tile().stage_items
    }

    /// A job has about a tenth of a millisecond of the device's time to fill, at least.
    fn least_range(&self) -> u32 {
        let ranges = self.family.ranges(RANGES * self.devices.len().max(1) as u32);
        let part = self.build.groups().len() / ranges.max(1);
        part.next_multiple_of(self.settings.tile().stage_items)
    }
}

impl<F: TileFamily> TileJoin<F> {
    /// The jobs for all rows at a piece of the columns.
    fn jobs_of(
        &self,
        scratch: &mut F::Scratch,
        unit: &Unit<F::Items>,
        meeting: &Meeting<'_, F::Moving>,
        reservation: &dyn Memory,
    ) -> Result<Vec<TileJob<F::Kind>>> {
        let (mut left, mut jobs, mut columns) = (meeting.rows.rows.clone(), vec![], None);
        while !left.is_empty() {
            let tiles = F::tiles(self, scratch, unit, Some(meeting), &mut left, reservation)?;
            let Some(tiles) = tiles else { continue };
            if columns.is_none() {
                columns = Some(F::columns(self, meeting, reservation)?);
            }
            jobs.push(self.job(tiles, columns.as_ref(), reservation)?);
        }
        Ok(jobs)
    }

    /// The job of some tiles.
    fn job(
        &self,
        tiles: Tiles<F::Kind>,
        columns: Option<&ColumnsOf<F::Kind>>,
        reservation: &dyn Memory,
    ) -> Result<TileJob<F::Kind>> {
        let unreserved = F::Kind::unreserved_bytes(&tiles, columns);
        let Tiles { mut plan, units, rows } = tiles;
        // Units that are done again are split, or cut for each of their pairs.
        let parts = self.settings.tile().dense_parts().max(PARTS) as usize;
        let of_units = (1 + parts) * size_of_val(&units[..]);
        let of_stages = plan.listed.capacity() * size_of::<u32>();
        let memory = reservation.new_empty();
        memory.try_grow(unreserved + of_units + of_stages)?;
        plan.reservation = Some(memory);
        Ok(TileJob {
            settings: self.settings,
            plan: plan.into(),
            units,
            dense: false,
            rows,
            columns: columns.cloned(),
            column_count: self.build.groups().len(),
        })
    }
}
