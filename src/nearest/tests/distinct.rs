//! Rows that repeat, which are searched for once.

use datafusion::common::Result;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;

use super::{nested_loops, rows_of};
use crate::SimJoinContextExt;
use crate::session::install;
use crate::tests::statements::{Setup, Way, sorted};

/// Rows of which each fifth has a text of its own, and the others one of four texts.
const ROWS: &str = "CREATE TABLE t AS SELECT value AS id, value % 3 AS k, \
     CASE WHEN value % 5 = 0 THEN 'y' || CAST(value AS VARCHAR) \
     ELSE substr('abcdefg', CAST(value % 4 AS INT) + 1, 4) END AS s FROM generate_series(1, 300)";

async fn sessions() -> Result<[SessionContext; 2]> {
    let sessions = [nested_loops(), Setup::of(Way::Memory).session(install)?];
    for session in &sessions {
        session.sql(ROWS).await?.collect().await?;
    }
    Ok(sessions)
}

/// The rows of a statement, and its plan once it has run.
async fn run(context: &SessionContext, sql: &str) -> Result<(Vec<String>, String)> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    let batches = datafusion::physical_plan::collect(plan.clone(), context.task_ctx()).await?;
    Ok((sorted(&batches), displayable(plan.as_ref()).indent(true).to_string()))
}

/// The scores of the neighbours are those of the nested loop, whatever the condition, and each pair meets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_rows_have_neighbours_of_their_own() -> Result<()> {
    let [oracle, operator] = sessions().await?;
    for on in
        ["true", "a.id <> b.id", "a.id < b.id", "a.id >= b.id", "a.k <> b.k", "a.id + b.id > 300"]
    {
        for count in [1, 3, 40] {
            let sql = format!(
                "SELECT a.id, levenshtein(a.s, b.s) AS d, coalesce({on}, true) AS h FROM t a LEFT SIMJOIN t b \
                 NEAREST {count} BY DISTANCE levenshtein(a.s, b.s) ON {on}"
            );
            let ranked = format!(
                "SELECT a.id AS x, levenshtein(a.s, b.s) AS d, row_number() OVER (PARTITION BY a.id \
                 ORDER BY levenshtein(a.s, b.s)) AS r FROM t a JOIN t b ON {on}"
            );
            let expected = format!(
                "SELECT a.id, q.d, true AS h FROM t a LEFT JOIN \
                 (SELECT * FROM ({ranked}) WHERE r <= {count}) q ON a.id = q.x"
            );
            let expected = rows_of(&oracle, &expected).await?;
            let (found, plan) = run(&operator, &sql).await?;
            assert_eq!(found, expected, "{sql}\n{plan}");
            assert!(plan.contains("distinct rows"), "{sql}\n{plan}");
        }
    }
    Ok(())
}

/// Ties are all kept, or those that come first by further keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_of_equal_rows_are_those_of_the_nested_loop() -> Result<()> {
    let [oracle, operator] = sessions().await?;
    for on in ["", " AND a.id <> b.id", " AND a.id < b.id", " AND a.k <> b.k"] {
        for ranked in [
            "rank() OVER (PARTITION BY a.id ORDER BY levenshtein(a.s, b.s))",
            "row_number() OVER (PARTITION BY a.id ORDER BY levenshtein(a.s, b.s), b.id)",
            "row_number() OVER (PARTITION BY a.id ORDER BY levenshtein(a.s, b.s), b.k DESC, b.id)",
        ] {
            let sql = |join: &str| {
                format!(
                    "SELECT a.id, b.id AS o FROM t a {join} t b ON levenshtein(a.s, b.s) <= 2{on} \
                     QUALIFY {ranked} <= 3"
                )
            };
            let expected = rows_of(&oracle, &sql("JOIN")).await?;
            let (found, plan) = run(&operator, &sql("SIMJOIN")).await?;
            assert_eq!(found, expected, "{on} {ranked}\n{plan}");
            assert!(plan.contains("distinct rows"), "{plan}");
        }
    }
    Ok(())
}
