//! Hash join or similarity join, where a plain join has equality conjuncts as well.

use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Dependency, Statistics};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

/// The operator that runs a join, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperatorChoice {
    HashJoin(String),
    Operator(String),
}

/// Statistics of one side's keys.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct KeyStatistics {
    pub rows: Option<usize>,
    /// A lower bound of how many different keys there are.
    pub distinct: Option<usize>,
    /// Whether no two rows have the same key.
    pub unique: bool,
}

impl KeyStatistics {
    /// The statistics of the keys `expressions` of `plan`; `statistics` are those of `plan`, where
    /// known.
    pub(crate) fn of<'a>(
        plan: &LogicalPlan,
        expressions: impl Iterator<Item = &'a Expr>,
        statistics: Option<&Statistics>,
    ) -> Self {
        let schema = plan.schema();
        let columns: Vec<usize> =
            expressions.filter_map(|e| schema.maybe_index_of_column(e.try_as_col()?)).collect();
        let rows = statistics.and_then(|s| s.num_rows.get_value().copied());
        let distinct = columns
            .iter()
            .filter_map(|&i| statistics?.column_statistics.get(i)?.distinct_count.get_value())
            .copied()
            .max();
        Self { rows, distinct, unique: is_unique(schema, &columns) }
    }
}

/// Whether the columns hold a unique key of the schema.
fn is_unique(schema: &DFSchema, columns: &[usize]) -> bool {
    schema.functional_dependencies().iter().any(|dependency| {
        dependency.mode == Dependency::Single
            && dependency.target_indices.len() == schema.fields().len()
            && dependency.source_indices.iter().all(|i| columns.contains(i))
    })
}

/// Decides by the pairs that a hash join would compare for each row of its larger input.
pub(crate) fn choose(
    left: KeyStatistics,
    right: KeyStatistics,
    rows_per_key: f64,
) -> OperatorChoice {
    if left.unique || right.unique {
        let side = if left.unique { "left" } else { "right" };
        if rows_per_key >= 1.0 {
            return OperatorChoice::HashJoin(format!(
                "hash join: its keys are unique on the {side} side"
            ));
        }
        return OperatorChoice::Operator(format!(
            "chosen over a hash join: its keys are unique on the {side} side, but \
             simjoin.hash_join_rows_per_key is {rows_per_key}"
        ));
    }
    let distinct = left.distinct.into_iter().chain(right.distinct).max();
    let (Some(l), Some(r), Some(distinct)) = (left.rows, right.rows, distinct) else {
        return OperatorChoice::Operator(
            "chosen over a hash join: statistics do not say how many rows share a key".to_string(),
        );
    };
    // |L| * |R| / distinct pairs, spread over the larger input.
    let pairs = l.min(r) as f64 / distinct.max(1) as f64;
    if pairs <= rows_per_key {
        OperatorChoice::HashJoin(format!(
            "hash join: statistics promise {pairs:.2} rows per key, and \
             simjoin.hash_join_rows_per_key is {rows_per_key}"
        ))
    } else {
        OperatorChoice::Operator(format!(
            "chosen over a hash join: statistics promise {pairs:.2} rows per key, and \
             simjoin.hash_join_rows_per_key is {rows_per_key}"
        ))
    }
}

/// Whether the left input has fewer rows than the right one, or else fewer bytes; `None` where neither is
/// known to differ.
pub(crate) fn left_is_smaller(
    left: Option<&Statistics>,
    right: Option<&Statistics>,
) -> Option<bool> {
    let (left, right) = (left?, right?);
    let compare = |l: &Precision<usize>, r: &Precision<usize>| match (l.get_value(), r.get_value())
    {
        (Some(l), Some(r)) if l != r => Some(l < r),
        _ => None,
    };
    compare(&left.num_rows, &right.num_rows)
        .or_else(|| compare(&left.total_byte_size, &right.total_byte_size))
}

/// The sides of `join`, for [`choose`].
pub(crate) fn keys_of(
    join: &Join,
    statistics: [Option<&Statistics>; 2],
) -> (KeyStatistics, KeyStatistics) {
    (
        KeyStatistics::of(&join.left, join.on.iter().map(|(l, _)| l), statistics[0]),
        KeyStatistics::of(&join.right, join.on.iter().map(|(_, r)| r), statistics[1]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(rows: usize, distinct: usize) -> KeyStatistics {
        KeyStatistics { rows: Some(rows), distinct: Some(distinct), unique: false }
    }

    fn is_hash_join(left: KeyStatistics, right: KeyStatistics, rows_per_key: f64) -> bool {
        matches!(choose(left, right, rows_per_key), OperatorChoice::HashJoin(_))
    }

    #[test]
    fn few_rows_per_key_favour_the_hash_join() {
        assert!(is_hash_join(keys(1000, 500), keys(800, 400), 4.0));
        assert!(!is_hash_join(keys(1000, 10), keys(800, 5), 4.0));
        // A small input meets each row of a large one but a few times, whatever the large one's
        // own keys are.
        assert!(is_hash_join(keys(1_000_000, 10), keys(10, 10), 4.0));
    }

    #[test]
    fn missing_statistics_favour_the_operator() {
        assert!(!is_hash_join(KeyStatistics::default(), keys(10, 10), 4.0));
        let no_distinct = KeyStatistics { rows: Some(10), ..KeyStatistics::default() };
        assert!(!is_hash_join(no_distinct, no_distinct, 1e9));
    }

    #[test]
    fn unique_keys_need_no_statistics() {
        let unique = KeyStatistics { unique: true, ..KeyStatistics::default() };
        assert!(is_hash_join(unique, KeyStatistics::default(), 1.0));
        assert!(is_hash_join(KeyStatistics::default(), unique, 1.0));
        assert!(!is_hash_join(unique, unique, 0.5));
    }

    #[test]
    fn the_smaller_input_by_rows_then_bytes() {
        let of = |rows, bytes| Statistics {
            num_rows: rows,
            total_byte_size: bytes,
            column_statistics: vec![],
        };
        use Precision::{Absent, Exact};
        let smaller = |l: &Statistics, r: &Statistics| left_is_smaller(Some(l), Some(r));
        assert_eq!(smaller(&of(Exact(1), Absent), &of(Exact(2), Absent)), Some(true));
        assert_eq!(smaller(&of(Exact(2), Exact(9)), &of(Exact(2), Exact(5))), Some(false));
        assert_eq!(smaller(&of(Absent, Absent), &of(Exact(2), Absent)), None);
    }
}
