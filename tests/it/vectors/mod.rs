//! Joins by DataFusion's functions over vectors, against nested loops and against the functions'
//! definitions in [`crate::vector_oracle`]. Random statements are in [`crate::fuzz`].

mod exact;
mod large;
mod nan;
mod written;

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Array, ListBuilder, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;

use crate::support::{OF_VECTORS, Session, VECTORS_WITH_GPU, register_partitions, rows, split};
use crate::vector_oracle::Metric;

/// A list column of Float64.
fn lists(vectors: &[Vec<f64>]) -> ArrayRef {
    let mut lists = ListBuilder::new(Float64Builder::new());
    for vector in vectors {
        lists.values().append_slice(vector);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn table(vectors: &[Vec<f64>], data_type: &DataType) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..vectors.len() as i64);
    let keys = Int64Array::from_iter_values((0..vectors.len() as i64).map(|id| id % 3));
    let vectors = cast(&lists(vectors), data_type).expect("a list type");
    let columns = [("id", Arc::new(ids) as ArrayRef), ("v", vectors), ("k", Arc::new(keys) as _)];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// Registers vectors with their numbers as `id`, and `k`, in two partitions of small batches.
fn register(ctx: &SessionContext, name: &str, vectors: &[Vec<f64>], data_type: &DataType) {
    register_partitions(ctx, name, split(&table(vectors, data_type), 2, 16));
}

fn float_list() -> DataType {
    DataType::new_list(DataType::Float64, true)
}

fn random(rng: &mut StdRng, count: usize, d: usize) -> Vec<Vec<f64>> {
    (0..count).map(|_| (0..d).map(|_| rng.random_range(-1.0..1.0)).collect()).collect()
}

/// The values of `simjoin.strategy` for joins of vectors on the CPU by `metric`. No index serves inner
/// products.
fn strategies_of(metric: Metric) -> Vec<&'static str> {
    match metric {
        Metric::InnerProduct => VECTORS_WITH_GPU.clone(),
        Metric::Euclidean | Metric::Cosine => OF_VECTORS.clone(),
    }
}

/// A session in which DataFusion's nested loop runs every join.
fn nested_loop() -> SessionContext {
    Session::default().option("recognize_joins", false).context()
}

/// Two tables of vectors and tokens.
async fn vectors_and_tokens(ctx: &SessionContext) {
    for (name, step) in [("a", 3), ("b", 5)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT value AS id, [sin(value), cos(value * {step})] AS v, \
             [value % 4, value % 5 + 10, value % 3 + 20] AS toks FROM generate_series(1, 80)"
        );
        rows(ctx, &sql).await;
    }
}
