//! The sizes of a session.

use datafusion::prelude::SessionConfig;

use crate::tuning::Tuning;

/// The tuning of a session, which is an extension of its configuration.
pub(crate) fn tuning_of(config: &SessionConfig) -> Tuning {
    config.get_extension::<Tuning>().map_or_else(Tuning::default, |tuning| *tuning)
}
