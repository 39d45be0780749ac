//! Which joins become similarity joins, and in what form.

use datafusion::common::Result;
use datafusion::prelude::SessionConfig;

use super::{error, explain, session};

const OPERATOR: &str = "SetSimilarityJoinExec";
const DECLINED: &str = "SimilarityJoinDeclined: reason=";

async fn plan(sql: &str) -> Result<String> {
    explain(&session(SessionConfig::new()).await?, sql).await
}

/// The line of the physical plan that holds the operator.
fn operator_line(plan: &str) -> &str {
    plan.lines().find(|l| l.contains(OPERATOR)).unwrap_or_else(|| panic!("no operator:\n{plan}"))
}

#[tokio::test]
async fn conjuncts_go_where_they_can_be_evaluated() -> Result<()> {
    let text = plan(
        "SELECT a.id, b.id FROM a LEFT SIMJOIN b ON 0.8 <= jaccard(b.toks, a.toks) AND a.k = b.k \
         AND a.id > 1 AND b.id > 3 AND a.id < b.id AND dice(a.toks, b.toks) < 0.95",
    )
    .await?;
    let line = operator_line(&text);
    for part in [
        "threshold=0.8",
        "join_type=Left",
        "on=[(k@1, k@1)]",
        "left_filter=id@0 > 1",
        "__simjoin_match_dice_left@0 < 0.95",
    ] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    // The side that is not preserved is filtered below the join.
    assert!(text.contains("FilterExec: id@0 > 3"), "{text}");
    assert!(!text.contains("__simjoin("), "{text}");
    Ok(())
}

#[tokio::test]
async fn the_most_selective_conjunct_drives() -> Result<()> {
    let text = plan(
        "SELECT 1 FROM a SIMJOIN b ON overlap(a.toks, b.toks) >= 2 AND jaccard(a.toks, b.toks) > 0.3 \
         AND jaccard(b.toks, a.toks) >= 0.6",
    )
    .await?;
    let line = operator_line(&text);
    assert!(line.contains("threshold=0.6"), "{line}");
    // The weaker bound on the same similarity is implied.
    assert!(line.contains("__simjoin_match_overlap_left@0 >= 2"), "{line}");
    assert!(!line.contains("0.3"), "{line}");
    Ok(())
}

#[tokio::test]
async fn statements_of_every_kind_are_converted() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    let on = "ON jaccard(a.toks, b.toks) >= 0.8";
    ctx.sql(&format!("CREATE VIEW v AS SELECT a.id FROM a JOIN b {on}")).await?;
    for sql in [
        format!("SELECT a.id FROM a SIMJOIN b {on}"),
        format!("SELECT a.id FROM a FULL SIMJOIN b {on}"),
        "SELECT a.id FROM a, b WHERE jaccard(a.toks, b.toks) >= 0.8".to_string(),
        "SELECT * FROM v".to_string(),
        format!("WITH x AS (SELECT a.id FROM a SIMJOIN b {on}) SELECT * FROM x"),
        format!("SELECT a.id FROM a SIMJOIN b {on} UNION ALL SELECT 1"),
        format!("SELECT (SELECT count(*) FROM a SIMJOIN b {on})"),
        format!("SELECT id FROM a WHERE id IN (SELECT a.id FROM a SIMJOIN b {on})"),
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.8)"
            .to_string(),
        "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) > 0.8)"
            .to_string(),
        format!("INSERT INTO c SELECT a.* FROM a SIMJOIN b {on}"),
        format!(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r \
             WHERE n < (SELECT count(*) FROM a SIMJOIN b {on})) SELECT n FROM r"
        ),
        format!("SELECT a.id FROM a LEFT SIMJOIN b {on} WHERE b.id > 0"),
        format!("SELECT a.id FROM a SIMJOIN b {on} JOIN c ON a.k = c.k"),
        format!("SELECT a.id FROM a SIMJOIN b {on} SIMJOIN c ON dice(b.toks, c.toks) > 0.5"),
        // The key is read by the arguments, too: the optimizer copies implied conditions.
        "SELECT 1 FROM a LEFT SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8 AND a.toks = b.toks"
            .to_string(),
        "SELECT 1 FROM a SIMJOIN b ON a.toks = b.toks AND jaccard(a.toks, b.toks) >= 0.8"
            .to_string(),
    ] {
        let text = explain(&ctx, &sql).await?;
        assert!(text.contains(OPERATOR) && !text.contains("__simjoin("), "{sql}\n{text}");
    }
    let analyzed = explain(&ctx, &format!("ANALYZE SELECT a.id FROM a SIMJOIN b {on}")).await?;
    assert!(analyzed.contains(OPERATOR), "{analyzed}");
    Ok(())
}

#[tokio::test]
async fn the_optimizer_may_be_switched_off() -> Result<()> {
    let mut config = SessionConfig::new();
    config.options_mut().optimizer.max_passes = 0;
    let ctx = session(config).await?;
    let sql = "SELECT a.id FROM a LEFT SIMJOIN b ON jaccard(a.toks, b.toks) BETWEEN 0.3 * 2 AND 1 \
               AND a.k = b.k";
    let text = explain(&ctx, sql).await?;
    let line = operator_line(&text);
    assert!(line.contains("threshold=0.6") && line.contains("on=[(k@"), "{line}");
    Ok(())
}

#[tokio::test]
async fn parameters_are_bound_before_planning() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    let sql = "SELECT a.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= $1";
    let sql = crate::sql::rewrite_sql(sql)?.into_owned();
    ctx.sql(&format!("PREPARE p(DOUBLE) AS {sql}")).await?;
    assert_eq!(ctx.sql("EXECUTE p(0.9)").await?.count().await?, 2);
    assert!(error(&ctx, "EXECUTE p(0.0)").await.contains("disjoint"));
    assert!(error(&ctx, &sql).await.contains("SIMJOIN cannot run"));
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_of_a_join_that_is_never_run() -> Result<()> {
    for sql in [
        "SELECT a.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8 WHERE false",
        "SELECT a.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8 LIMIT 0",
        "SELECT a.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8 AND false",
    ] {
        let text = plan(sql).await?;
        assert!(!text.contains("__simjoin") && !text.contains("NestedLoop"), "{sql}\n{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_null_threshold_keeps_the_preserved_rows() -> Result<()> {
    for join in ["LEFT", "RIGHT", "FULL", "LEFT ANTI"] {
        let sql = format!("SELECT 1 FROM a {join} SIMJOIN b ON jaccard(a.toks, b.toks) >= NULL");
        let text = plan(&sql).await?;
        let line = operator_line(&text);
        assert!(line.contains("jaccard") && line.contains("threshold=NaN"), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn declined_plain_joins_say_why() -> Result<()> {
    for (sql, reason) in [
        ("a JOIN b ON jaccard(a.toks, b.toks) <= 0.8", "from above"),
        ("a JOIN b ON jaccard(a.toks, b.toks) >= 0.0", "disjoint sets"),
        ("a JOIN b ON jaccard(a.toks, b.toks) >= random()", "volatile"),
        ("a JOIN b ON jaccard(a.toks, b.toks) >= 0.5 OR a.k < b.k", "none of its parts"),
        ("a JOIN b ON jaccard(a.toks, b.toks) >= (SELECT 0.5)", "subquery"),
        ("a LEFT JOIN b ON jaccard(a.toks, b.toks) <> 0.5", "compared by"),
    ] {
        let text = plan(&format!("SELECT a.id FROM {sql}")).await?;
        let declined = text.lines().find(|l| l.contains(DECLINED));
        let declined = declined.unwrap_or_else(|| panic!("{sql}:\n{text}"));
        assert!(declined.contains(reason), "{declined}");
        assert!(!text.contains(OPERATOR), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn plain_recognition_can_be_switched_off() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    ctx.sql("SET simjoin.recognize_joins = false").await?;
    let on = "ON jaccard(a.toks, b.toks) >= 0.8";
    let text = explain(&ctx, &format!("SELECT 1 FROM a JOIN b {on}")).await?;
    assert!(text.contains("simjoin.recognize_joins is false"), "{text}");
    operator_line(&explain(&ctx, &format!("SELECT 1 FROM a SIMJOIN b {on}")).await?);
    Ok(())
}

#[tokio::test]
async fn unique_keys_leave_a_plain_join_to_the_hash_join() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    ctx.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, toks BIGINT[]) AS VALUES (1, [1])").await?;
    let on = "ON a.id = u.id AND jaccard(a.toks, u.toks) >= 0.8";
    let text = explain(&ctx, &format!("SELECT a.id FROM a JOIN u {on}")).await?;
    assert!(text.contains("HashJoinExec") && text.contains("keys are unique"), "{text}");
    operator_line(&explain(&ctx, &format!("SELECT a.id FROM a SIMJOIN u {on}")).await?);
    ctx.sql("SET simjoin.hash_join_rows_per_key = 0").await?;
    let text = explain(&ctx, &format!("SELECT a.id FROM a JOIN u {on}")).await?;
    assert!(operator_line(&text).contains("chosen over a hash join"), "{text}");
    Ok(())
}

#[tokio::test]
async fn simjoin_is_refused_with_the_reason_and_an_example() -> Result<()> {
    let ctx = session(SessionConfig::new()).await?;
    for (on, reason) in [
        ("jaccard(a.toks, b.toks) >= -1", "disjoint sets"),
        ("jaccard(a.toks, b.toks) <= 0.5", "from above"),
        ("a.k = b.k", "found none"),
        ("jaccard(a.toks, a.toks) >= 0.5", "found none"),
        ("jaccard(a.toks, b.toks) >= 0.5 OR a.k < b.k", "none of its parts"),
        ("jaccard(a.toks, b.toks) >= random()", "volatile"),
        ("jaccard(a.toks, b.toks) >= b.k", "reads columns"),
        ("jaccard(a.toks, b.toks) >= (SELECT 0.5)", "subquery"),
        ("jaccard(a.toks, array_concat(a.toks, b.toks)) >= 0.5", "one side"),
    ] {
        let sql = format!("SELECT 1 FROM a SIMJOIN b ON {on}");
        let sql = crate::sql::rewrite_sql(&sql)?.into_owned();
        let message = error(&ctx, &sql).await;
        assert!(message.contains("SIMJOIN") && message.contains(reason), "{on}: {message}");
        assert!(message.contains("a SIMJOIN b ON jaccard(a."), "{message}");
    }
    let misplaced = "SELECT 1 FROM a JOIN b ON a.k = b.k WHERE __simjoin_marker()";
    assert!(error(&ctx, misplaced).await.contains("belongs to the ON"));
    Ok(())
}
