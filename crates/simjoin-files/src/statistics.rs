//! Statistics of Parquet files, as far as values follow from them.
//!
//! The bounds of a column of floats leave NaN out, which in DataFusion's order lies beyond all numbers:
//! neither the greatest value nor the row groups that a condition may skip follow from them. And a reader
//! does not take a column for one value because its bounds are equal: NaN is not in them, and some writers
//! have written bounds in another time zone.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::utils::{conjunction_opt, split_conjunction};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

/// Takes what does not follow from the statistics of a plan's scans out of them, before any other rule
/// reads them.
#[derive(Debug)]
struct TrustNoBounds;

/// A session whose plans have no answers from bounds of floats.
pub fn with_trusted_bounds(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let optimizer = builder.physical_optimizers().get_or_insert_with(PhysicalOptimizer::new);
    if !optimizer.rules.iter().any(|rule| rule.name() == TrustNoBounds.name()) {
        optimizer.rules.insert(0, Arc::new(TrustNoBounds));
    }
    builder
}

impl PhysicalOptimizerRule for TrustNoBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let scan = plan.downcast_ref::<DataSourceExec>();
            let config = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
            Ok(match (scan, config.and_then(with_statistics)) {
                (Some(scan), Some(config)) => {
                    let scan = scan.clone().with_data_source(Arc::new(config));
                    Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>)
                }
                _ => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "trust_no_bounds_of_floats"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan of Parquet with bounds that hold for every value.
fn with_statistics(config: &FileScanConfig) -> Option<FileScanConfig> {
    if !config.file_source.is::<ParquetSource>() {
        return None;
    }
    let schema = Arc::clone(config.file_source.table_schema().table_schema());
    let mut statistics = config.statistics();
    forget_bounds_of_floats(&mut statistics, &schema);
    let groups = config.file_groups.iter().map(|group| {
        let files = group.files().iter().map(|file| {
            let mut file = file.clone();
            if let Some(of_file) = &mut file.statistics {
                let of_file = Arc::make_mut(of_file);
                forget_bounds_of_floats(of_file, &schema);
                for column in &mut of_file.column_statistics {
                    for bound in [&mut column.min_value, &mut column.max_value] {
                        *bound = std::mem::take(bound).to_inexact();
                    }
                }
            }
            file
        });
        FileGroup::new(files.collect())
    });
    let groups = groups.collect();
    let builder = FileScanConfigBuilder::from(config.clone());
    Some(builder.with_file_groups(groups).with_statistics(statistics).build())
}

fn forget_bounds_of_floats(statistics: &mut Statistics, schema: &Schema) {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if field.data_type().is_floating() {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
}

/// A source of Parquet that skips no row groups by bounds of floats.
///
/// # Errors
///
/// When a condition cannot be read.
pub(super) fn without_pruning_by_floats(
    source: &Arc<dyn FileSource>,
) -> Result<Arc<dyn FileSource>> {
    let (Some(parquet), Some(predicate)) =
        (source.downcast_ref::<ParquetSource>(), source.filter())
    else {
        return Ok(Arc::clone(source));
    };
    let schema = source.table_schema().table_schema();
    let mut kept = vec![];
    let mut all = 0;
    for conjunct in split_conjunction(&predicate) {
        all += 1;
        if !reads_floats(conjunct, schema)? {
            kept.push(Arc::clone(conjunct));
        }
    }
    if kept.len() == all {
        return Ok(Arc::clone(source));
    }
    let mut options = parquet.table_parquet_options().clone();
    if options.global.pushdown_filters {
        // The source is the only one that knows the conditions.
        options.global.pruning = false;
        options.global.enable_page_index = false;
        return Ok(Arc::new(parquet.clone().with_table_parquet_options(options)));
    }
    // Conditions that are left to the plan are there for skipping row groups alone.
    let kept = conjunction_opt(kept).unwrap_or_else(|| lit(true));
    Ok(Arc::new(parquet.with_predicate(kept)))
}

fn reads_floats(expression: &PhysicalExprRef, schema: &Schema) -> Result<bool> {
    let mut found = false;
    expression.apply(|part: &Arc<dyn PhysicalExpr>| {
        let field = part.downcast_ref::<Column>().and_then(|c| schema.fields().get(c.index()));
        found |= field.is_some_and(|field| field.data_type().is_floating());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
