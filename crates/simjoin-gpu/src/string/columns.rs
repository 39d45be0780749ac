//! The build side on a device: what rows are tested with, and, in a self-join, the rows.

use std::sync::Arc;

use simjoin_core::string::collection::Strings;

use crate::offload::{Arena, run};
use crate::runtime::{Device, DeviceError, Images, LaunchGrid, Resident, Stage, images};
use crate::string::abi::{STAGE, TextSide, TextSigning};
use crate::string::packed::{DeclaredTexts, PackedTexts};

pub(super) static TEXTS: Images = images!("texts");

/// The build side as it is brought to devices.
#[derive(Debug)]
pub(super) struct PackedColumns {
    texts: PackedTexts,
    /// By item the place of its run, and by stage the least and the greatest of these.
    classes: Vec<u32>,
    stage_classes: Vec<u32>,
    /// The bit of each element in signatures.
    pub bits: Arc<Vec<u8>>,
}

/// The addresses of the build side.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnSide {
    pub side: TextSide,
    pub classes: u64,
    pub stage_classes: u64,
    pub boxes: u64,
}

impl PackedColumns {
    pub(super) fn new(build: &Strings, texts: PackedTexts, bits: Arc<Vec<u8>>) -> Self {
        let runs = build.runs().iter().zip(0..);
        let classes: Vec<u32> =
            runs.flat_map(|(run, place)| run.items.clone().map(move |_| place)).collect();
        // Places ascend.
        let ends = |stage: &[u32]| [stage[0], stage[stage.len() - 1]];
        let stage_classes = classes.chunks(STAGE as usize).flat_map(ends).collect();
        Self { texts, classes, stage_classes, bits }
    }

    /// A bound on the bytes of a build side of so many items on a device, whose codes take `words` words.
    pub(super) fn bytes_of(items: u32, words: usize) -> u64 {
        // Starts, lengths, signatures, row counts and classes; a part of the arrays of a stage; and the ends
        // of arrays with the bits.
        4 * words as u64 + 32 * u64::from(items) + (1 << 13)
    }

    fn declare<'a>(&'a self, arena: &mut Arena<'a>) -> (DeclaredTexts, ColumnSide) {
        let declared = self.texts.declare(arena, &self.bits, true);
        let columns = ColumnSide {
            side: declared.side(0),
            classes: arena.copied(&self.classes),
            stage_classes: arena.copied(&self.stage_classes),
            boxes: declared.signing.boxes,
        };
        (declared, columns)
    }
}

/// Has a kernel sign texts.
///
/// # Safety
///
/// The addresses are those of the texts and of their arrays, in memory of this stage.
pub(super) unsafe fn sign(
    stage: &mut Stage<'_>,
    signing: TextSigning,
    multiprocessors: u32,
) -> Result<(), DeviceError> {
    let kernel = stage.kernel(&TEXTS, "texts_sign")?;
    let blocks = signing.count.div_ceil(STAGE).clamp(1, 32 * multiprocessors);
    // SAFETY: the kernel takes a `TextSigning`, of which the caller says that it holds.
    unsafe { stage.launch(kernel, LaunchGrid { blocks, threads: STAGE, shared_words: 0 }, signing) }
}

/// The texts of a build side on a device, signed.
#[derive(Debug)]
pub(super) struct SignedTexts {
    memory: Resident,
    columns: ColumnSide,
}

impl SignedTexts {
    /// Brings the build side to a device, and waits until it is signed there.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where it does not fit.
    pub(super) fn on(
        device: &Arc<Device>,
        build: &PackedColumns,
    ) -> Result<Arc<Self>, DeviceError> {
        let mut arena = Arena::at(0);
        build.declare(&mut arena);
        let memory = device
            .resident("the texts of the join", arena.bytes(), |upload| arena.upload(upload))?;
        let mut arena = Arena::at(memory.address());
        let (DeclaredTexts { signing, .. }, columns) = build.declare(&mut arena);
        let this = Arc::new(Self { memory, columns });
        let (holds, multiprocessors) = (Arc::clone(&this), device.multiprocessors());
        run(device, move |stage| {
            if !holds.is_at(stage) {
                return Err(DeviceError::Internal("texts of another device are signed".into()));
            }
            // SAFETY: the work holds the memory, to which all arrays have been copied.
            unsafe { sign(stage, signing, multiprocessors) }
        })?;
        Ok(this)
    }

    pub(super) fn columns(&self) -> ColumnSide {
        self.columns
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        stage.has(&self.memory)
    }
}
