use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::plan::rewrite::scores::take_from_match;
use crate::plan::rewrite::tests::{converted, text};
use crate::session::families;

/// The plan of `sql` after the pass, checked to keep its schema.
async fn taken(sql: &str) -> Result<LogicalPlan> {
    let before = converted(sql).await?;
    let after = take_from_match(before.clone(), &families())?;
    assert_eq!(before.schema().columns(), after.schema().columns());
    let types = |plan: &LogicalPlan| {
        let fields = plan.schema().fields().iter();
        fields.map(|field| (field.data_type().clone(), field.is_nullable())).collect::<Vec<_>>()
    };
    assert_eq!(types(&before), types(&after));
    Ok(after)
}

const JOIN: &str = "t a JOIN u b ON jaccard(a.toks, b.toks) >= 0.8";

macro_rules! taken_plan {
    ($sql:expr, @$snapshot:literal) => {{
        let sql = $sql;
        let plan = taken(sql.as_ref()).await?;
        insta::assert_snapshot!(text(&plan), @$snapshot);
    }};
}

macro_rules! stays {
    ($sql:expr) => {{
        let plan = taken($sql.as_ref()).await?;
        let text = text(&plan);
        assert!(!text.contains("__simjoin"), "{text}");
    }};
}

#[tokio::test]
async fn a_selected_score_comes_from_the_match_and_the_lists_go() -> Result<()> {
    taken_plan!(format!("SELECT a.id, b.id, jaccard(a.toks, b.toks) FROM {JOIN}"), @r#"
    Projection: a.id, b.id, __simjoin_jaccard_left AS jaccard(a.toks,b.toks)
      SimJoin Inner: [a.id, b.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [id, toks]
    "#);
    Ok(())
}

#[tokio::test]
async fn every_measure_in_either_order_has_its_score() -> Result<()> {
    taken_plan!(
        format!(
            "SELECT a.id, jaccard(b.toks, a.toks), dice(a.toks, b.toks), \
             containment(a.toks, b.toks), containment(b.toks, a.toks), overlap(a.toks, b.toks) \
             FROM {JOIN}"
        ),
        @r#"
        Projection: a.id, __simjoin_jaccard_left AS jaccard(b.toks,a.toks), __simjoin_dice_left AS dice(a.toks,b.toks), __simjoin_containment_left AS containment(a.toks,b.toks), __simjoin_containment_right AS containment(b.toks,a.toks), __simjoin_overlap_left AS overlap(a.toks,b.toks)
          SimJoin Inner: [a.id, __simjoin_jaccard_left, __simjoin_dice_left, __simjoin_containment_left, __simjoin_containment_right, __simjoin_overlap_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn one_score_serves_several_uses() -> Result<()> {
    taken_plan!(
        format!(
            "SELECT a.id, jaccard(a.toks, b.toks) AS s, 1 - jaccard(a.toks, b.toks) AS d, \
             CASE WHEN jaccard(a.toks, b.toks) = 1.0 THEN 'same' END AS c \
             FROM {JOIN} ORDER BY jaccard(a.toks, b.toks) DESC, a.id LIMIT 10"
        ),
        @r#"
        Sort: s DESC NULLS FIRST, a.id ASC NULLS LAST, fetch=10
          Projection: a.id, __common_expr_1 AS s, Float64(1) - __common_expr_1 AS d, CASE WHEN __common_expr_1 = Float64(1) THEN Utf8("same") END AS c
            Projection: __simjoin_jaccard_left AS __common_expr_1, a.id
              SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn sorting_by_a_score_that_is_not_selected() -> Result<()> {
    taken_plan!(
        format!("SELECT a.id, b.id FROM {JOIN} ORDER BY dice(a.toks, b.toks), a.id"),
        @r#"
        Projection: a.id, b.id
          Projection: a.id, b.id
            Sort: __simjoin_dice_left ASC NULLS LAST, a.id ASC NULLS LAST
              Projection: a.id, b.id, __simjoin_dice_left
                SimJoin Inner: [a.id, b.id, __simjoin_dice_left] over t AS a [id, toks], u AS b [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn aggregates_windows_and_groups_read_the_score() -> Result<()> {
    taken_plan!(
        format!("SELECT a.id, max(jaccard(a.toks, b.toks)) FROM {JOIN} GROUP BY a.id"),
        @r#"
        Aggregate: groupBy=[[a.id]], aggr=[[max(__simjoin_jaccard_left) AS max(jaccard(a.toks,b.toks))]]
          SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    taken_plan!(
        format!("SELECT jaccard(a.toks, b.toks), count(*) FROM {JOIN} GROUP BY 1"),
        @r#"
        Projection: jaccard(a.toks,b.toks), count(Int64(1)) AS count(*)
          Aggregate: groupBy=[[__simjoin_jaccard_left AS jaccard(a.toks,b.toks)]], aggr=[[count(Int64(1))]]
            SimJoin Inner: [__simjoin_jaccard_left] over t AS a [toks], u AS b [toks]
        "#
    );
    taken_plan!(
        format!(
            "SELECT a.id, row_number() OVER (PARTITION BY a.id ORDER BY \
             jaccard(a.toks, b.toks) DESC) AS r FROM {JOIN}"
        ),
        @r#"
        Projection: a.id, row_number() PARTITION BY [a.id] ORDER BY [jaccard(a.toks, b.toks) DESC NULLS FIRST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS r
          Projection: a.id, row_number() PARTITION BY [a.id] ORDER BY [jaccard(a.toks, b.toks) DESC NULLS FIRST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            WindowAggr: windowExpr=[[row_number() PARTITION BY [a.id] ORDER BY [__simjoin_jaccard_left DESC NULLS FIRST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW AS row_number() PARTITION BY [a.id] ORDER BY [jaccard(a.toks, b.toks) DESC NULLS FIRST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW]]
              SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn a_filter_that_stays_above_reads_the_score() -> Result<()> {
    taken_plan!(
        "SELECT a.id, b.id FROM t a LEFT JOIN u b ON jaccard(a.toks, b.toks) >= 0.8 \
         WHERE jaccard(a.toks, b.toks) < 1.0 OR a.id > 5",
        @r#"
        Projection: a.id, b.id
          Projection: a.id, b.id
            Filter: __simjoin_jaccard_left < Float64(1) OR a.id > Int64(5)
              SimJoin Left: [a.id, b.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn through_subqueries_ctes_and_unions() -> Result<()> {
    taken_plan!(
        format!(
            "WITH p AS (SELECT a.id AS x, b.id AS y, a.toks AS xs, b.toks AS ys FROM {JOIN} \
             LIMIT 100) SELECT p.x, p.y, jaccard(ys, xs) AS s FROM p WHERE p.x > 3"
        ),
        @r#"
        Projection: p.x, p.y, p.__simjoin_jaccard_left AS s
          SubqueryAlias: p
            Projection: a.id AS x, b.id AS y, __simjoin_jaccard_left
              Filter: a.id > Int64(3)
                Limit: skip=0, fetch=100
                  SimJoin Inner: [a.id, b.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [id, toks]
        "#
    );
    taken_plan!(
        format!(
            "SELECT a.id, jaccard(a.toks, b.toks) AS s FROM {JOIN} \
             UNION ALL SELECT a.id, jaccard(a.toks, b.toks) FROM {JOIN}"
        ),
        @r#"
        Union
          Projection: a.id, __simjoin_jaccard_left AS s
            SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
          Projection: a.id, __simjoin_jaccard_left AS s
            SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn computed_arguments() -> Result<()> {
    taken_plan!(
        "SELECT jaccard(array_sort(a.toks), array_sort(b.toks)) AS s, a.id FROM t a LEFT JOIN u b \
         ON jaccard(array_sort(a.toks), array_sort(b.toks)) >= 0.8",
        @r#"
        Projection: __simjoin_jaccard_left AS s, a.id
          SimJoin Left: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    taken_plan!(
        "SELECT jaccard(x, y) AS s FROM (SELECT array_sort(a.toks) AS x, array_sort(b.toks) AS y \
         FROM t a JOIN u b ON jaccard(array_sort(a.toks), array_sort(b.toks)) >= 0.8)",
        @r#"
        Projection: __simjoin_jaccard_left AS s
          SimJoin Inner: [__simjoin_jaccard_left] over t AS a [toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn through_joins_above_and_chains() -> Result<()> {
    taken_plan!(
        format!(
            "SELECT c.name, jaccard(a.toks, b.toks) AS s FROM {JOIN} JOIN t c ON c.id = b.id \
             AND jaccard(a.toks, b.toks) < c.id"
        ),
        @r#"
        Projection: c.name, __simjoin_jaccard_left AS s
          Projection: c.name, __simjoin_jaccard_left
            Inner Join: b.id = c.id Filter: __simjoin_jaccard_left < CAST(c.id AS Float64)
              SimJoin Inner residual jaccard(a.toks, b.toks) < CAST(b.id AS Float64) AND jaccard(a.toks, b.toks) < CAST(b.id AS Float64): [b.id, __simjoin_jaccard_left] over t AS a [toks], u AS b [id, toks]
              t AS c [id, name]
        "#
    );
    taken_plan!(
        format!(
            "SELECT jaccard(a.toks, b.toks) AS ab, jaccard(b.toks, c.toks) AS bc, \
             jaccard(a.toks, c.toks) AS ac FROM {JOIN} JOIN t c ON jaccard(b.toks, c.toks) >= 0.8"
        ),
        @r#"
        Projection: __simjoin_jaccard_left AS ab, __simjoin_jaccard_left_1 AS bc, jaccard(a.toks, c.toks) AS ac
          SimJoin Inner: [a.toks, c.toks, __simjoin_jaccard_left, __simjoin_jaccard_left_1]
            SimJoin Inner: [a.toks, b.toks, __simjoin_jaccard_left] over t AS a [toks], u AS b [toks]
            t AS c [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn scores_of_two_joins_side_by_side_have_names_of_their_own() -> Result<()> {
    taken_plan!(
        "SELECT jaccard(a.toks, b.toks) AS ab, jaccard(c.toks, d.toks) AS cd FROM \
         (t a JOIN u b ON jaccard(a.toks, b.toks) >= 0.8) JOIN \
         (t c JOIN u d ON jaccard(c.toks, d.toks) >= 0.8) ON a.id = c.id",
        @r#"
        Projection: __simjoin_jaccard_left AS ab, __simjoin_jaccard_left_1 AS cd
          SimJoin Inner: [__simjoin_jaccard_left, __simjoin_jaccard_left_1]
            SimJoin Inner: [c.toks, __simjoin_jaccard_left]
              Projection: a.toks, c.toks
                Inner Join: a.id = c.id
                  t AS a [id, toks]
                  t AS c [id, toks]
              u AS b [toks]
            u AS d [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn a_join_above_may_pad_the_score() -> Result<()> {
    taken_plan!(
        format!(
            "SELECT c.id, jaccard(x, y) AS s FROM t c LEFT JOIN \
             (SELECT a.id, a.toks AS x, b.toks AS y FROM {JOIN}) p ON p.id = c.id"
        ),
        @r#"
        Projection: c.id, p.__simjoin_jaccard_left AS s
          Left Join: c.id = p.id
            t AS c [id]
            SubqueryAlias: p
              Projection: a.id, __simjoin_jaccard_left
                SimJoin Inner: [a.id, __simjoin_jaccard_left] over t AS a [id, toks], u AS b [toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn other_arguments_are_computed() -> Result<()> {
    stays!(format!("SELECT jaccard(a.toks, a.toks) FROM {JOIN}"));
    stays!(format!("SELECT jaccard(array_sort(a.toks), b.toks) FROM {JOIN}"));
    stays!("SELECT jaccard(a.toks, b.toks) FROM t a JOIN u b ON a.id = b.id");
    stays!(
        "SELECT jaccard(a.toks, a.toks) FROM t a LEFT SEMI JOIN u b \
         ON jaccard(a.toks, b.toks) >= 0.8"
    );
    Ok(())
}

#[tokio::test]
async fn an_argument_that_is_not_null_in_padded_rows_is_computed() -> Result<()> {
    stays!(
        "SELECT jaccard(a.toks, coalesce(b.toks, [1])) FROM t a LEFT JOIN u b \
         ON jaccard(a.toks, coalesce(b.toks, [1])) >= 0.8"
    );
    // The other side may be anything: the score is NULL through the padded one.
    let plan = taken(
        "SELECT jaccard(coalesce(a.toks, [1]), b.toks) FROM t a LEFT JOIN u b \
         ON jaccard(coalesce(a.toks, [1]), b.toks) >= 0.8",
    )
    .await?;
    assert!(text(&plan).contains("__simjoin_jaccard_left"), "{}", text(&plan));
    Ok(())
}

#[tokio::test]
async fn distinct_pairs_are_not_passed() -> Result<()> {
    stays!(format!(
        "SELECT jaccard(x, y) FROM (SELECT DISTINCT a.toks AS x, b.toks AS y FROM {JOIN})"
    ));
    Ok(())
}

#[tokio::test]
async fn plans_without_a_similarity_join_stay_as_they_are() -> Result<()> {
    let before = converted("SELECT a.id, jaccard(a.toks, a.toks) FROM t a ORDER BY a.name").await?;
    assert_eq!(before, take_from_match(before.clone(), &families())?);
    Ok(())
}
