//! Every part of an operator survives the way through bytes.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::{AsExecutionPlan, DefaultPhysicalProtoConverter};
use datafusion_proto::protobuf::PhysicalPlanNode;

use super::messages::{
    BestPairsNode, ColumnNode, JoinInputKind, JoinModeKind, MatchedNodesNode, OutputColumnKind,
    OutputColumnNode, SimilarityJoinNode,
};
use super::*;
use crate::{function_registry, physical_codec, scheduler_session, session_config};
use datafusion_simjoin::SimJoinContextExt;
use datafusion_simjoin::exec::{JoinInput, JoinMode};
use datafusion_simjoin::families;
use datafusion_simjoin::internals::shuffle::{GridPairs, GridSpec, PlacedRows};
use datafusion_simjoin::nearest::BestPairsExec;
use datafusion_simjoin::spec::{Predicate, Side};
use simjoin_core::engine::Family;

async fn session() -> SessionContext {
    let ctx = SessionContext::new_with_state(scheduler_session(session_config()).unwrap());
    ctx.sql(
        "CREATE TABLE doc AS SELECT column1 AS id, column2 AS toks, column3 AS k, column4 AS w \
         FROM VALUES (1, [1, 2, 3], 'x', 0.5), (2, [2, 3], 'y', 1.5), (3, NULL, NULL, 2.5)",
    )
    .await
    .unwrap();
    ctx
}

async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.simjoin_sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

fn through_bytes(
    ctx: &SessionContext,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let codec = physical_codec();
    let node = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), codec.as_ref())?;
    let mut bytes = vec![];
    node.try_encode(&mut bytes)?;
    PhysicalPlanNode::try_decode(&bytes)?
        .try_into_physical_plan(ctx.task_ctx().as_ref(), codec.as_ref())
}

fn find_best(plan: &Arc<dyn ExecutionPlan>) -> Option<&BestPairsExec> {
    let here = plan.downcast_ref::<BestPairsExec>();
    here.or_else(|| plan.children().into_iter().find_map(find_best))
}

fn find_join(plan: &Arc<dyn ExecutionPlan>) -> Option<&SetSimilarityJoinExec> {
    let best = plan.downcast_ref::<BestPairsExec>().map(BestPairsExec::plain);
    let here = plan.downcast_ref::<SetSimilarityJoinExec>().or(best);
    here.or_else(|| plan.children().into_iter().find_map(find_join))
}

/// All that a join says of itself: EXPLAIN leaves columns out.
fn told(plan: &Arc<dyn ExecutionPlan>) -> String {
    let join = find_join(plan).unwrap();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:x} {:?}",
        find_best(plan).map(BestPairsExec::best),
        join.join(),
        join.options(),
        join.mode(),
        join.reason(),
        join.join().predicate.bound.to_bits(),
        join.properties().output_partitioning(),
    )
}

const JOINS: [&str; 18] = [
    "SELECT a.id, b.id, jaccard(a.toks, b.toks) FROM doc a SIMJOIN doc b \
     ON jaccard(a.toks, b.toks) >= 0.1 + 0.2",
    "SELECT a.id, b.k FROM doc a LEFT SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
     ON dice(a.toks, b.toks) >= 0.5 AND a.k = b.k AND a.w + b.w < 3 AND a.w < 2",
    "SELECT a.id, b.k FROM doc a RIGHT SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
     ON containment(b.toks, a.toks) >= 0.5 AND a.k IS NOT DISTINCT FROM b.k",
    "SELECT a.id, b.k FROM doc a FULL SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
     ON overlap(a.toks, b.toks) >= 2 AND set_cosine(a.toks, b.toks) < a.w",
    "SELECT * FROM doc a LEFT ANTI SIMJOIN doc b ON overlap_coefficient(a.toks, b.toks) >= 0.5 \
     AND a.id <> b.id",
    "SELECT a.id, count(*), count(b.k) FROM doc a LEFT SIMJOIN doc b \
     ON jaccard(a.toks, b.toks) >= 0.5 GROUP BY a.id",
    "SELECT count(*) FROM doc a SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
     ON jaccard(a.toks, b.toks) >= 0.5",
    "SELECT a.id FROM doc a SIMJOIN doc b ON jaccard(a.toks, b.toks) >= 'NaN'::DOUBLE",
    "SELECT a.id FROM doc a SIMJOIN doc b ON jaccard(qgrams(a.k, 2), word_tokens(b.k)) >= 0.5 \
     AND upper(a.k) = lower(b.k)",
    "SELECT a.id FROM doc a SIMJOIN doc b ON array_distance(a.toks, b.toks) <= 2.5",
    "SELECT a.id FROM doc a JOIN doc b ON array_distance(a.toks, b.toks) <= 2.5",
    "SELECT a.id FROM doc a SIMJOIN doc b ON dice(a.toks, b.toks) >= 0.5 \
     ORDER BY dice(a.toks, b.toks) DESC LIMIT 7",
    "SELECT a.id FROM doc a SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
     ON overlap(a.toks, b.toks) >= 1 ORDER BY overlap(a.toks, b.toks) DESC, b.id LIMIT 7",
    "SELECT a.id FROM doc a SIMJOIN doc b ON dice(a.toks, b.toks) >= 0.5 \
     QUALIFY rank() OVER (PARTITION BY a.id ORDER BY dice(a.toks, b.toks) DESC) < 3",
    "SELECT a.id FROM doc a SIMJOIN doc b ON dice(a.toks, b.toks) >= 0.5 \
     QUALIFY row_number() OVER (PARTITION BY b.id ORDER BY dice(a.toks, b.toks) DESC) = 1",
    "SELECT a.id FROM doc a SIMJOIN doc b ON dice(a.toks, b.toks) >= 0.5 QUALIFY row_number() OVER \
     (PARTITION BY b.id ORDER BY dice(a.toks, b.toks) DESC, a.w DESC, a.id NULLS FIRST) < 4",
    "SELECT * FROM one_to_one((SELECT b.id, a.k, dice(a.toks, b.toks) FROM doc a \
     SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b ON dice(a.toks, b.toks) >= 0.5 AND a.k = b.k))",
    "SELECT * FROM one_to_one((SELECT q.y, q.x, q.v FROM (SELECT a.id AS x, b.id AS y, \
     array_distance(a.toks, b.toks) AS v FROM doc a SIMJOIN doc b \
     ON array_distance(a.toks, b.toks) <= 2.5 AND a.id <> b.id) q), 'distance')",
];

#[tokio::test]
async fn joins_survive_the_way_through_bytes() {
    let ctx = session().await;
    for set in ["strategy = 'auto'", "debug.candidate_chunk = 7", "strategy = 'groupjoin'"] {
        ctx.sql(&format!("SET simjoin.{set}")).await.unwrap();
        for sql in JOINS {
            if set.contains("groupjoin") && sql.contains("array_distance") {
                // A strategy of sets.
                continue;
            }
            let plan = planned(&ctx, sql).await;
            let back = through_bytes(&ctx, &plan).unwrap_or_else(|e| panic!("{sql}: {e}"));
            assert_eq!(told(&plan), told(&back), "{sql}");
            let text =
                |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
            assert_eq!(text(&plan), text(&back), "{sql}");
            assert_eq!(plan.schema(), back.schema(), "{sql}");
        }
    }
}

/// A match of columns that are no nodes of both sides, or of a number of pairs, is refused.
#[tokio::test]
async fn matches_that_cannot_be_are_errors() {
    let ctx = session().await;
    let codec = SimJoinPhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default()));
    let writer = Writer { codec: &codec, converter: &DefaultPhysicalProtoConverter {} };
    for sql in &JOINS[16..] {
        let plan = planned(&ctx, sql).await;
        let best = find_best(&plan).unwrap();
        assert_eq!(best.plain().mode(), JoinMode::Single);
        let inputs: Vec<_> = best.children().into_iter().map(Arc::clone).collect();
        let decoded = |change: &dyn Fn(&mut BestPairsNode)| {
            let mut node = join::write_best_pairs(best, &writer).unwrap();
            change(&mut node);
            let mut bytes = vec![];
            let operator = OperatorKind::BestPairs(Box::new(node));
            seal(operator, env!("CARGO_PKG_VERSION"), FORMAT, &mut bytes).unwrap();
            let converter = DefaultPhysicalProtoConverter {};
            codec.try_decode(&bytes, &inputs, ctx.task_ctx().as_ref(), &converter)
        };
        decoded(&|_| {}).unwrap();
        for (left, right) in [(0, 0), (0, 2), (3, 1), (0, u64::MAX)] {
            let lied = decoded(&|node| node.nodes = Some(MatchedNodesNode { left, right }));
            assert!(lied.is_err(), "{left} {right} {sql}");
        }
        let error = decoded(&|node| node.count = 7).unwrap_err().to_string();
        assert!(error.contains("a one-to-one match of a number of pairs"), "{error}");
        let error = decoded(&|node| node.nodes = None).unwrap_err().to_string();
        assert!(error.contains("the best 0 pairs"), "{error}");
        // Tasks that do not see all rows make none.
        let lied = decoded(&|node| {
            node.join.mode.kind = Some(JoinModeKind::Partitioned(1));
        });
        assert!(lied.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn every_mode_survives() {
    let ctx = session().await;
    let plan = planned(&ctx, JOINS[1]).await;
    // One whose sides have the same columns.
    let inner = planned(
        &ctx,
        "SELECT a.k, b.k FROM doc a SIMJOIN (SELECT * FROM doc WHERE w > 0.7) b \
         ON dice(a.toks, b.toks) >= 0.5 AND a.k = b.k AND a.w + b.w < 3 AND a.id <> b.id",
    )
    .await;
    let keys = 1;
    for mode in [
        JoinMode::Shared,
        JoinMode::Single,
        JoinMode::Broadcast,
        JoinMode::Partitioned { keys },
        JoinMode::Mirrored { keys },
    ] {
        let plan = if let JoinMode::Mirrored { .. } = mode { &inner } else { &plan };
        let join = find_join(plan).unwrap();
        // A build side that any mode takes.
        let JoinInput::Two { left, right, .. } = join.input().clone() else { unreachable!() };
        let input = JoinInput::Two { left, right, build: Side::Right, partitions: 3 };
        let reason = Some(format!("because of {mode}"));
        let join = join.join().clone();
        let options = datafusion_simjoin::SimJoinOptions::default();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(
            SetSimilarityJoinExec::try_new_in_mode(input, join, &families(), options, mode, reason)
                .unwrap(),
        );
        assert_eq!(told(&plan), told(&through_bytes(&ctx, &plan).unwrap()));
    }
}

#[tokio::test]
async fn thresholds_survive_to_the_last_bit() {
    let ctx = session().await;
    let plan = planned(&ctx, JOINS[0]).await;
    let join = find_join(&plan).unwrap();
    for bits in [f64::NAN.to_bits(), 0x7ff8_0000_0000_0001, (0.1_f64 + 0.2).to_bits(), 1] {
        let mut changed = join.join().clone();
        changed.predicate.bound = f64::from_bits(bits);
        let options = datafusion_simjoin::SimJoinOptions::default();
        let input = join.input().clone();
        let changed = SetSimilarityJoinExec::try_new(input, changed, &families(), options);
        let plan: Arc<dyn ExecutionPlan> = Arc::new(changed.unwrap());
        let back = through_bytes(&ctx, &plan).unwrap();
        assert_eq!(find_join(&back).unwrap().join().predicate.bound.to_bits(), bits);
    }
}

#[tokio::test]
async fn the_grid_survives() {
    let ctx = session().await;
    let plan = planned(&ctx, JOINS[1]).await;
    let join = find_join(&plan).unwrap();
    let call = join.join().predicate.call;
    let of = |side: Side| {
        let join = join.join();
        let rows = PlacedRows {
            family: sets(),
            predicate: join.predicate,
            side,
            argument: Arc::clone(join.argument(side)),
            keys: join
                .on
                .iter()
                .map(|(l, r)| Arc::clone(if side == Side::Left { l } else { r }))
                .collect(),
            null_equality: join.null_equality,
            filter: join.side_filter(side).cloned(),
        };
        (rows, Arc::clone(join_input(&plan).side(side)))
    };
    let mut histograms: Vec<Arc<dyn ExecutionPlan>> = vec![];
    for side in [Side::Left, Side::Right] {
        let (rows, input) = of(side);
        histograms
            .push(Arc::new(AxisHistogramExec::try_new(input, rows, 1 + side as u64).unwrap()));
    }
    for (side, visits_once, pairs) in [
        (Side::Left, [true, false], GridPairs::All),
        (Side::Right, [false, true], GridPairs::All),
        (Side::Left, [false, false], GridPairs::Within),
        (Side::Right, [false, false], GridPairs::Across),
    ] {
        let (rows, input) = of(side);
        let spec = GridSpec {
            predicate: Predicate::new(call, f64::from_bits(0x3fe5_5555_5555_5556)),
            tasks: 7,
            visits_once,
            pairs,
        };
        let grid: Arc<dyn ExecutionPlan> =
            Arc::new(AxisGridExec::try_new(input, histograms.clone(), rows, spec).unwrap());
        let back = through_bytes(&ctx, &grid).unwrap();
        let found = back.downcast_ref::<AxisGridExec>().unwrap();
        assert_eq!(*found.spec(), spec);
        assert_eq!(found.histograms().len(), 2);
        let told = |grid: &Arc<dyn ExecutionPlan>| {
            let rows = format!("{:?}", grid.downcast_ref::<AxisGridExec>().unwrap().rows());
            rows + &displayable(grid.as_ref()).indent(true).to_string()
        };
        assert_eq!(told(&grid), told(&back));
    }
}

fn sets() -> Arc<dyn Family> {
    Arc::clone(datafusion_simjoin::families().get("set").unwrap())
}

fn join_input(plan: &Arc<dyn ExecutionPlan>) -> &JoinInput {
    find_join(plan).unwrap().input()
}

#[tokio::test]
async fn a_declined_join_keeps_its_reason() {
    let ctx = session().await;
    let input = planned(&ctx, "SELECT * FROM doc").await;
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(SimilarityJoinDeclinedExec::new(input, "no reason".to_string()));
    let back = through_bytes(&ctx, &plan).unwrap();
    let back = back.downcast_ref::<SimilarityJoinDeclinedExec>().unwrap();
    assert_eq!(back.reason(), "no reason");
}

#[tokio::test]
async fn the_parts_of_a_join_stay_together() {
    let ctx = session().await;
    let input = planned(&ctx, "SELECT * FROM doc").await;
    let parts = JoinPartsExec::try_new(vec![Arc::clone(&input), input]).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(parts);
    let back = through_bytes(&ctx, &plan).unwrap();
    assert_eq!(
        displayable(back.as_ref()).indent(true).to_string(),
        displayable(plan.as_ref()).indent(true).to_string()
    );
    assert!(back.is::<JoinPartsExec>());
}

fn sealed(version: &str, format: u32) -> Vec<u8> {
    let mut bytes = vec![];
    let declined = OperatorKind::Declined(DeclinedNode { reason: "x".to_string() });
    seal(declined, version, format, &mut bytes).unwrap();
    bytes
}

async fn decoded_by(
    codec: &dyn PhysicalExtensionCodec,
    bytes: &[u8],
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let ctx = session().await;
    let inputs = [planned(&ctx, "SELECT * FROM doc").await];
    codec.try_decode(bytes, &inputs, ctx.task_ctx().as_ref(), &DefaultPhysicalProtoConverter {})
}

#[tokio::test]
async fn bytes_of_another_version_are_refused_with_both_versions() {
    let ours = env!("CARGO_PKG_VERSION");
    let codec = physical_codec();
    assert!(decoded_by(codec.as_ref(), &sealed(ours, FORMAT)).await.is_ok());
    for (version, format) in [("99.1.2", FORMAT), (ours, FORMAT + 1)] {
        let error = decoded_by(codec.as_ref(), &sealed(version, format)).await.unwrap_err();
        let error = error.to_string();
        for part in [ours, version, &format!("plan format {format}"), "run the same version"] {
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }
}

#[tokio::test]
async fn bytes_that_are_cut_or_unknown_are_errors() {
    let codec = physical_codec();
    let whole = sealed(env!("CARGO_PKG_VERSION"), FORMAT);
    for end in MARK.len()..whole.len() {
        assert!(decoded_by(codec.as_ref(), &whole[..end]).await.is_err(), "{end}");
    }
    // A process without this codec fails, whatever it makes of the bytes.
    let ballista = BallistaPhysicalExtensionCodec::default();
    assert!(decoded_by(&ballista, &whole).await.is_err());
}

/// The operators of a peer that lies are refused, or do no harm, before anything runs.
#[tokio::test]
async fn columns_and_counts_that_cannot_be_are_errors() {
    let ctx = session().await;
    let plan = planned(&ctx, JOINS[1]).await;
    let codec = SimJoinPhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default()));
    let writer = Writer { codec: &codec, converter: &DefaultPhysicalProtoConverter {} };
    let join = find_join(&plan).unwrap();
    let inputs = [Side::Left, Side::Right].map(|side| Arc::clone(join.input().side(side)));
    let decoded = |operator: OperatorKind, inputs: &[Arc<dyn ExecutionPlan>]| {
        let mut bytes = vec![];
        seal(operator, env!("CARGO_PKG_VERSION"), FORMAT, &mut bytes).unwrap();
        codec.try_decode(&bytes, inputs, ctx.task_ctx().as_ref(), &DefaultPhysicalProtoConverter {})
    };
    let lie = |change: &dyn Fn(&mut SimilarityJoinNode)| {
        let mut node = join::write(join, &writer).unwrap();
        change(&mut node.join);
        decoded(OperatorKind::Join(Box::new(node)), &inputs)
    };
    lie(&|_| {}).unwrap();
    let column = |side: Side, index: u64| {
        let column = ColumnNode { side: join::write_side(side), index };
        OutputColumnNode { kind: Some(OutputColumnKind::Input(column)) }
    };
    for (side, columns) in [(Side::Left, 4), (Side::Right, 4)] {
        for index in [columns, 99, u64::MAX] {
            let error = lie(&|node| node.output[0] = column(side, index)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("reads column {index} of its {side} input")),
                "{error}"
            );
            let error = lie(&|node| {
                node.residual.as_mut().unwrap().columns[0] = column(side, index);
            });
            assert!(error.unwrap_err().to_string().contains(&index.to_string()));
        }
    }
    let error = lie(&|node| {
        node.output.pop();
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("output columns for a schema of"), "{error}");

    let itself = planned(&ctx, JOINS[0]).await;
    let mut node = join::write(find_join(&itself).unwrap(), &writer).unwrap();
    node.input.kind = Some(JoinInputKind::Itself(1 << 60));
    let input = Arc::clone(join_input(&itself).side(Side::Left));
    let many = decoded(OperatorKind::Join(Box::new(node)), &[input]).unwrap();
    assert!(many.properties().output_partitioning().partition_count() <= 1 << 16);

    let rows = PlacedRows {
        family: sets(),
        predicate: join.join().predicate,
        side: Side::Left,
        argument: Arc::clone(join.join().argument(Side::Left)),
        keys: vec![],
        null_equality: join.join().null_equality,
        filter: None,
    };
    let input = Arc::clone(&inputs[0]);
    let histogram: Arc<dyn ExecutionPlan> =
        Arc::new(AxisHistogramExec::try_new(Arc::clone(&input), rows.clone(), 1).unwrap());
    let spec = GridSpec {
        predicate: join.join().predicate.with_bound(0.5),
        tasks: 7,
        visits_once: [false, false],
        pairs: GridPairs::All,
    };
    let made = AxisGridExec::try_new(Arc::clone(&input), vec![Arc::clone(&histogram)], rows, spec)
        .unwrap();
    for tasks in [0, 1 << 21, 1 << 60] {
        let mut node = grid::write(&made, &writer).unwrap();
        node.tasks = tasks;
        let inputs = [Arc::clone(&input), Arc::clone(&histogram)];
        let error = decoded(OperatorKind::AxisGrid(Box::new(node)), &inputs).unwrap_err();
        assert!(error.to_string().contains(&format!("by {tasks} tasks")), "{error}");
    }
}

/// Lambdas, also those whose parameters stand behind a tile.
#[tokio::test]
async fn lambdas_survive() {
    let ctx = session().await;
    ctx.sql("SET datafusion.sql_parser.dialect = 'duckdb'").await.unwrap();
    let plan = planned(
        &ctx,
        "SELECT a.id, b.k FROM doc a SIMJOIN doc b ON jaccard(array_filter(a.toks, x -> x > a.id), \
         array_filter(b.toks, x -> x > b.id)) >= 0.5",
    )
    .await;
    assert_eq!(told(&plan), told(&through_bytes(&ctx, &plan).unwrap()));
}

/// Window functions travel by name, with the literals among their arguments.
#[tokio::test]
async fn weights_of_collections_survive() {
    let ctx = session().await;
    for call in ["tfidf(toks)", "idf(toks)", "bm25_weights(toks)", "bm25_weights(toks, 0.5, 1)"] {
        let query = format!("SELECT id, {call} OVER (PARTITION BY k) AS set FROM doc ORDER BY id");
        let plan = planned(&ctx, &query).await;
        let back = through_bytes(&ctx, &plan).unwrap();
        assert_eq!(back.schema(), plan.schema());
        let found = collect(back, ctx.task_ctx()).await.unwrap();
        assert_eq!(found, collect(plan, ctx.task_ctx()).await.unwrap(), "{call}");
    }
    for function in functions::windows() {
        let decoded = physical_codec().try_decode_udwf(function.name(), &[]).unwrap();
        assert_eq!(decoded, function);
        assert!(function_registry().window_functions.contains_key(function.name()));
    }
}

#[tokio::test]
async fn operators_over_pairs_survive() {
    let ctx = session().await;
    let pairs = "(SELECT id, id + 1 AS other, w FROM doc)";
    for function in [
        "connected_components((SELECT id, id + 1 AS other FROM doc))".to_string(),
        format!("connected_components({pairs}, [0.5, 1.5])"),
        format!("representatives({pairs})"),
        format!("one_to_one({pairs}, 'distance')"),
    ] {
        let plan = planned(&ctx, &format!("SELECT * FROM {function}")).await;
        let back = through_bytes(&ctx, &plan).unwrap();
        let shown = |plan: &Arc<dyn ExecutionPlan>| {
            format!("{}{:?}", displayable(plan.as_ref()).indent(true), plan.schema())
        };
        assert_eq!(shown(&back), shown(&plan), "{function}");
        // A cluster merges by task first.
        let merges = shown(&plan).matches("ConnectedComponentsExec").count();
        assert_eq!(merges, if function.starts_with("conn") { 2 } else { 0 }, "{function}");
    }
}

#[tokio::test]
async fn nearest_rows_survive() {
    let ctx = session().await;
    let words = "levenshtein(a.k, b.k)";
    for sql in [
        "SELECT a.id, jaccard(a.toks, b.toks), b.k FROM doc a SIMJOIN doc b NEAREST 3 WITH TIES BY SIMILARITY \
         jaccard(a.toks, b.toks) ON a.k = b.k AND jaccard(a.toks, b.toks) < 0.7"
            .to_string(),
        format!("SELECT * FROM doc a LEFT SIMJOIN doc b NEAREST BY DISTANCE {words} ON a.id > 1 AND b.w < a.w"),
        format!(
            "SELECT * FROM doc a SIMJOIN doc b NEAREST 2 BY SIMILARITY jaro_similarity(a.k, b.k) ON {words} < b.id"
        ),
        "SELECT * FROM doc a JOIN doc b NEAREST 2 BY SIMILARITY 0.5 * jaccard(a.toks, b.toks) + CASE WHEN a.k = b.k \
         THEN 0.3 ELSE 0 END + 0.2 * jaro_similarity(b.k, a.k) ON a.id <> b.id"
            .to_string(),
        format!("SELECT * FROM doc a JOIN doc b NEAREST 2 BY DISTANCE 0.5 * {words} + 1 ON {words} < 3"),
        "SELECT * FROM doc a JOIN doc b NEAREST 2 BY DISTANCE a.w - b.w ON a.k = b.k AND a.id <> b.id"
            .to_string(),
    ] {
        let plan = planned(&ctx, &sql).await;
        let back = through_bytes(&ctx, &plan).unwrap();
        let told = |plan: &Arc<dyn ExecutionPlan>| {
            let mut found = None;
            let mut open = vec![Arc::clone(plan)];
            while let Some(plan) = open.pop() {
                if let Some(node) = plan.downcast_ref::<NearestJoinExec>() {
                    found = Some(format!("{:?} {:?}", node.join(), node.options()));
                }
                open.extend(plan.children().into_iter().map(Arc::clone));
            }
            found.unwrap()
        };
        assert_eq!(told(&back), told(&plan), "{sql}");
        let shown = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(shown(&back), shown(&plan), "{sql}");
    }
}
