//! FULL joins of two sides whose rows both are part of the answer even without a match.
//!
//! No task knows of all partners of a row of either side, unless it reads everything. So the join
//! is a LEFT one, and next to it the right rows without a partner, with NULLs for the left side.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{CaseExpr, Column, IsNotNullExpr, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::Distribution;
use crate::exec::{JoinInput, JoinPartsExec};
use crate::spec::{CountOf, Need, OutputColumn, Side, SimilarityJoin};

impl Distribution<'_> {
    /// The FULL join as two joins, each shared by the tasks in its own way.
    pub(crate) fn full(self) -> Result<Arc<dyn ExecutionPlan>> {
        let left = SimilarityJoin { join_type: JoinType::Left, ..self.join.clone() };
        let (right, padding) = self.unmatched_right_rows()?;
        let input = match &self.input {
            JoinInput::Two { left, right, build, partitions } => JoinInput::Two {
                left: reset_plan_states(Arc::clone(left))?,
                right: reset_plan_states(Arc::clone(right))?,
                build: *build,
                partitions: *partitions,
            },
            JoinInput::Itself { input, partitions } => JoinInput::Itself {
                input: reset_plan_states(Arc::clone(input))?,
                partitions: *partitions,
            },
        };
        let unmatched = Distribution { input, join: right, ..self }.plan()?;
        let padded = ProjectionExec::try_new(padding, unmatched)?;
        let matched = Distribution { join: left, ..self }.plan()?;
        Ok(Arc::new(JoinPartsExec::try_new(vec![matched, Arc::new(padded)])?))
    }

    /// The right rows without a partner, and the projection that makes rows of the FULL join of
    /// them.
    fn unmatched_right_rows(&self) -> Result<(SimilarityJoin, Vec<ProjectionExpr>)> {
        let input = self.input.side(Side::Right).schema();
        let mut needed: Vec<usize> = vec![];
        let right = self.join.output.iter().filter_map(|column| column.source());
        for (_, index) in right.filter(|(side, _)| *side == Side::Right) {
            if !needed.contains(&index) {
                needed.push(index);
            }
        }
        let fields = needed.iter().map(|&index| Arc::clone(&input.fields()[index]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let column = |index: usize| -> PhysicalExprRef {
            let place = needed.iter().position(|&other| other == index).unwrap_or_default();
            Arc::new(Column::new(input.field(index).name(), place))
        };
        let literal = |value| -> PhysicalExprRef { Arc::new(Literal::new(value)) };
        let count = |count: i64| literal(ScalarValue::Int64(Some(count)));
        let null = |data_type: &DataType| ScalarValue::try_from(data_type).map(literal);
        let padding = self.join.output.iter().zip(self.join.schema.fields()).map(
            |(output, field): (_, &Arc<Field>)| {
                let expr = match *output {
                    OutputColumn::Input(Side::Right, index) => column(index),
                    OutputColumn::Input(Side::Left, _) | OutputColumn::Score(_) => {
                        null(field.data_type())?
                    }
                    OutputColumn::Count(CountOf::Rows | CountOf::Matched(Side::Right)) => count(1),
                    OutputColumn::Count(CountOf::NonNull(Side::Right, index)) => {
                        let known = Arc::new(IsNotNullExpr::new(column(index))) as PhysicalExprRef;
                        let when = vec![(known, count(1))];
                        Arc::new(CaseExpr::try_new(None, when, Some(count(0)))?)
                    }
                    OutputColumn::Count(CountOf::Matched(_) | CountOf::NonNull(..)) => count(0),
                };
                Ok(ProjectionExpr { expr, alias: field.name().clone() })
            },
        );
        let padding = padding.collect::<Result<Vec<_>>>()?;
        let join = SimilarityJoin {
            join_type: JoinType::RightAnti,
            need: Need::Rows,
            output: needed.iter().map(|&index| OutputColumn::Input(Side::Right, index)).collect(),
            schema,
            ..self.join.clone()
        };
        Ok((join, padding))
    }
}
