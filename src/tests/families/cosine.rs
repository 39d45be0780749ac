//! The cosine similarity: 1 minus DataFusion's distance, in joins and for nearest rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Array, ListBuilder, RecordBatch};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use crate::session::install;
use crate::tests::statements::{Setup, Way, error, plan_and_rows};

/// Vectors among which there are NULL, zeros, and values that are no numbers or infinite.
fn vectors() -> Result<Arc<MemTable>> {
    let special = [
        Some([f64::NAN, 1.0]),
        Some([-f64::NAN, 1.0]),
        Some([f64::INFINITY, 1.0]),
        Some([0.0, 0.0]),
        None,
    ];
    let mut vectors = ListBuilder::new(Float64Builder::new());
    let mut count = 0;
    for x in -6..=6 {
        for y in -6..=6 {
            vectors.values().append_slice(&[f64::from(x) / 3.0, f64::from(y)]);
            vectors.append(true);
            count += 1;
        }
    }
    for vector in special {
        vectors.values().append_slice(&vector.unwrap_or_default());
        vectors.append(vector.is_some());
        count += 1;
    }
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef, false),
        ("v", Arc::new(vectors.finish()) as _, true),
    ])?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

fn session() -> Result<SessionContext> {
    let context = Setup::of(Way::Memory).session(install)?;
    context.register_table("p", vectors()?)?;
    Ok(context)
}

#[tokio::test]
async fn the_similarity_is_one_minus_the_distance_and_never_nan() -> Result<()> {
    let context = session()?;
    for name in ["cosine_similarity", "array_cosine_similarity", "list_cosine_similarity"] {
        let sql = format!(
            "SELECT count(*), count(s), count(*) FILTER (WHERE isnan(s)), \
             count(*) FILTER (WHERE s IS DISTINCT FROM nanvl(1 - d, NULL)) FROM (SELECT \
             {name}(a.v, b.v) AS s, cosine_distance(a.v, b.v) AS d FROM p a, p b)"
        );
        // Of 174 vectors 168 have a direction.
        assert_eq!(plan_and_rows(&context, &sql).await?.1, ["30276 | 28224 | 0 | 0"], "{name}");
    }
    for arguments in ["'a', 'b'", "[1.0]", "1, 2"] {
        let found = error(&context, &format!("SELECT cosine_similarity({arguments})")).await;
        assert!(found.contains("cosine_similarity takes two lists of numbers, found ("), "{found}");
    }
    let sql = "SELECT cosine_similarity([1, 0], [1, 1]) = 1 - cosine_distance([1, 0], [1, 1])";
    assert_eq!(plan_and_rows(&context, sql).await?.1, ["true"]);
    Ok(())
}

/// A join by the similarity is that by the distance, in whatever form it is written, without a condition that is
/// evaluated for each pair.
#[tokio::test]
async fn joins_are_driven_by_the_distance() -> Result<()> {
    let context = session()?;
    for (condition, in_plain_joins) in [
        ("cosine_similarity(a.v, b.v) >= 0.95", true),
        ("0.95 < list_cosine_similarity(b.v, a.v)", true),
        ("nanvl(1 - cosine_distance(a.v, b.v), NULL) >= 0.95", true),
        ("1 - cosine_distance(a.v, b.v) >= 0.95", false),
        ("100 * (1.0 - cosine_distance(a.v, b.v)) > 95", false),
    ] {
        for join in ["SIMJOIN", "JOIN"] {
            let sql = format!("SELECT a.id, b.id FROM p a {join} p b ON {condition}");
            let (plan, found) = plan_and_rows(&context, &sql).await?;
            let is_driven = join == "SIMJOIN" || in_plain_joins;
            assert_eq!(plan.contains("SetSimilarityJoinExec"), is_driven, "{sql}\n{plan}");
            assert!(!plan.contains("residual"), "{sql}\n{plan}");
            let number =
                if join == "SIMJOIN" { " AND cosine_distance(a.v, b.v) <= 2.5" } else { "" };
            let of_all = format!("SELECT a.id, b.id FROM p a, p b WHERE {condition}{number}");
            context.sql("SET simjoin.recognize_joins = false").await?;
            let (plan, expected) = plan_and_rows(&context, &of_all).await?;
            context.sql("SET simjoin.recognize_joins = true").await?;
            assert!(!plan.contains("SetSimilarityJoinExec"), "{plan}");
            assert_eq!(found, expected, "{sql}");
            assert!(found.len() > 168);
        }
    }
    Ok(())
}

/// The nearest rows by the similarity are those by the distance, with the same ties, from memory and where a bound
/// holds them back.
#[tokio::test]
async fn nearest_rows_are_those_by_the_distance() -> Result<()> {
    let context = session()?;
    for (ties, bound) in
        [("", ""), (" WITH TIES", ""), (" WITH TIES", " ON {} >= 0.99 AND a.id <> b.id")]
    {
        let statement = |order: &str, score: &str| {
            format!(
                "SELECT a.id, {} FROM p a LEFT SIMJOIN p b NEAREST 3{ties} BY {order} {score}{}",
                if ties.is_empty() { "round(cosine_distance(a.v, b.v), 12)" } else { "b.id" },
                bound.replace("{}", "(1 - cosine_distance(a.v, b.v))"),
            )
        };
        // Names of other systems are aliases, which the optimizer keeps.
        let by_alias = statement("DISTANCE", "list_distance(a.v, b.v)");
        plan_and_rows(&context, &by_alias).await?;
        let by_distance = statement("DISTANCE", "cosine_distance(a.v, b.v)");
        let (_, expected) = plan_and_rows(&context, &by_distance).await?;
        assert!(expected.len() > 174);
        for score in [
            "cosine_similarity(a.v, b.v)",
            "1 - cosine_distance(b.v, a.v)",
            "1.0 - cosine_distance(a.v, b.v)",
        ] {
            let sql = statement("SIMILARITY", score);
            let (plan, found) = plan_and_rows(&context, &sql).await?;
            assert!(plan.contains("nearest"), "{plan}");
            assert_eq!(found, expected, "{sql}\n{plan}");
        }
    }
    let sql = "SELECT 1 FROM p a SIMJOIN p b NEAREST 1 BY DISTANCE cosine_similarity(a.v, b.v)";
    let found = error(&context, sql).await;
    assert!(found.contains("1 - cosine_distance is a similarity; write BY SIMILARITY"), "{found}");
    Ok(())
}
