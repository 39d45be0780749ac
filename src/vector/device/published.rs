//! The published joins of points on a GPU (Böhm, Noll, Plant, Zherdin: Density-based clustering and
//! similarity join on graphics processors, BTW 2009), to compare with: by a nested loop, and by a
//! directory of quantiles. For distances; `auto` never takes them.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};

use super::directory::Directory;
use super::shape::{Numbers, VectorKernel, VectorShape};
use super::work::Form;
use super::{Preparation, prepare};
use crate::engine::{
    Collection, Cost, DevicePlace, Evidence, Placement, PrepareContext, PreparedJoin, Strategy,
};
use crate::vector::collection::Vectors;
use crate::vector::nested_loop::{Figures, Joining};

/// A published join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vector) enum Published {
    Loop,
    /// Of statements that count, over columns that are finite and lie on the device; otherwise the loop.
    Directory,
}

impl Published {
    /// The form of its works, and the directory.
    ///
    /// # Errors
    ///
    /// Where memory is refused, or the work cancelled.
    pub(super) fn form(
        self,
        form: &Form,
        build: &Vectors,
        travels: bool,
        context: PrepareContext<'_>,
    ) -> Result<(Form, Option<Directory>)> {
        let directory = match self {
            Self::Directory if form.counts && !travels => {
                Directory::of(build, form.preparation.dimensions, context)?
            }
            Self::Loop | Self::Directory => None,
        };
        let shape = match &directory {
            Some(_) => VectorShape::PUBLISHED_DIRECTORY,
            None => VectorShape::PUBLISHED_LOOP,
        };
        let preparation = Preparation { shape, centre: 0, ..form.preparation };
        Ok((Form { preparation, ..*form }, directory))
    }
}

impl VectorShape {
    const PUBLISHED_LOOP: Self = Self {
        kernel: VectorKernel::Plain,
        numbers: Numbers::Halves,
        name: "vectors_published_loop",
        threads: 128,
        blocks: 8,
        strip_rows: 128,
        stage_columns: 32,
        blocked: false,
        shared_words: 0,
        box_chunks: 0,
    };
    const PUBLISHED_DIRECTORY: Self =
        Self { name: "vectors_published_directory", ..Self::PUBLISHED_LOOP };

    /// Whether the kernel walks a directory, and decides what it finds there.
    pub(super) fn walks_directory(&self) -> bool {
        *self == Self::PUBLISHED_DIRECTORY
    }
}

impl Strategy for Published {
    fn name(&self) -> &'static str {
        match self {
            Self::Loop => "nested-loop-published",
            Self::Directory => "directory-published",
        }
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Gpu
    }

    fn only_named(&self) -> bool {
        true
    }

    fn estimate(&self, evidence: &dyn Evidence, _: Placement) -> Result<Cost> {
        let figures: &Figures = evidence.of()?;
        Ok(figures.on_device)
    }

    fn prepare(
        &self,
        build: &Arc<dyn Collection>,
        evidence: &dyn Evidence,
        device: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Figures { threshold, orders, spec, .. } = *evidence.of()?;
        let Some(device) = device else {
            return internal_err!("{} has no device", self.name());
        };
        let join = Joining { threshold, orders, spec };
        prepare(&build.shared()?, join, &device.shared()?, Some(*self), context)
    }
}
