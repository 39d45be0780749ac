//! Tests of the crate's structure: the directions in which folders depend on each other ([`arrows`]), and the
//! names of types ([`names`]). With them the smallest family of similarities, which runs through everything
//! above the boundary; [`statements`] holds the statements of a family against nested loops.

use std::sync::Arc;

use datafusion::prelude::SessionConfig;

use crate::tuning::Tuning;

mod arrows;
mod families;
mod names;
mod near;
pub(crate) mod statements;

/// A session that takes every part for few rows.
pub(crate) fn small(config: SessionConfig) -> SessionConfig {
    config.with_extension(Arc::new(Tuning::small()))
}
