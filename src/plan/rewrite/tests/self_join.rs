use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::plan::rewrite::scores::take_from_match;
use crate::plan::rewrite::self_join::share_inputs;
use crate::plan::rewrite::tests::{context, converted, converted_in, table_of_sets, text};
use crate::session::families;

async fn shared(sql: &str) -> Result<LogicalPlan> {
    share_inputs(take_from_match(converted(sql).await?, &families())?, true)
}

const JOIN: &str = "t a JOIN t b ON jaccard(a.toks, b.toks) >= 0.8";

macro_rules! shared_plan {
    ($sql:expr, @$snapshot:literal) => {{
        let plan = shared($sql.as_ref()).await?;
        insta::assert_snapshot!(text(&plan), @$snapshot);
    }};
}

macro_rules! stays_two_sided {
    ($sql:expr) => {{
        let text = text(&shared($sql.as_ref()).await?);
        assert!(text.contains("SimJoin") && !text.contains("shared"), "{text}");
    }};
}

#[tokio::test]
async fn scans_of_one_table() -> Result<()> {
    shared_plan!(format!("SELECT a.id, b.id FROM {JOIN} AND a.id < b.id"), @r#"
    Projection: a.id, b.id
      SimJoin Inner shared [[0, 1], [0, 1]] residual a.id < b.id: [a.id, b.id] over t [id, toks]
    "#);
    Ok(())
}

#[tokio::test]
async fn the_union_of_the_columns_of_both_sides() -> Result<()> {
    shared_plan!(format!("SELECT a.id, b.name FROM {JOIN}"), @r#"
    Projection: a.id, b.name
      SimJoin Inner shared [[0, 1], [1, 2]]: [a.id, b.name] over t [id, toks, name]
    "#);
    Ok(())
}

#[tokio::test]
async fn equal_filters_in_any_order() -> Result<()> {
    shared_plan!(
        format!(
            "SELECT a.id, b.id FROM {JOIN} WHERE a.id > 3 AND a.name = 'x' \
             AND b.name = 'x' AND b.id > 3"
        ),
        @r#"
        Projection: a.id, b.id
          SimJoin Inner shared [[0, 1], [0, 1]]: [a.id, b.id]
            Projection: t.id, t.toks
              Filter: t.id > Int64(3) AND t.name = Utf8("x")
                t [id, toks, name]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn computed_columns_are_shared_by_value() -> Result<()> {
    shared_plan!(
        "WITH s AS (SELECT id, array_sort(toks) AS ts, upper(name) AS n FROM t) \
         SELECT a.id, a.n, b.id FROM s a JOIN s b ON jaccard(a.ts, b.ts) >= 0.8",
        @r#"
        Projection: a.id, a.n, b.id
          SimJoin Inner shared [[0, 1, 2], [0, 1]]: [a.id, a.n, b.id]
            Projection: t.id, array_sort(t.toks) AS ts, upper(t.name) AS n
              t [id, toks, name]
        "#
    );
    shared_plan!(
        "SELECT a.id, b.x FROM (SELECT id, toks, id + 1 AS x FROM t) a \
         JOIN (SELECT toks, id + 2 AS x FROM t) b ON jaccard(a.toks, b.toks) >= 0.8",
        @r#"
        Projection: a.id, b.x
          SimJoin Inner shared [[0, 1], [1, 2]]: [a.id, b.x]
            Projection: t.id, t.toks, t.id + Int64(2) AS x
              t [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn equal_bodies_of_other_kinds() -> Result<()> {
    shared_plan!(
        "WITH s AS (SELECT name, array_agg(id) AS ids FROM t GROUP BY name) \
         SELECT a.name, b.name FROM s a JOIN s b ON jaccard(a.ids, b.ids) >= 0.8",
        @r#"
        Projection: a.name, b.name
          SimJoin Inner shared [[0, 1], [0, 1]]: [a.name, b.name]
            Projection: t.name, array_agg(t.id)
              Aggregate: groupBy=[[t.name]], aggr=[[array_agg(t.id)]]
                t [id, name]
        "#
    );
    shared_plan!(
        "WITH s(id, toks) AS (VALUES (1, [1, 2]), (2, [2, 3])) \
         SELECT a.id, b.id FROM s a JOIN s b ON jaccard(a.toks, b.toks) >= 0.8",
        @r#"
        Projection: a.id, b.id
          SimJoin Inner shared [[0, 1], [0, 1]]: [a.id, b.id]
            Projection: column1, column2
              Values: (Int64(1), List([1, 2]) AS make_array(Int64(1),Int64(2))), (Int64(2), List([2, 3]) AS make_array(Int64(2),Int64(3)))
        "#
    );
    Ok(())
}

#[tokio::test]
async fn blocking_keys_and_join_types() -> Result<()> {
    shared_plan!(
        "SELECT a.id, b.id FROM t a LEFT JOIN t b \
         ON jaccard(a.toks, b.toks) >= 0.8 AND a.name = b.name",
        @r#"
        Projection: a.id, b.id
          SimJoin Left shared [[0, 1, 2], [0, 1, 2]]: [a.id, b.id] over t [id, toks, name]
        "#
    );
    shared_plan!(
        "SELECT a.id FROM t a LEFT ANTI JOIN t b \
         ON containment(a.toks, b.toks) >= 0.8 AND a.id <> b.id",
        @r#"
        Projection: a.id
          SimJoin LeftAnti shared [[0, 1], [0, 1]] residual a.id != b.id: [a.id] over t [id, toks]
        "#
    );
    Ok(())
}

#[tokio::test]
async fn different_relations_stay_apart() -> Result<()> {
    stays_two_sided!("SELECT a.id FROM t a JOIN u b ON jaccard(a.toks, b.toks) >= 0.8");
    stays_two_sided!(format!("SELECT a.id, b.id FROM {JOIN} WHERE a.id > 3"));
    stays_two_sided!(format!("SELECT a.id, b.id FROM {JOIN} WHERE a.id > 3 AND b.id > 4"));
    Ok(())
}

#[tokio::test]
async fn different_parts_stay_apart() -> Result<()> {
    stays_two_sided!("SELECT a.id FROM t a JOIN t b ON jaccard(a.toks, array_sort(b.toks)) >= 0.8");
    stays_two_sided!(format!("SELECT a.id FROM {JOIN} AND a.name = upper(b.name)"));
    Ok(())
}

#[tokio::test]
async fn what_differs_between_readings_stays_apart() -> Result<()> {
    for body in [
        "SELECT id, toks FROM t LIMIT 5",
        "SELECT id, toks FROM t ORDER BY name LIMIT 5",
        "SELECT id, toks, random() AS r FROM t",
        "SELECT id, toks FROM t WHERE random() < 0.5",
    ] {
        stays_two_sided!(format!(
            "WITH s AS ({body}) SELECT a.*, b.* FROM s a JOIN s b \
             ON jaccard(a.toks, b.toks) >= 0.8"
        ));
    }
    Ok(())
}

#[tokio::test]
async fn a_table_of_the_same_name_is_not_the_same_table() -> Result<()> {
    let ctx = context()?;
    let sql = "SELECT a.id FROM t a JOIN t b ON jaccard(a.toks, b.toks) >= 0.8";
    let left = converted_in(&ctx, sql).await?;
    assert!(text(&share_inputs(left.clone(), true)?).contains("shared"));
    ctx.deregister_table("t")?;
    ctx.register_table("t", Arc::new(table_of_sets()?))?;
    let right = converted_in(&ctx, sql).await?;
    // One node with the left side of one session state and the right side of the next.
    let mixed = mix(left, &right)?;
    assert!(!text(&share_inputs(mixed, true)?).contains("shared"));
    Ok(())
}

/// `plan` with the right inputs of its similarity joins taken from those of `other`.
fn mix(plan: LogicalPlan, other: &LogicalPlan) -> Result<LogicalPlan> {
    use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};

    use crate::plan::SetSimilarityJoin;

    let mut right = None;
    other.apply(|plan| {
        right = SetSimilarityJoin::of(plan).map(|node| Arc::clone(&node.right)).or(right.take());
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mixed = plan.transform_up(|plan| {
        Ok(match (SetSimilarityJoin::of(&plan), &right) {
            (Some(node), Some(right)) => {
                let mut node = node.clone();
                node.right = Arc::clone(right);
                Transformed::yes(node.into_plan())
            }
            _ => Transformed::no(plan),
        })
    })?;
    Ok(mixed.data)
}

#[tokio::test]
async fn nothing_happens_when_it_is_off() -> Result<()> {
    let plan = converted(&format!("SELECT a.id FROM {JOIN}")).await?;
    assert_eq!(plan, share_inputs(plan.clone(), false)?);
    Ok(())
}
