//! The signed build side on a device.

use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::offload::{Arena, run};
use crate::runtime::{Device, DeviceError, LaunchGrid, Resident, Stage};
use crate::set::bitmap::abi::{OCTET, Signed, Signing, Uniting};
use crate::set::bitmap::scheme::TileScheme;
use crate::set::bitmap::shape::{TILES, TileShape};
use crate::set::device::ResidentSets;
use crate::set::device::abi::Sets;

/// Threads of a block that signs.
const SIGNING_THREADS: u32 = 256;

/// Columns as kernels read them: addresses by the numbers of sets in the collection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SignatureColumns {
    pub signed: Signed,
    /// Classes by set, and by stage.
    pub classes: u64,
    pub stage_classes: u64,
    /// The words that rows are tested with.
    pub unions: u64,
    pub row_counts: u64,
}

/// The settings by which sets are signed and united to columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signatures {
    pub shape: TileShape,
    pub scheme: TileScheme,
    /// Sets of a column.
    pub members: u32,
}

/// The arguments of the kernels that make columns of sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Making {
    signing: Signing,
    uniting: Uniting,
}

impl Making {
    /// Declares the columns of `count` sets. `sizes`: the sizes of sets, ascending: the classes.
    pub(super) fn declare<'a>(
        arena: &mut Arena<'a>,
        signatures: &Signatures,
        (sets, count): (Sets, u32),
        sizes: &'a [u32],
    ) -> Self {
        let Signatures { shape, scheme, members } = *signatures;
        let stage_sets = shape.stage_columns * members;
        let stages = count.div_ceil(stage_sets);
        // Stages and strips are read to their ends.
        let least = u64::from(count) + u64::from(shape.strip_rows) + u64::from(OCTET);
        let padded = least.max(u64::from(stages) * u64::from(stage_sets));
        let all = padded.next_multiple_of(u64::from(OCTET * members));
        let word_bytes = 4 * u64::from(shape.width);
        let signing = scheme.fill(Signing {
            sets,
            words: arena.room_of(all, word_bytes),
            hidden: arena.room::<u32>(all),
            classes: arena.room::<u32>(all),
            sizes: arena.copied(sizes),
            size_count: sizes.len() as u32,
            count,
            padded: all as u32,
            ..Signing::default()
        });
        let uniting = Uniting {
            words: signing.words,
            unions: match members {
                1 => signing.words,
                _ => arena.room_of(all / u64::from(members), word_bytes),
            },
            classes: signing.classes,
            stage_classes: arena.room::<u64>(stages.into()),
            count,
            padded: signing.padded,
            width: shape.width,
            members,
            stages,
            stage_sets,
        };
        Self { signing, uniting }
    }

    /// Has the kernels sign the sets and make columns of them.
    ///
    /// # Safety
    ///
    /// The addresses are those of the sets and of the arrays declared, in memory of this stage.
    pub(super) unsafe fn launch(
        &self,
        stage: &mut Stage<'_>,
        multiprocessors: u32,
    ) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { sign(stage, &self.signing, multiprocessors)? };
        let unite = stage.kernel(&TILES, "tiles_unite")?;
        let grid = signing_grid(self.signing.padded, multiprocessors);
        // SAFETY: the kernel takes a `Uniting`; the rest is as the caller promises.
        unsafe { stage.launch(unite, grid, self.uniting) }
    }

    /// The columns, of which set `first` is the first, at the beginning of a stage. `row_counts`: the
    /// address of those of the first.
    pub(super) fn columns(&self, first: SetId, row_counts: u64) -> SignatureColumns {
        let Self { signing, uniting } = self;
        // Kernels add the number of a set, or of its column or stage.
        let before = |address: u64, items: u32, bytes: u32| {
            address.wrapping_sub(u64::from(items) * u64::from(bytes))
        };
        let words = 4 * uniting.width;
        SignatureColumns {
            signed: Signed {
                sets: signing.sets.numbered_from(first),
                words: before(signing.words, first, words),
                hidden: before(signing.hidden, first, 4),
            },
            classes: before(signing.classes, first, 4),
            stage_classes: before(uniting.stage_classes, first / uniting.stage_sets, 8),
            unions: before(uniting.unions, first / uniting.members, words),
            row_counts: if row_counts == 0 { 0 } else { before(row_counts, first, 4) },
        }
    }
}

/// The grid of a kernel whose warps take up `padded` sets.
fn signing_grid(padded: u32, multiprocessors: u32) -> LaunchGrid {
    let blocks = padded.div_ceil(SIGNING_THREADS / 32).clamp(1, 8 * multiprocessors);
    LaunchGrid { blocks, threads: SIGNING_THREADS, shared_words: 0 }
}

/// Has a kernel sign sets.
///
/// # Safety
///
/// The addresses are those of the sets, and of arrays with room for all of them, in memory of this stage.
pub(super) unsafe fn sign(
    stage: &mut Stage<'_>,
    signing: &Signing,
    multiprocessors: u32,
) -> Result<(), DeviceError> {
    let kernel = stage.kernel(&TILES, "tiles_sign")?;
    // SAFETY: the kernel takes a `Signing`; the rest is as the caller promises.
    unsafe { stage.launch(kernel, signing_grid(signing.padded, multiprocessors), *signing) }
}

/// The sets of a collection on a device, signed: what rows are tested with, and, in a self-join,
/// the rows.
#[derive(Debug)]
pub(super) struct SignedColumns {
    sets: ResidentSets,
    signed: Resident,
    columns: SignatureColumns,
}

impl SignedColumns {
    /// The bytes that signed sets take on a device, beside the sets.
    pub(super) fn bytes_of(build: &SetCollection, signatures: &Signatures, sizes: &[u32]) -> u64 {
        let mut arena = Arena::at(0);
        Making::declare(&mut arena, signatures, (Sets::default(), build.len()), sizes);
        arena.bytes()
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
        signatures: &Signatures,
        sizes: &[u32],
    ) -> Result<Arc<Self>, DeviceError> {
        let signed_sets = (sets.sets(), build.len());
        let mut arena = Arena::at(0);
        Making::declare(&mut arena, signatures, signed_sets, sizes);
        let signed = device
            .resident("the signatures of the join", arena.bytes(), |upload| arena.upload(upload))?;
        let mut arena = Arena::at(signed.address());
        let making = Making::declare(&mut arena, signatures, signed_sets, sizes);
        let columns = making.columns(0, sets.rows());
        let this = Arc::new(Self { sets, signed, columns });
        let (holds, multiprocessors) = (Arc::clone(&this), device.multiprocessors());
        run(device, move |stage| {
            if !holds.is_at(stage) {
                return Err(DeviceError::Internal("sets of another device are signed".into()));
            }
            // SAFETY: the work holds the sets and the memory of all arrays, to which the sizes have
            // been copied.
            unsafe { making.launch(stage, multiprocessors) }
        })?;
        Ok(this)
    }

    /// The sets as columns of a kernel.
    pub(super) fn columns(&self) -> SignatureColumns {
        self.columns
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        self.sets.is_at(stage) && stage.has(&self.signed)
    }
}
