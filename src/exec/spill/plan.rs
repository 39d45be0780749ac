//! The join over rows as they lie on disk.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{NullEquality, Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::config::SimJoinOptions;
use crate::engine::{KeyConverter, Orders, StoredForm};
use crate::exec::layout::{JoinLayout, Sides};
use crate::families::Bound;
use crate::spec::{Residual, ResidualColumn, Side, SimilarityJoin};

/// The form of both sides of a join on disk, and the joins over it.
///
/// A row is stored as its value, its blocking key and the columns that output and residual read:
/// `[item, key?, stored columns …]`. Expressions have been evaluated once, when the row was read.
#[derive(Debug)]
pub(crate) struct StoredPlan {
    /// Per side, the input columns that are stored.
    pub stored: [Vec<usize>; 2],
    pub forms: [Arc<dyn StoredForm>; 2],
    pub schemas: [SchemaRef; 2],
    /// A piece of the build side against rows of the probe side.
    pub cross: Arc<JoinLayout>,
    /// For a self-join: a piece against itself.
    pub itself: Option<Arc<JoinLayout>>,
    /// Whether a self-join finds each pair once: the rows of a piece meet each other, then the rows
    /// behind the piece. Otherwise they meet all rows.
    pub once: bool,
    /// The build side from disk, the rows of the probe side as they come. Not for self-joins, and
    /// not in mirrored mode, where both sides must be in stored form.
    pub direct: Option<Arc<JoinLayout>>,
    /// The converter of stored keys.
    pub converter: Option<Arc<KeyConverter>>,
    pub has_keys: bool,
}

impl StoredPlan {
    /// `inputs` are the schemas of both sides.
    pub(crate) fn try_new(
        layout: &JoinLayout,
        inputs: [SchemaRef; 2],
        options: &SimJoinOptions,
    ) -> Result<Self> {
        let join = &layout.join;
        let has_keys = !join.on.is_empty();
        let mut stored = layout.carried.clone();
        for (side, columns) in stored.iter_mut().enumerate() {
            // The rows are ranked by this column.
            columns.extend(layout.row_order.iter().map(|order| order.columns[side]));
            columns.sort_unstable();
            columns.dedup();
        }
        let forms = [Side::Left, Side::Right].map(|side| layout.matcher.stored(side));
        let mut schemas = inputs.clone();
        for side in [Side::Left, Side::Right] {
            let (s, input) = (side as usize, &inputs[side as usize]);
            let mut fields = vec![Field::new("item", forms[s].data_type(), true)];
            if has_keys {
                fields.push(Field::new("key", DataType::Binary, true));
            }
            let columns = stored[s].iter().map(|&column| input.field(column).clone());
            fields.extend(columns.enumerate().map(|(i, field)| field.with_name(format!("c{i}"))));
            schemas[s] = Arc::new(Schema::new(fields));
        }
        let both = over_stored(join, &stored, [true, true], has_keys)?;
        // A matcher reads stored values as it reads those of the inputs.
        let bound = |join: &SimilarityJoin, is_stored: [bool; 2]| {
            let source = |side: usize| match is_stored[side] {
                true => Arc::clone(&join.arguments[side]),
                false => Arc::clone(&layout.sources[side]),
            };
            let (matcher, families) = (Arc::clone(&layout.matcher), layout.families.clone());
            Bound { matcher, sources: [source(0), source(1)], families }
        };
        let build = layout.build();
        let direct = match layout.self_join || layout.spec.orders == Orders::Mirrored {
            true => None,
            false => {
                let mut sides = [true, true];
                sides[layout.probe as usize] = false;
                let join = over_stored(join, &stored, sides, has_keys)?;
                let bound = bound(&join, sides);
                Some(Arc::new(JoinLayout::try_new(join, bound, Sides::Two(build), options)?))
            }
        };
        let once = layout.spec.orders == Orders::Unordered;
        let sides = match layout.spec.orders {
            Orders::Given => Sides::Two(build),
            Orders::Mirrored | Orders::Unordered => Sides::Mirrored(build),
        };
        let of_both = bound(&both, [true, true]);
        let cross = JoinLayout::try_new(both.clone(), of_both, sides, options)?;
        let itself = match layout.self_join {
            true => {
                let bound = bound(&both, [true, true]);
                let mut itself = JoinLayout::try_new(both, bound, Sides::Itself, options)?;
                if once {
                    // The same piece meets other rows afterwards, which may need more of its
                    // columns.
                    itself.carried = cross.carried.clone();
                    itself.meets_others = true;
                }
                Some(Arc::new(itself))
            }
            false => None,
        };
        Ok(Self {
            stored,
            forms,
            schemas,
            cross: Arc::new(cross),
            itself,
            once,
            direct,
            converter: has_keys.then(|| Arc::new(KeyConverter::of_stored())),
            has_keys,
        })
    }

    /// The columns of a batch of a side that are stored besides value and key.
    pub(crate) fn columns(&self, side: Side, batch: &RecordBatch) -> Vec<ArrayRef> {
        let columns = self.stored[side as usize].iter();
        columns.map(|&column| ArrayRef::clone(batch.column(column))).collect()
    }
}

/// `join` with its expressions over the stored rows of some `sides`.
fn over_stored(
    join: &SimilarityJoin,
    stored: &[Vec<usize>; 2],
    sides: [bool; 2],
    has_keys: bool,
) -> Result<SimilarityJoin> {
    let first = 1 + usize::from(has_keys);
    let place = |side: Side, column: usize| match stored[side as usize].binary_search(&column) {
        _ if !sides[side as usize] => Ok(column),
        Ok(place) => Ok(first + place),
        Err(_) => internal_err!("column {column} of the {side} side is not stored"),
    };
    let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    let output = join.output.iter().map(|output| match output.source() {
        Some((side, column)) => Ok(output.with_source(place(side, column)?)),
        None => Ok(*output),
    });
    let residual = match &join.residual {
        Some(residual) => {
            let columns = residual.columns.iter().map(|column| match *column {
                ResidualColumn::Input(side, index) => {
                    Ok(ResidualColumn::Input(side, place(side, index)?))
                }
                score @ ResidualColumn::Score(_) => Ok(score),
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Some(Residual { columns, ..residual.clone() })
        }
        None => None,
    };
    let mut over =
        SimilarityJoin { residual, output: output.collect::<Result<Vec<_>>>()?, ..join.clone() };
    for (side, _) in sides.iter().enumerate().filter(|(_, stored)| **stored) {
        over.arguments[side] = column("item", 0);
        over.side_filters[side] = None;
    }
    if has_keys && sides == [true, true] {
        over.on = vec![(column("key", 1), column("key", 1))];
        over.null_equality = NullEquality::NullEqualsNothing;
    }
    Ok(over)
}
