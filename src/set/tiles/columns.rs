//! The signed build side on a device.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::gpu::{Device, DeviceError, DeviceWork, Grid, Resident, Results, Stage, Usage};
use crate::offload::Layout;
use crate::set::device::ResidentSets;
use crate::set::device::abi::Sets;
use crate::set::tiles::abi::{OCTET, Signed, Signing, Uniting};
use crate::set::tiles::scheme::TileScheme;
use crate::set::tiles::shape::{TILES, TileShape};
use crate::set::{SetCollection, SetId};

/// Threads of a block that signs.
pub(super) const SIGNING_THREADS: u32 = 256;

/// Where the arrays of signed sets lie: behind them the arrays of columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedPlaces {
    /// Sets with the empty ones behind them.
    padded: u32,
    stages: u32,
    words: u64,
    hidden: u64,
    classes: u64,
    unions: u64,
    stage_classes: u64,
    sizes: u64,
}

/// Columns as kernels read them: addresses by the numbers of sets in the collection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub signed: Signed,
    /// Classes by set, and by stage.
    pub classes: u64,
    pub stage_classes: u64,
    /// The words that rows are tested with.
    pub unions: u64,
    pub row_counts: u64,
}

impl SignedPlaces {
    /// For `count` sets of as many sizes as there are `classes`.
    pub(super) fn of(
        layout: &mut Layout,
        count: u32,
        shape: &TileShape,
        members: u32,
        classes: usize,
    ) -> Self {
        let stage_sets = shape.stage_columns * members;
        let stages = count.div_ceil(stage_sets);
        // Stages and strips are read to their ends.
        let least = u64::from(count) + u64::from(shape.strip_rows) + u64::from(OCTET);
        let padded = least.max(u64::from(stages) * u64::from(stage_sets));
        let padded = padded.next_multiple_of(u64::from(OCTET * members)) as u32;
        let (sets, width) = (u64::from(padded), u64::from(shape.width));
        let words = layout.add(sets, 4 * width);
        let hidden = layout.add(sets, 4);
        let of_set = layout.add(sets, 4);
        let unions = match members {
            1 => words,
            _ => layout.add(sets / u64::from(members), 4 * width),
        };
        let stage_classes = layout.add(u64::from(stages), 8);
        let sizes = layout.add(classes as u64, 4);
        Self { padded, stages, words, hidden, classes: of_set, unions, stage_classes, sizes }
    }

    /// Where the sizes of the classes are expected.
    pub(super) fn sizes(&self) -> u64 {
        self.sizes
    }

    /// The arguments that sign `count` sets and make columns of them, in memory at `start`.
    fn arguments(
        &self,
        start: u64,
        (sets, count): (Sets, u32),
        (shape, scheme, members): (&TileShape, &TileScheme, u32),
        classes: usize,
    ) -> (Signing, Uniting) {
        let at = |place: u64| start + place;
        let signing = scheme.fill(Signing {
            sets,
            words: at(self.words),
            hidden: at(self.hidden),
            classes: at(self.classes),
            sizes: at(self.sizes),
            size_count: classes as u32,
            count,
            padded: self.padded,
            width: 0,
            universe: 0,
            owned: 0,
            hashed_log: 0,
            reserved: 0,
        });
        let uniting = Uniting {
            words: at(self.words),
            unions: at(self.unions),
            classes: at(self.classes),
            stage_classes: at(self.stage_classes),
            count,
            padded: self.padded,
            width: shape.width,
            members,
            stages: self.stages,
            stage_sets: shape.stage_columns * members,
        };
        (signing, uniting)
    }

    /// Has the kernels sign sets and make columns of them, in memory at `start`.
    ///
    /// # Safety
    ///
    /// There is memory for all arrays, it holds the sizes of the classes, and the addresses of the
    /// sets are those of `count` sets.
    pub(super) unsafe fn launch(
        &self,
        stage: &mut Stage<'_>,
        start: u64,
        sets: (Sets, u32),
        kind: (&TileShape, &TileScheme, u32),
        (classes, blocks): (usize, u32),
    ) -> Result<(), DeviceError> {
        let (signing, uniting) = self.arguments(start, sets, kind, classes);
        let sign = stage.kernel(&TILES, "tiles_sign")?;
        let unite = stage.kernel(&TILES, "tiles_unite")?;
        let warps = SIGNING_THREADS / 32;
        let blocks = self.padded.div_ceil(warps).clamp(1, blocks);
        let grid = Grid { blocks, threads: SIGNING_THREADS, shared_words: 0 };
        // SAFETY: the kernels take these arguments, of which the caller says that they hold.
        unsafe {
            stage.launch(sign, grid, signing)?;
            stage.launch(unite, grid, uniting)
        }
    }

    /// The columns in memory at `start`, of which set `first` is the first, at the beginning of a
    /// stage; the addresses of `sets` and `row_counts` are those of the first.
    pub(super) fn columns(
        &self,
        start: u64,
        first: SetId,
        (sets, row_counts): (Sets, u64),
        (shape, members): (&TileShape, u32),
    ) -> Columns {
        // Kernels add the number of a set, or of its column or stage.
        let before = |place: u64, items: u32, bytes: u32| {
            (start + place).wrapping_sub(u64::from(items) * u64::from(bytes))
        };
        let words = 4 * shape.width;
        Columns {
            signed: Signed {
                sets: sets.numbered_from(first),
                words: before(self.words, first, words),
                hidden: before(self.hidden, first, 4),
            },
            classes: before(self.classes, first, 4),
            stage_classes: before(self.stage_classes, first / (shape.stage_columns * members), 8),
            unions: before(self.unions, first / members, words),
            row_counts: match row_counts {
                0 => 0,
                counts => counts.wrapping_sub(u64::from(first) * 4),
            },
        }
    }
}

/// The sets of a collection on a device, signed: what rows are tested with, and, in a self-join,
/// the rows.
#[derive(Debug)]
pub(super) struct SignedColumns {
    sets: ResidentSets,
    signed: Resident,
    places: SignedPlaces,
    shape: TileShape,
    members: u32,
}

impl SignedColumns {
    /// The bytes that signed sets take on a device, beside the sets.
    pub(super) fn bytes_of(
        build: &SetCollection,
        shape: &TileShape,
        members: u32,
        sizes: &[u32],
    ) -> u64 {
        let mut layout = Layout::default();
        SignedPlaces::of(&mut layout, build.len(), shape, members, sizes.len());
        layout.end()
    }

    /// Signs the sets of a collection, which are on the device, and waits for it. `sizes`: the sizes
    /// of the sets, ascending.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where the signatures do not fit.
    pub(super) fn sign(
        device: &Arc<Device>,
        build: &SetCollection,
        sets: ResidentSets,
        (shape, scheme, members): (&TileShape, &TileScheme, u32),
        sizes: &[u32],
    ) -> Result<Self, DeviceError> {
        let mut layout = Layout::default();
        let places = SignedPlaces::of(&mut layout, build.len(), shape, members, sizes.len());
        let signed = device.resident("the signatures of the join", layout.end(), |upload| {
            upload.copy(places.sizes, sizes)
        })?;
        let this = Arc::new(Self { sets, signed, places, shape: *shape, members });
        let (sender, receiver) = channel();
        let blocks = 8 * device.multiprocessors();
        let (holds, classes, count) = (Arc::clone(&this), sizes.len(), build.len());
        let work = SignWork { scheme: *scheme, classes, count, blocks, holds, sender };
        device.submit(Box::new(work));
        let lost = || DeviceError::Internal("signing has no answer".to_string());
        receiver.recv().map_err(|_| lost())??;
        // The work is dropped before it answers.
        Arc::try_unwrap(this).map_err(|_| lost())
    }

    /// The sets as columns of a kernel.
    pub(super) fn columns(&self) -> Columns {
        let sets = (self.sets.sets(), self.sets.rows());
        self.places.columns(self.signed.address(), 0, sets, (&self.shape, self.members))
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        self.sets.is_at(stage) && stage.has(&self.signed)
    }
}

/// Fills [`SignedColumns`].
#[derive(Debug)]
struct SignWork {
    scheme: TileScheme,
    classes: usize,
    count: u32,
    blocks: u32,
    holds: Arc<SignedColumns>,
    sender: Sender<Result<(), DeviceError>>,
}

impl DeviceWork for SignWork {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let SignedColumns { sets, signed, places, shape, members } = &*self.holds;
        if !self.holds.is_at(stage) {
            return Err(DeviceError::Internal("sets of another device are signed".to_string()));
        }
        let kind = (shape, &self.scheme, *members);
        let sets = (sets.sets(), self.count);
        // SAFETY: the work holds the sets and the memory of all arrays, to which the sizes have been
        // copied.
        unsafe { places.launch(stage, signed.address(), sets, kind, (self.classes, self.blocks)) }
    }

    fn finish(&mut self, _: &mut Results<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let Self { holds, sender, .. } = *self;
        drop(holds);
        // The receiver waits.
        let _ = sender.send(outcome.map(|_| ()));
    }
}
