//! Plans of whole statements.

mod recognition;

use arrow::array::AsArray;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::session::install;
use crate::sql::rewrite_sql;
use crate::tests::small;

/// A session with tables `a`, `b` and `c` of `id`, `k`, `name` and `toks`.
pub(crate) async fn session(config: SessionConfig) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(small(config).with_information_schema(true).with_target_partitions(2));
    let ctx = SessionContext::new_with_state(install(builder)?.build());
    for table in ["a", "b", "c"] {
        ctx.sql(&format!(
            "CREATE TABLE {table} (id BIGINT NOT NULL, k BIGINT, name VARCHAR, toks BIGINT[]) \
             AS VALUES (1, 1, 'x', [1, 2, 3]), (2, 1, 'y', [2, 3, 4])"
        ))
        .await?;
    }
    Ok(ctx)
}

/// The EXPLAIN of `sql`: logical, then physical plan.
pub(crate) async fn explain(ctx: &SessionContext, sql: &str) -> Result<String> {
    let sql = format!("EXPLAIN {sql}");
    let batches = ctx.sql(&rewrite_sql(&sql)?).await?.collect().await?;
    let mut text = String::new();
    for batch in &batches {
        let (kinds, plans) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        for (kind, plan) in kinds.iter().zip(plans) {
            text += &format!("{}\n{}\n", kind.unwrap_or_default(), plan.unwrap_or_default());
        }
    }
    Ok(text)
}

/// The error of planning `sql`.
pub(crate) async fn error(ctx: &SessionContext, sql: &str) -> String {
    let planned = match ctx.sql(sql).await {
        Ok(df) => df.create_physical_plan().await,
        Err(e) => Err(e),
    };
    match planned {
        Ok(plan) => panic!("{sql} was planned: {plan:?}"),
        Err(e) => e.strip_backtrace(),
    }
}
