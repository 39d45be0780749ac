use arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::logical_expr::{LogicalPlan, Volatility, create_udf};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, col, lit};

use super::*;
use crate::config::{BuildSideChoice, StrategyName};
use crate::functions::expr_fn::jaccard;
use crate::spec::Side;
use crate::tests::small;

#[derive(Debug)]
struct OwnPlanner;

#[async_trait]
impl QueryPlanner for OwnPlanner {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!("never called")
    }
}

fn builder() -> SessionStateBuilder {
    SessionStateBuilder::new_with_default_features()
        .with_config(small(SessionConfig::new()).with_information_schema(true))
}

fn context(builder: SessionStateBuilder) -> SessionContext {
    SessionContext::new_with_state(install(builder).unwrap().build())
}

#[test]
fn a_query_planner_of_the_caller_is_not_replaced() {
    let error = install(builder().with_query_planner(Arc::new(OwnPlanner))).err().unwrap();
    let error = error.to_string();
    assert!(error.contains("OwnPlanner") && error.contains("SimJoinQueryPlanner::new"), "{error}");
}

#[test]
fn a_function_of_the_caller_is_not_replaced() {
    let own = create_udf(
        "list_jaccard",
        vec![DataType::Utf8],
        DataType::Float64,
        Volatility::Immutable,
        Arc::new(|_| plan_err!("never called")),
    );
    let mut builder = builder();
    builder.scalar_functions().get_or_insert_default().push(Arc::new(own));
    let error = install(builder).err().unwrap().to_string();
    assert!(error.contains("list_jaccard"), "{error}");
}

/// The join needs none of them.
#[test]
fn a_normalize_of_the_caller_stays() {
    let own = create_udf(
        "normalize",
        vec![DataType::Utf8],
        DataType::Utf8,
        Volatility::Immutable,
        Arc::new(|_| plan_err!("never called")),
    );
    let mut builder = builder();
    builder.scalar_functions().get_or_insert_default().push(Arc::new(own.clone()));
    let state = install(builder).unwrap().build();
    assert_eq!(state.scalar_functions()["normalize"].as_ref(), &own);
    assert!(state.scalar_functions().contains_key("unaccent"));
}

#[test]
fn installing_twice_changes_nothing() {
    let once = install(builder()).unwrap().build();
    let rules = once.analyzer().rules.len();
    let functions = once.scalar_functions().len();
    let again = install(SessionStateBuilder::new_from_existing(once)).unwrap().build();
    assert_eq!(again.analyzer().rules.len(), rules);
    assert_eq!(again.scalar_functions().len(), functions);
}

#[test]
fn options_of_the_session_are_kept() {
    let mut config = SessionConfig::new();
    config.options_mut().extensions.insert(SimJoinOptions {
        strategy: StrategyName::new("allpairs"),
        ..SimJoinOptions::default()
    });
    let state = install(builder().with_config(config)).unwrap().build();
    let options = SimJoinOptions::of(state.config_options());
    assert_eq!(options.strategy, StrategyName::new("allpairs"));
}

#[tokio::test]
async fn options_are_shown_and_set_by_sql() -> Result<()> {
    let ctx = context(builder());
    let shown = ctx.sql("SHOW simjoin.device").await?.to_string().await?;
    assert!(shown.contains("simjoin.device") && shown.contains("auto"), "{shown}");
    ctx.sql("SET simjoin.build_side = 'right'").await?;
    let options = SimJoinOptions::of(ctx.state().config_options());
    assert_eq!(options.build_side, BuildSideChoice::Fixed(Side::Right));
    let settings = ctx
        .sql("SELECT name FROM information_schema.df_settings WHERE name LIKE 'simjoin.%'")
        .await?;
    assert_eq!(settings.count().await?, SimJoinOptions::NAMES.len());
    let error = ctx.sql("SET simjoin.device = 'tpu'").await.unwrap_err().to_string();
    assert!(error.contains("cuda:0,2"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_data_frame_needs_the_similarity_join() -> Result<()> {
    let ctx = SessionContext::new();
    ctx.sql("CREATE TABLE t AS VALUES ([1, 2])").await?;
    let (a, b) = (ctx.table("t").await?.alias("a")?, ctx.table("t").await?.alias("b")?);
    let condition = jaccard(col("a.column1"), col("b.column1")).gt_eq(lit(0.5));
    let error = a.similarity_join(b, JoinType::Inner, condition).unwrap_err().to_string();
    assert!(error.contains("install"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_data_frame_join_insists() -> Result<()> {
    let ctx = context(builder());
    ctx.sql("CREATE TABLE t AS VALUES ([1, 2])").await?;
    let sides = || async {
        Ok::<_, datafusion::error::DataFusionError>((
            ctx.table("t").await?.alias("a")?,
            ctx.table("t").await?.alias("b")?,
        ))
    };
    let similarity = || jaccard(col("a.column1"), col("b.column1"));
    let (a, b) = sides().await?;
    let joined = a.similarity_join(b, JoinType::Left, similarity().gt_eq(lit(0.5)))?;
    let plan = format!("{:?}", joined.create_physical_plan().await?);
    assert!(plan.contains("SetSimilarityJoinExec"), "{plan}");
    let (a, b) = sides().await?;
    let joined = a.similarity_join(b, JoinType::Left, similarity().gt_eq(lit(-1.0)))?;
    let error = joined.create_physical_plan().await.unwrap_err().to_string();
    assert!(error.contains("SIMJOIN cannot run") && error.contains("disjoint"), "{error}");
    Ok(())
}
