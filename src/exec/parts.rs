//! The rows of a join that is run as several.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::hands_on::hands_on_rows;

/// A union of joins that together give the rows of one. It passes rows on, and no filter through.
///
/// [`UnionExec`] of DataFusion 55 pushes a filter into its inputs by the names of columns, and a
/// join may have two of one name (apache/datafusion issue 25244): the filter would read the first.
#[derive(Debug, Clone)]
pub struct JoinPartsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl JoinPartsExec {
    /// # Errors
    ///
    /// An error if the parts have different columns.
    pub fn try_new(parts: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        Ok(Self::over(UnionExec::try_new(parts)?))
    }

    /// Above a union that is there already.
    pub fn over(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self::over(input))
    }
}

impl DisplayAs for JoinPartsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("JoinPartsExec"),
        }
    }
}

impl ExecutionPlan for JoinPartsExec {
    fn name(&self) -> &str {
        "JoinPartsExec"
    }

    hands_on_rows!();
}
