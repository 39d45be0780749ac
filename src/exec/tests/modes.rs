//! Partitions that run apart from each other, as tasks of a cluster do.

use super::*;

/// The rows in partitions, each row where its key has it.
fn by_key(rows: &[Row], partitions: usize) -> Vec<Vec<Row>> {
    let mut parts = vec![vec![]; partitions];
    for row in rows {
        parts[row.2.map_or(0, |key| key as usize + 1) % partitions].push(row.clone());
    }
    parts
}

/// The rows in partitions, in turn.
fn in_turn(rows: &[Row], partitions: usize) -> Vec<Vec<Row>> {
    let mut parts = vec![vec![]; partitions];
    rows.iter().enumerate().for_each(|(i, row)| parts[i % partitions].push(row.clone()));
    parts
}

fn source_of(parts: &[Vec<Row>]) -> Arc<dyn ExecutionPlan> {
    let batches = |rows: &Vec<Row>| rows.chunks(7).map(batch).collect();
    let parts: Vec<Vec<RecordBatch>> = parts.iter().map(batches).collect();
    MemorySourceConfig::try_new_exec(&parts, schema(), None).unwrap()
}

/// The rows of partition `partition` of `plan` when no consumer asks for the other partitions.
async fn one_partition(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    batch_size: usize,
) -> Vec<RecordBatch> {
    let config = small(SessionConfig::new());
    let config = config.with_batch_size(batch_size).with_target_partitions(3);
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let stream = plan.execute(partition, context).unwrap();
    datafusion::physical_plan::common::collect(stream).await.unwrap()
}

/// How a plan is run.
#[derive(Debug, Clone, Copy)]
enum Tasks {
    /// All partitions in one process.
    Together,
    /// A plan for each partition, of which the others are not executed.
    Apart,
    /// Joins as planned, with inputs cut down to what the task reads.
    CutDown,
}

/// The rows of all partitions. `plan` plans the join, of all partitions or of one alone.
async fn tasks(
    tasks: Tasks,
    partitions: usize,
    batch_size: usize,
    plan: impl Fn(Option<usize>) -> SetSimilarityJoinExec,
) -> Vec<RecordBatch> {
    if let Tasks::Together = tasks {
        return run(Arc::new(plan(None)), batch_size).await.unwrap();
    }
    let mut all = vec![];
    for partition in 0..partitions {
        let (task, partition) = match tasks {
            Tasks::CutDown => (plan(Some(partition)), 0),
            _ => (plan(None), partition),
        };
        all.extend(one_partition(&(Arc::new(task) as _), partition, batch_size).await);
    }
    all
}

const TASKS: [Tasks; 3] = [Tasks::Together, Tasks::Apart, Tasks::CutDown];

/// `parts`, or the one of them that a task is left with.
fn left_with(parts: &[Vec<Row>], task: Option<usize>) -> Arc<dyn ExecutionPlan> {
    match task {
        Some(task) => source_of(&parts[task..=task]),
        None => source_of(parts),
    }
}

fn needs(case: &Case, probe: Side) -> Vec<Need> {
    use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
    let mut needs = vec![Need::Rows, Need::Counts(None)];
    if !matches!(case.join_type, LeftAnti | LeftSemi | RightAnti | RightSemi) {
        needs.push(Need::Counts(Some(probe)));
    }
    needs
}

/// Whether the answer must know what became of each row of `side`.
fn lists_rows_of(side: Side, join_type: JoinType) -> bool {
    let semi = match side {
        Side::Left => JoinType::LeftSemi,
        Side::Right => JoinType::RightSemi,
    };
    side.is_preserved(join_type) || join_type == semi
}

/// For a few random cases of each join type.
fn cases() -> impl Iterator<Item = (usize, Case, Vec<Row>, Vec<Row>)> {
    let mut rng = StdRng::seed_from_u64(7);
    (0..48).map(move |round| {
        let mut case = Case::random(&mut rng, round);
        case.join_type = JOIN_TYPES[round % 8];
        case.measure = Measure::ALL[round / 8 % 6];
        let (left, right) = (random_rows(&mut rng, 40), random_rows(&mut rng, 35));
        (round, case, left, right)
    })
}

fn check_case(batches: &[RecordBatch], need: Need, case: &Case, data: [&[Row]; 2], at: &str) {
    let expected = case.expected(data[0], data[1]);
    check(batches, need, case, &expected, at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_that_each_read_the_build_side_give_the_join_together() {
    let mut matches = 0;
    for (round, case, left, right) in cases() {
        for build in [Side::Left, Side::Right] {
            for need in needs(&case, build.other()) {
                let partitions = [1, 2, 5][round % 3];
                let plan = |task: Option<usize>| {
                    let (l, r) = match build {
                        Side::Left => (single(source(&left, 7, 2)), in_turn(&right, partitions)),
                        Side::Right => (single(source(&right, 7, 2)), in_turn(&left, partitions)),
                    };
                    let probe = left_with(&r, task);
                    let (left, right) = match build {
                        Side::Left => (l, probe),
                        Side::Right => (probe, l),
                    };
                    SetSimilarityJoinExec::try_new_in_mode(
                        JoinInput::Two { left, right, build, partitions: 1 },
                        case.join(need),
                        &families(),
                        SimJoinOptions::default(),
                        JoinMode::Broadcast,
                        None,
                    )
                };
                if lists_rows_of(build, case.join_type) {
                    let error = plan(None).unwrap_err().to_string();
                    assert!(error.contains("cannot be broadcast"), "{error}");
                    continue;
                }
                for how in TASKS {
                    let batches = tasks(how, partitions, 7, |task| plan(task).unwrap()).await;
                    let at = format!("round {round} {case:?} build {build} {need:?} {how:?}");
                    check_case(&batches, need, &case, [&left, &right], &at);
                    matches += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
                }
            }
        }
    }
    assert!(matches > 1000, "{matches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_with_parts_of_both_sides_give_the_join_together() {
    let mut matches = 0;
    for (round, mut case, left, right) in cases() {
        case.keyed = true;
        let partitions = [1, 3, 4][round % 3];
        let mode = JoinMode::Partitioned { keys: 1 };
        for build in [Side::Left, Side::Right] {
            for need in needs(&case, build.other()) {
                let plan = |task: Option<usize>| {
                    let [left, right] =
                        [&left, &right].map(|rows| left_with(&by_key(rows, partitions), task));
                    SetSimilarityJoinExec::try_new_in_mode(
                        JoinInput::Two { left, right, build, partitions: 1 },
                        case.join(need),
                        &families(),
                        SimJoinOptions::default(),
                        mode,
                        None,
                    )
                    .unwrap()
                };
                for how in TASKS {
                    let batches = tasks(how, partitions, 7, plan).await;
                    let at = format!("round {round} {case:?} build {build} {need:?} {how:?}");
                    check_case(&batches, need, &case, [&left, &right], &at);
                    matches += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
                }
            }
        }
        for need in [Need::Rows, Need::Counts(None)] {
            let plan = |task: Option<usize>| {
                let input = left_with(&by_key(&left, partitions), task);
                SetSimilarityJoinExec::try_new_in_mode(
                    JoinInput::Itself { input, partitions: 1 },
                    case.join(need),
                    &families(),
                    SimJoinOptions::default(),
                    mode,
                    None,
                )
                .unwrap()
            };
            for how in TASKS {
                let batches = tasks(how, partitions, 7, plan).await;
                let at = format!("self round {round} {case:?} {need:?} {how:?}");
                check_case(&batches, need, &case, [&left, &left], &at);
            }
        }
    }
    assert!(matches > 1000, "{matches}");
}

/// Rows in two halves: each with itself, and one with the other, in memory and from disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn pairs_that_stand_for_both_orders_are_found_in_one() {
    let mut matches = 0;
    for (round, mut case, rows, _) in cases() {
        case.keyed = true;
        case.join_type = JoinType::Inner;
        if !case.measure.is_symmetric() {
            continue;
        }
        let (lower, upper) = rows.split_at(rows.len() / 3);
        let partitions = [1, 3, 4][round % 3];
        let options = SimJoinOptions {
            spill: [SpillChoice::Never, SpillChoice::Always][round / 8 % 2],
            ..SimJoinOptions::default()
        };
        let plan = |input: JoinInput, mode: JoinMode, need: Need| {
            let (join, options) = (case.join(need), options.clone());
            SetSimilarityJoinExec::try_new_in_mode(input, join, &families(), options, mode, None)
                .unwrap()
        };
        for need in [Need::Rows, Need::Counts(None)] {
            for build in [Side::Left, Side::Right] {
                for how in TASKS {
                    let near = |rows: &[Row], task: Option<usize>| {
                        let input = left_with(&by_key(rows, partitions), task);
                        let mode = JoinMode::Partitioned { keys: 1 };
                        plan(JoinInput::Itself { input, partitions: 1 }, mode, need)
                    };
                    let apart = |task: Option<usize>| {
                        let [left, right] =
                            [lower, upper].map(|rows| left_with(&by_key(rows, partitions), task));
                        let mode = JoinMode::Mirrored { keys: 1 };
                        plan(JoinInput::Two { left, right, build, partitions: 1 }, mode, need)
                    };
                    let mut batches = tasks(how, partitions, 7, |task| near(lower, task)).await;
                    batches.extend(tasks(how, partitions, 7, |task| near(upper, task)).await);
                    let crossed = tasks(how, partitions, 7, apart).await;
                    matches += crossed.iter().map(RecordBatch::num_rows).sum::<usize>();
                    batches.extend(crossed);
                    let at = format!("round {round} {case:?} build {build} {need:?} {how:?}");
                    check_case(&batches, need, &case, [&rows, &rows], &at);
                }
            }
        }
    }
    assert!(matches > 1000, "{matches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn one_task_gives_every_join_type() {
    for (round, case, left, right) in cases() {
        let [l, r] = [&left, &right].map(|rows| single(source(rows, 7, 2)));
        let itself = JoinInput::Itself { input: Arc::clone(&l), partitions: 5 };
        let two = JoinInput::Two { left: l, right: r, build: Side::Left, partitions: 1 };
        for (input, right) in [(two, &right), (itself, &left)] {
            let plan = SetSimilarityJoinExec::try_new_in_mode(
                input,
                case.join(Need::Rows),
                &families(),
                SimJoinOptions::default(),
                JoinMode::Single,
                None,
            )
            .unwrap();
            let batches = one_partition(&(Arc::new(plan) as _), 0, 7).await;
            check_case(&batches, Need::Rows, &case, [&left, right], &format!("{round}"));
        }
    }
}

#[tokio::test]
async fn inputs_that_do_not_fit_the_mode_are_refused() {
    let case = Case {
        measure: Measure::Jaccard,
        first: Side::Left,
        threshold: 0.5,
        join_type: JoinType::Inner,
        keyed: false,
        residual: None,
        filtered: false,
    };
    let rows = random_rows(&mut StdRng::seed_from_u64(1), 9);
    let plan = |input, mode| {
        let (join, options) = (case.join(Need::Rows), SimJoinOptions::default());
        SetSimilarityJoinExec::try_new_in_mode(input, join, &families(), options, mode, None)
    };
    let many = || source(&rows, 3, 3);
    let two = |left, right| JoinInput::Two { left, right, build: Side::Left, partitions: 1 };
    let itself = JoinInput::Itself { input: single(many()), partitions: 3 };
    let error = plan(itself, JoinMode::Broadcast).unwrap_err().to_string();
    assert!(error.contains("read its input twice"), "{error}");
    let error = plan(two(many(), many()), JoinMode::Partitioned { keys: 1 }).unwrap_err();
    assert!(error.to_string().contains("1 of 0 blocking keys"), "{error}");
    // Pairs of rows that do not tell their other order.
    let mirrored = |join_type, need| {
        let case = Case { join_type, keyed: true, ..case };
        let (join, options) = (case.join(need), SimJoinOptions::default());
        let mode = JoinMode::Mirrored { keys: 1 };
        SetSimilarityJoinExec::try_new_in_mode(
            two(many(), many()),
            join,
            &families(),
            options,
            mode,
            None,
        )
    };
    assert!(mirrored(JoinType::Inner, Need::Rows).is_ok());
    for (join_type, need) in [
        (JoinType::Left, Need::Rows),
        (JoinType::RightSemi, Need::Rows),
        (JoinType::Inner, Need::Counts(Some(Side::Right))),
    ] {
        let error = mirrored(join_type, need).unwrap_err().to_string();
        assert!(error.contains("both orders in inner joins"), "{error}");
    }
    let execute = |plan: SetSimilarityJoinExec| {
        let error = plan.execute(0, Arc::new(TaskContext::default())).err().unwrap();
        error.to_string()
    };
    let error = execute(plan(two(single(many()), many()), JoinMode::Single).unwrap());
    assert!(error.contains("probe side has 3"), "{error}");
    let error = execute(plan(two(many(), many()), JoinMode::Broadcast).unwrap());
    assert!(error.contains("one partition, not 3"), "{error}");
}
