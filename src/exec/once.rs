//! Functions that a condition calls several times, computed once for a pair.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::expressions::Column;

use crate::families::Families;
use crate::spec::Residual;

/// An expression over the columns of a batch and over parts that are computed first.
#[derive(Debug, Clone, Eq)]
struct WithParts {
    parts: Vec<PhysicalExprRef>,
    /// The columns of a batch, and the parts behind them.
    schema: SchemaRef,
    body: PhysicalExprRef,
}

/// A residual whose calls of functions of families are computed once each, as far as they cannot fail: a CASE may keep
/// others from being computed.
pub(crate) fn computed_once(residual: Residual, families: &Families) -> Result<Residual> {
    let parts = repeated(&residual.expression, families)?;
    if parts.is_empty() {
        return Ok(residual);
    }
    let columns = residual.schema.fields().len();
    let mut fields: Vec<Field> =
        residual.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (place, part) in parts.iter().enumerate() {
        fields.push(Field::new(name_of(place), part.data_type(&residual.schema)?, true));
    }
    let body = Arc::clone(&residual.expression).transform_down(|expr| {
        Ok(match parts.iter().position(|part| part.eq(&expr)) {
            Some(place) => {
                let column = Arc::new(Column::new(&name_of(place), columns + place));
                Transformed::new(column as PhysicalExprRef, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(expr),
        })
    });
    let (schema, body) = (Arc::new(Schema::new(fields)), body.data()?);
    Ok(Residual { expression: Arc::new(WithParts { parts, schema, body }), ..residual })
}

fn name_of(place: usize) -> String {
    format!("__simjoin_part_{place}")
}

/// The calls that occur several times, in their order.
fn repeated(expression: &PhysicalExprRef, families: &Families) -> Result<Vec<PhysicalExprRef>> {
    let (mut once, mut repeated) = (vec![], vec![]);
    expression.apply(|expr| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        let function = call.and_then(|call| families.function_of(call.fun()));
        let Some(function) = function else { return Ok(TreeNodeRecursion::Continue) };
        // Vectors of different lengths are an error, too.
        let may_fail = function.info().is_partial || function.may_be_nan();
        if !may_fail && !expr.is_volatile_node() && !repeated.contains(expr) {
            match once.contains(expr) {
                true => repeated.push(Arc::clone(expr)),
                false => once.push(Arc::clone(expr)),
            }
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(repeated)
}

// Derived, the comparison would move the body.
impl PartialEq for WithParts {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts && self.schema == other.schema && self.body.eq(&other.body)
    }
}

impl Hash for WithParts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
        self.body.hash(state);
    }
}

impl fmt::Display for WithParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(f)
    }
}

impl PhysicalExpr for WithParts {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        self.body.data_type(&self.schema)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        self.body.nullable(&self.schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for part in &self.parts {
            columns.push(part.evaluate(batch)?.into_array(rows)?);
        }
        self.body.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.parts.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        if children.len() != self.parts.len() {
            return internal_err!("{} of {} parts", children.len(), self.parts.len());
        }
        let Self { schema, body, .. } = self.as_ref();
        let (schema, body) = (Arc::clone(schema), Arc::clone(body));
        Ok(Arc::new(Self { parts: children, schema, body }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
    use arrow::datatypes::{Float64Type, Int64Type};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, lit, when};
    use datafusion::prelude::{SessionContext, col};

    use super::*;
    use crate::functions::expr_fn::jaccard;
    use crate::functions::string_udf;
    use crate::session::families;
    use crate::string::StringFunction;

    fn residual(expression: Expr) -> (Residual, RecordBatch) {
        let lists = |rows: [&[i64]; 2]| {
            let rows =
                rows.map(|row| Some(row.iter().map(|token| Some(*token)).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)) as ArrayRef
        };
        let batch = RecordBatch::try_from_iter([
            ("x", lists([&[1, 2], &[1, 2, 3]])),
            ("y", lists([&[2, 3], &[1, 2, 3]])),
            ("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ]);
        let batch = batch.unwrap();
        let schema = DFSchema::try_from(batch.schema()).unwrap();
        let expression = SessionContext::new().create_physical_expr(expression, &schema).unwrap();
        (Residual { expression, columns: vec![], schema: batch.schema() }, batch)
    }

    #[test]
    fn calls_that_occur_twice_are_computed_once() {
        let score = || jaccard(col("x"), col("y"));
        let twice = when(score().is_not_null(), score()).otherwise(lit(0.0)).unwrap() + score();
        let (given, batch) = residual(twice);
        let found = computed_once(given.clone(), &families()).unwrap();
        let with_parts = found.expression.downcast_ref::<WithParts>().unwrap();
        assert_eq!(with_parts.parts.len(), 1);
        assert_eq!(format!("{}", with_parts.body).matches("jaccard").count(), 0);
        let [expected, values] = [&given, &found].map(|residual| -> Float64Array {
            let values = residual.expression.evaluate(&batch).unwrap().into_array(2).unwrap();
            values.as_primitive::<Float64Type>().clone()
        });
        assert_eq!(values, expected);
        assert_eq!(values, Float64Array::from(vec![2.0 / 3.0, 2.0]));
    }

    #[test]
    fn calls_that_may_fail_stay_where_they_are() {
        let hamming = || string_udf(StringFunction::Hamming).call(vec![lit("a"), lit("b")]);
        let once = jaccard(col("x"), col("y")).gt(lit(0.5));
        let condition = once.and((hamming() + hamming()).lt(lit(2)));
        let (given, _) = residual(condition);
        let found = computed_once(given, &families()).unwrap();
        assert!(found.expression.downcast_ref::<WithParts>().is_none());
    }
}
