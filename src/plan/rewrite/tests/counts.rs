use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::plan::rewrite::counts::push_into_joins;
use crate::plan::rewrite::scores::take_from_match;
use crate::plan::rewrite::tests::{converted, text};
use crate::session::families;

/// The plan of `sql` after the pass, checked to keep its schema to the letter.
async fn counted(sql: &str) -> Result<LogicalPlan> {
    let before = take_from_match(converted(sql).await?, &families())?;
    let after = push_into_joins(before.clone())?;
    let fields = |plan: &LogicalPlan| {
        let schema = plan.schema();
        schema.iter().map(|(q, f)| (q.cloned(), f.as_ref().clone())).collect::<Vec<_>>()
    };
    assert_eq!(fields(&before), fields(&after));
    Ok(after)
}

const INNER: &str = "t a JOIN u b ON jaccard(a.toks, b.toks) >= 0.8";
const LEFT: &str = "t a LEFT JOIN u b ON jaccard(a.toks, b.toks) >= 0.8";
const FULL: &str = "t a FULL JOIN u b ON jaccard(a.toks, b.toks) >= 0.8";

macro_rules! counted_plan {
    ($sql:expr, @$snapshot:literal) => {{
        let plan = counted($sql.as_ref()).await?;
        insta::assert_snapshot!(text(&plan), @$snapshot);
    }};
}

macro_rules! declines {
    ($sql:expr) => {{
        let text = text(&counted($sql.as_ref()).await?);
        assert!(!text.contains("counts"), "{text}");
    }};
}

#[tokio::test]
async fn counting_all_pairs() -> Result<()> {
    counted_plan!(format!("SELECT count(*) FROM {INNER}"), @r#"
    Projection: count(Int64(1)) AS count(*)
      Projection: CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
        Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count)]]
          SimJoin Inner counts: [__simjoin_count] over t AS a [toks], u AS b [toks]
    "#);
    Ok(())
}

#[tokio::test]
async fn counting_columns_that_cannot_be_null() -> Result<()> {
    counted_plan!(format!("SELECT count(a.id), count(b.id), count(1) FROM {INNER}"), @r#"
    Projection: CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(a.id), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(b.id), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
      Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count)]]
        SimJoin Inner counts: [__simjoin_count] over t AS a [toks], u AS b [toks]
    "#);
    counted_plan!(format!("SELECT count(a.id), count(b.id), count(*) FROM {LEFT}"), @r#"
    Projection: count(a.id), count(b.id), count(Int64(1)) AS count(*)
      Projection: CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(a.id), CASE WHEN sum(__simjoin_count_right) IS NOT NULL THEN sum(__simjoin_count_right) ELSE Int64(0) END AS count(b.id), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
        Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count), sum(__simjoin_count_right)]]
          SimJoin Left counts: [__simjoin_count, __simjoin_count_right] over t AS a [toks], u AS b [toks]
    "#);
    counted_plan!(format!("SELECT count(a.id), count(b.id), count(*) FROM {FULL}"), @r#"
    Projection: count(a.id), count(b.id), count(Int64(1)) AS count(*)
      Projection: CASE WHEN sum(__simjoin_count_left) IS NOT NULL THEN sum(__simjoin_count_left) ELSE Int64(0) END AS count(a.id), CASE WHEN sum(__simjoin_count_right) IS NOT NULL THEN sum(__simjoin_count_right) ELSE Int64(0) END AS count(b.id), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
        Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count), sum(__simjoin_count_left), sum(__simjoin_count_right)]]
          SimJoin Full counts: [__simjoin_count, __simjoin_count_left, __simjoin_count_right] over t AS a [toks], u AS b [toks]
    "#);
    Ok(())
}

#[tokio::test]
async fn neighbours_of_each_row() -> Result<()> {
    counted_plan!(
        format!(
            "SELECT a.id, count(b.id) AS n FROM {LEFT} GROUP BY a.id \
             HAVING count(b.id) > 1 ORDER BY n DESC"
        ),
        @r#"
        Sort: n DESC NULLS FIRST
          Projection: a.id, count(b.id) AS n
            Filter: count(b.id) > Int64(1)
              Projection: a.id, CASE WHEN sum(__simjoin_count_right) IS NOT NULL THEN sum(__simjoin_count_right) ELSE Int64(0) END AS count(b.id)
                Aggregate: groupBy=[[a.id]], aggr=[[sum(__simjoin_count_right)]]
                  SimJoin Left counts by left: [a.id, __simjoin_count_right] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn groups_of_expressions_of_one_side() -> Result<()> {
    counted_plan!(
        format!("SELECT upper(b.name), count(*) FROM {INNER} GROUP BY upper(b.name)"),
        @r#"
        Projection: upper(b.name), count(Int64(1)) AS count(*)
          Projection: upper(b.name), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[upper(b.name) AS upper(b.name)]], aggr=[[sum(__simjoin_count)]]
              SimJoin Inner counts by right: [b.name, __simjoin_count] over t AS a [toks], u AS b [toks, name]
        "#
    );
    counted_plan!(
        format!("SELECT coalesce(b.id, 0) AS g, count(*) FROM {LEFT} GROUP BY coalesce(b.id, 0)"),
        @r#"
        Projection: coalesce(b.id,Int64(0)) AS g, count(Int64(1)) AS count(*)
          Projection: coalesce(b.id,Int64(0)), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[CASE WHEN b.id IS NOT NULL THEN b.id ELSE Int64(0) END AS coalesce(b.id,Int64(0)) AS coalesce(b.id,Int64(0))]], aggr=[[sum(__simjoin_count)]]
              SimJoin Left counts by right: [b.id, __simjoin_count] over t AS a [toks], u AS b [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn through_subqueries() -> Result<()> {
    counted_plan!(
        format!(
            "WITH p AS (SELECT a.id AS x, b.id AS y FROM {INNER}) \
             SELECT p.x, count(p.y), count(*) FROM p GROUP BY p.x"
        ),
        @r#"
        Projection: p.x, count(p.y), count(Int64(1)) AS count(*)
          Projection: p.x, CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(p.y), CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[a.id AS x]], aggr=[[sum(__simjoin_count)]]
              SimJoin Inner counts by left: [a.id, __simjoin_count] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn semi_and_anti_joins() -> Result<()> {
    counted_plan!(
        "SELECT count(*) FROM t a LEFT SEMI JOIN u b ON jaccard(a.toks, b.toks) >= 0.8",
        @r#"
        Projection: count(Int64(1)) AS count(*)
          Projection: CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count)]]
              SimJoin LeftSemi counts: [__simjoin_count] over t AS a [toks], u AS b [toks]
        "#
    );
    counted_plan!(
        "SELECT b.name, count(*) FROM t a RIGHT ANTI JOIN u b \
         ON jaccard(a.toks, b.toks) >= 0.8 GROUP BY b.name",
        @r#"
        Projection: b.name, count(Int64(1)) AS count(*)
          Projection: b.name, CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[b.name]], aggr=[[sum(__simjoin_count)]]
              SimJoin RightAnti counts by right: [b.name, __simjoin_count] over t AS a [toks], u AS b [toks, name]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn a_residual_stays_with_the_join() -> Result<()> {
    counted_plan!(
        "SELECT a.id, count(*) FROM t a JOIN t b \
         ON jaccard(a.toks, b.toks) >= 0.8 AND a.id < b.id GROUP BY a.id",
        @r#"
        Projection: a.id, count(Int64(1)) AS count(*)
          Projection: a.id, CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[a.id]], aggr=[[sum(__simjoin_count)]]
              SimJoin Inner counts by left residual a.id < b.id: [a.id, __simjoin_count] over t AS a [id, toks], t AS b [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn distinct_groups_need_no_pairs() -> Result<()> {
    counted_plan!(format!("SELECT DISTINCT a.name FROM {INNER}"), @r#"
    Projection: a.name
      Aggregate: groupBy=[[a.name]], aggr=[[]]
        SimJoin Inner counts by left: [a.name] over t AS a [toks, name], u AS b [toks]
    "#);
    Ok(())
}

#[tokio::test]
async fn other_aggregates_need_the_pairs() -> Result<()> {
    for aggregates in [
        "count(b.name)",
        "count(DISTINCT a.id), count(DISTINCT a.name)",
        "count(*) FILTER (WHERE a.id > b.id)",
        "count(*), max(b.id)",
        "count(a.id + b.id)",
        "count(NULL)",
    ] {
        declines!(format!("SELECT {aggregates} FROM {INNER}"));
    }
    Ok(())
}

#[tokio::test]
async fn other_groupings_need_the_pairs() -> Result<()> {
    for groups in [
        "a.id, b.id",
        "a.id + b.id",
        "ROLLUP (a.id, a.name)",
        "a.id + random()",
        "jaccard(a.toks, b.toks)",
    ] {
        declines!(format!("SELECT count(*) FROM {INNER} GROUP BY {groups}"));
    }
    Ok(())
}

#[tokio::test]
async fn what_lies_between_may_need_the_pairs() -> Result<()> {
    declines!(format!("SELECT count(*) FROM (SELECT a.id FROM {INNER} LIMIT 10)"));
    declines!(format!("SELECT count(*) FROM {INNER} LEFT JOIN u c ON c.id = a.id"));
    Ok(())
}

/// The inputs of a union are counted one by one, also by groups.
#[tokio::test]
async fn counting_unions() -> Result<()> {
    let union = format!("(SELECT a.id, b.id AS other FROM {INNER} UNION ALL SELECT id, 1 FROM t)");
    counted_plan!(format!("SELECT count(*) FROM {union}"), @r#"
    Projection: count(Int64(1)) AS count(*)
      Projection: CASE WHEN sum(count(Int64(1))) IS NOT NULL THEN sum(count(Int64(1))) ELSE Int64(0) END AS count(Int64(1))
        Aggregate: groupBy=[[]], aggr=[[sum(count(Int64(1)))]]
          Union
            Projection: CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
              Aggregate: groupBy=[[]], aggr=[[sum(__simjoin_count)]]
                SimJoin Inner counts: [__simjoin_count] over t AS a [toks], u AS b [toks]
            Aggregate: groupBy=[[]], aggr=[[count(Int64(1))]]
              t []
    "#);
    counted_plan!(format!("SELECT id, count(1) FROM {union} GROUP BY id"), @r#"
    Projection: id, CASE WHEN sum(count(Int64(1))) IS NOT NULL THEN sum(count(Int64(1))) ELSE Int64(0) END AS count(Int64(1))
      Aggregate: groupBy=[[id]], aggr=[[sum(count(Int64(1)))]]
        Union
          Projection: a.id, CASE WHEN sum(__simjoin_count) IS NOT NULL THEN sum(__simjoin_count) ELSE Int64(0) END AS count(Int64(1))
            Aggregate: groupBy=[[a.id]], aggr=[[sum(__simjoin_count)]]
              SimJoin Inner counts by left: [a.id, __simjoin_count] over t AS a [id, toks], u AS b [toks]
          Aggregate: groupBy=[[t.id]], aggr=[[count(Int64(1))]]
            t [id]
    "#);
    declines!(format!("SELECT id, sum(other) FROM {union} GROUP BY id"));
    declines!("SELECT count(*) FROM (SELECT id FROM t UNION ALL SELECT id FROM u)");
    Ok(())
}
