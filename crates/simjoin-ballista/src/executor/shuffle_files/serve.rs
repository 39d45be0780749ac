//! Checking what a request asks for, before it is sent.

use std::path::Path;

use ballista_core::execution_plans::create_shuffle_path;
use ballista_core::execution_plans::range_shuffle::index_path as range_index_path;
use ballista_core::execution_plans::sort_shuffle::get_index_path;
use ballista_core::serde::scheduler::{Action as Fetch, ShuffleFileKind, ShuffleLayout};
use datafusion::common::Result;

use super::files::{check, check_partition, check_whole};
use super::stage::blocking;

/// Checks the parts of files in `work_dir` that a request asks for. A file that does not exist is an
/// error of whoever answers the request.
///
/// # Errors
///
/// When they have changed, or cannot be read.
pub(in crate::executor) async fn check_fetch(work_dir: &Path, fetch: Fetch) -> Result<()> {
    let Fetch::FetchPartition {
        job_id,
        stage_id,
        partition_id,
        file_id,
        layout,
        file_kind,
        byte_ranges,
        ..
    } = fetch;
    let sorted = layout == ShuffleLayout::Sort;
    let data = create_shuffle_path(work_dir, &job_id, stage_id, partition_id, file_id, sorted)?;
    let checked = blocking(move || {
        let index = match layout {
            ShuffleLayout::Sort => get_index_path(&data),
            ShuffleLayout::Passthrough => range_index_path(&data),
        };
        match file_kind {
            ShuffleFileKind::Index if index.exists() => check_whole(&index),
            ShuffleFileKind::Data if data.exists() && byte_ranges.is_empty() => {
                check_partition(&data, partition_id)
            }
            ShuffleFileKind::Data if data.exists() => {
                let part = |start: u64, length: u64| start..start.saturating_add(length);
                check(&data, byte_ranges.iter().map(|range| part(range.offset, range.length)))
            }
            ShuffleFileKind::Index | ShuffleFileKind::Data => Ok(()),
        }
    });
    checked.await.inspect_err(|error| log::warn!("{}", error.strip_backtrace()))
}
