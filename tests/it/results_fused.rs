//! Results of joins that give what connects, or pairs of first rows, instead of all pairs.

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::cases::{Pattern, Tables};
use crate::oracle::Row;
use crate::results::{components, representatives, seeds};
use crate::support::{
    STRATEGIES, Session, assert_contains, assert_same_rows, explain, measured, plan, plan_text,
    register, rows, rows_of_tasks, rows_with,
};

/// A join below components: which nodes, how they are joined, and where it runs.
struct Fused {
    left: Vec<Row>,
    right: Option<Vec<Row>>,
    join: String,
    nodes: [&'static str; 2],
    session: Session,
}

impl Fused {
    fn draw(rng: &mut StdRng) -> Self {
        let patterns = [
            Pattern::Mixed,
            Pattern::Clean,
            Pattern::Sparse,
            Pattern::Repeats,
            Pattern::Families,
            Pattern::Large,
        ];
        let universe = *[6, 20, 60].choose(rng).unwrap();
        let itself = rng.random_bool(0.6);
        let sizes = [rng.random_range(1..70), rng.random_range(0..50)];
        let pattern = *patterns.choose(rng).unwrap();
        let mut tables = Tables::new(rng, universe);
        let mut left = tables.rows(sizes[0], pattern, &DataType::Int64, 0);
        let mut right = tables.rows(sizes[1], pattern, &DataType::Int64, 40);
        // Nodes that several rows have, and, sometimes, none.
        let some = rng.random_bool(0.5);
        for row in left.iter_mut().chain(&mut right) {
            row.w = (some || rng.random_bool(0.9)).then(|| rng.random_range(0..40));
            row.key = rng.random_bool(0.9).then(|| rng.random_range(0..3));
        }
        if rng.random_bool(0.7) {
            // Rows of one set come in another order than their nodes.
            left.shuffle(rng);
            right.shuffle(rng);
        }
        let nodes = match rng.random_bool(0.1) {
            true => *[["id", "w"], ["u", "f"]].choose(rng).unwrap(),
            false => [*["id", "w", "u", "f", "t"].choose(rng).unwrap(); 2],
        };
        let other = if itself { "x" } else { "y" };
        let kind = *["", "", "LEFT", "RIGHT", "FULL"].choose(rng).unwrap();
        let join = format!("x a {kind} JOIN {other} b ON {}", Self::condition(rng, nodes[0]));
        let session = Session {
            batch_size: *[1, 7, 8192].choose(rng).unwrap(),
            partitions: *[1, 2, 5].choose(rng).unwrap(),
            tasks_of: rng.random_bool(0.2).then(|| rng.random_range(1..3)),
            ..Session::default()
        }
        .option("device", "cpu")
        .option("strategy", STRATEGIES.choose(rng).unwrap())
        .option("debug.match_buffer", [1, 3, 4096].choose(rng).unwrap())
        .option("spill", ["auto", "auto", "always"].choose(rng).unwrap())
        .option("debug.spill_piece_rows", ["auto", "3", "9"].choose(rng).unwrap())
        .option("build_side", ["auto", "left", "right"].choose(rng).unwrap());
        Self { left, right: (!itself).then_some(right), join, nodes, session }
    }

    fn condition(rng: &mut StdRng, node: &str) -> String {
        let measure = *["jaccard", "containment", "overlap"].choose(rng).unwrap();
        let least = match measure {
            "overlap" => rng.random_range(1..4).to_string(),
            _ => ["0.2", "0.5", "0.8", "1.0"].choose(rng).unwrap().to_string(),
        };
        let mut on = format!("{measure}(a.toks, b.toks) >= {least}");
        if rng.random_bool(0.6) {
            let op = *["<", "<=", ">", "<>"].choose(rng).unwrap();
            let column = if rng.random_bool(0.8) { node } else { "id" };
            on += &format!(" AND a.{column} {op} b.{column}");
        }
        if rng.random_bool(0.3) {
            on += " AND a.key = b.key";
        }
        on
    }

    /// Registers `x` and, where the join is not of `x` with itself, `y`: views that have nodes of types
    /// without ranks besides. Texts have one length, so that they keep the order of numbers.
    async fn register(&self, ctx: &SessionContext) {
        for (name, rows) in [("x", Some(&self.left)), ("y", self.right.as_ref())] {
            let Some(rows) = rows else { continue };
            register(ctx, &format!("{name}_rows"), rows);
            let view = format!(
                "CREATE VIEW {name} AS SELECT *, CAST(id AS DOUBLE) AS u, CAST(w AS DOUBLE) AS f, \
                 CAST(w + 100 AS VARCHAR) AS t FROM {name}_rows"
            );
            ctx.sql(&view).await.unwrap().collect().await.unwrap();
        }
    }

    /// Compares with the components of the pairs that a stock join gives. Returns whether the join gives
    /// connections.
    async fn check(&self, seed: u64) -> bool {
        let ([left, right], join) = (self.nodes, &self.join);
        let pairs = self.pairs(&format!("a.{left}::BIGINT, b.{right}::BIGINT, NULL")).await;
        let expected = components(&pairs);
        let expected: Vec<String> = expected
            .iter()
            .map(|(node, (least, size))| format!("{node} | {least} | {size}"))
            .collect();
        let sql = format!(
            "SELECT node::BIGINT, component::BIGINT, size \
             FROM connected_components((SELECT a.{left}, b.{right} AS other FROM {}))",
            join.replace("JOIN", "SIMJOIN")
        );
        self.compare(seed, &sql, &expected).await.contains("yields=connections")
    }

    /// Compares with the representatives of the pairs that a stock join gives. Returns whether the join
    /// gives pairs of first rows.
    async fn check_representatives(&self, seed: u64, scored: bool) -> bool {
        let ([left, right], join) = (self.nodes, &self.join);
        let score = "jaccard(a.toks, b.toks)";
        // Millionths: different scores of sets as small as these are farther apart.
        let of_pairs = match scored {
            true => format!("a.{left}::BIGINT, b.{right}::BIGINT, round({score} * 1e6)::BIGINT"),
            false => format!("a.{left}::BIGINT, b.{right}::BIGINT, NULL"),
        };
        let pairs = self.pairs(&of_pairs).await;
        let shown = |score: &Option<f64>| match score {
            Some(score) if scored => format!(" | {score}"),
            None if scored => " | NULL".to_string(),
            _ => String::new(),
        };
        let expected: Vec<String> = representatives(&pairs, false)
            .iter()
            .map(|(node, (kept, score))| {
                format!("{node} | {kept} | {}{}", node == kept, shown(score))
            })
            .collect();
        let [column, found] = match scored {
            true => [format!(", {score} AS score"), ", round(score * 1e6)::BIGINT".to_string()],
            false => [String::new(), String::new()],
        };
        let sql = format!(
            "SELECT node::BIGINT, representative::BIGINT, kept{found} \
             FROM representatives((SELECT a.{left}, b.{right} AS other{column} FROM {}))",
            join.replace("JOIN", "SIMJOIN")
        );
        self.compare(seed, &sql, &expected).await.contains("yields=pairs of first rows")
    }

    /// The pairs that a stock join gives, and their scores.
    async fn pairs(&self, columns: &str) -> Vec<(Option<i64>, Option<i64>, Option<f64>)> {
        let stock = Session::default().option("recognize_joins", false).context();
        self.register(&stock).await;
        let node = |text: &str| text.parse().ok();
        let pairs = rows(&stock, &format!("SELECT {columns} FROM {}", self.join)).await;
        let pair = |line: &String| match line.split(" | ").collect::<Vec<_>>()[..] {
            [left, right, score] => (node(left), node(right), score.parse().ok()),
            _ => panic!("{line}"),
        };
        pairs.iter().map(pair).collect()
    }

    /// Compares the rows of a statement with those expected. Returns the plan.
    async fn compare(&self, seed: u64, sql: &str, expected: &[String]) -> String {
        let ctx = self.session.context();
        self.register(&ctx).await;
        let plan = plan_text(&plan(&ctx, sql).await.unwrap().create_physical_plan().await.unwrap());
        let found = match self.session.tasks_of {
            Some(tasks) => rows_of_tasks(&ctx, sql, vec![], tasks).await,
            None => rows_with(&ctx, sql, vec![]).await,
        };
        let case = format!("seed {seed}: {sql} {:?}\n{plan}", self.session);
        assert_same_rows(&found, expected, &case);
        plan
    }
}

/// Joins that give what connects have the components of all their pairs, for nodes of every kind: with
/// ranks, and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn fused_joins_have_the_components_of_their_pairs() {
    let (seeds, cases) = seeds(120);
    let (mut ranked, mut unranked) = (0, 0);
    for seed in seeds {
        let case = Fused::draw(&mut StdRng::seed_from_u64(seed));
        let fused = u64::from(case.check(seed).await);
        match ["id", "w"].contains(&case.nodes[0]) {
            true => ranked += fused,
            false => unranked += fused,
        }
    }
    assert!(8 * ranked > cases, "only {ranked} of {cases} joins were fused");
    assert!(6 * unranked > cases, "only {unranked} of {cases} joins were fused");
}

/// Joins that give pairs of first rows have the representatives of all their pairs: of nodes that are
/// distinct, and of others, which need all pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn joins_of_first_rows_have_the_representatives_of_their_pairs() {
    let (seeds, cases) = seeds(120);
    let (mut distinct, mut others) = (0, 0);
    for seed in seeds {
        let rng = &mut StdRng::seed_from_u64(seed ^ 0x5eed);
        let case = Fused::draw(rng);
        let fused = u64::from(case.check_representatives(seed, rng.random_bool(0.7)).await);
        match ["id", "u"].contains(&case.nodes[0]) {
            true => distinct += fused,
            false => others += fused,
        }
    }
    assert!(40 * distinct > cases, "only {distinct} of {cases} joins were fused");
    assert!(40 * others > cases, "only {others} of {cases} joins were fused");
}

/// Fused joins on a device, in pieces and chunks of any size.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn fused_joins_on_a_device_have_the_components_of_their_pairs() {
    use simjoin_gpu::runtime::Device;

    use crate::gpu::Lease;

    let Some(lease) = Lease::new() else { return };
    let (seeds, cases) = seeds(30);
    let mut fused = 0;
    for seed in seeds {
        let rng = &mut StdRng::seed_from_u64(seed);
        let mut case = Fused::draw(rng);
        case.session = case.session.on_device(rng, lease.ordinal());
        fused += u64::from(case.check(seed).await);
        if let Lease::Emulated(device) = &lease {
            device.expect_nothing_left(Device::close, &format!("seed {seed}"));
        }
    }
    assert!(3 * fused > cases, "only {fused} of {cases} joins were fused");
    if let Lease::Emulated(device) = &lease {
        assert!(device.stat("launches") > cases, "{}", device.stat("launches"));
    }
}

/// However many pairs equal rows make, a join gives at most two rows for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn equal_rows_give_few_pairs() {
    const ROWS: usize = 30_000;
    let ctx = Session::on_cpu().context();
    let table = format!(
        "CREATE TABLE x AS SELECT value AS id, [value % 3, value % 3 + 10, 20] AS toks \
         FROM generate_series(1, {ROWS})"
    );
    rows(&ctx, &table).await;
    rows(&ctx, "CREATE TABLE y AS SELECT id + 100000 AS id, toks FROM x").await;
    let itself = "x a SIMJOIN x b ON jaccard(a.toks, b.toks) >= 0.9";
    let two = "x a SIMJOIN y b ON jaccard(a.toks, b.toks) >= 0.9";
    for (join, nodes, size) in [
        (itself.to_string(), ROWS, ROWS / 3),
        (format!("{itself} AND a.id < b.id"), ROWS, ROWS / 3),
        (format!("{itself} AND a.id <> b.id").replace("SIM", "LEFT SIM"), ROWS, ROWS / 3),
        (two.to_string(), 2 * ROWS, 2 * ROWS / 3),
        (two.replace("SIM", "FULL SIM"), 2 * ROWS, 2 * ROWS / 3),
        (itself.replace("0.9", "0.1"), ROWS, ROWS),
        (two.replace("0.9", "0.1"), 2 * ROWS, 2 * ROWS),
    ] {
        let sql = format!("SELECT * FROM connected_components((SELECT a.id, b.id FROM {join}))");
        let sizes = format!("SELECT count(*), min(size), max(size) FROM ({sql})");
        assert_eq!(rows(&ctx, &sizes).await, [format!("{nodes} | {size} | {size}")], "{join}");
        assert_contains(&explain(&ctx, &sql).await, &["yields=connections"]);
        let (_, sums) = measured(&ctx, &sql, &["pairs"]).await;
        assert!((nodes - 3..=2 * nodes).contains(&sums[0]), "{} pairs: {join}", sums[0]);
    }
}

/// A node whose rows lie in different pieces on disk may be dropped by a partner of one of them alone: of its
/// equal rows, others may be kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn representatives_of_nodes_in_several_pieces_are_those_of_all_pairs() {
    let sql = "SELECT * FROM representatives((SELECT a.id, b.id FROM x a SIMJOIN x b \
               ON jaccard(a.toks, b.toks) >= 0.8 AND a.id < b.id))";
    for (spill, piece_rows) in
        [("never", "auto"), ("always", "2"), ("always", "3"), ("always", "auto")]
    {
        let session = Session::on_cpu().option("spill", spill);
        let ctx = session.option("debug.spill_piece_rows", piece_rows).context();
        let long = "[10, 11, 12, 13, 14, 15, 16, 17, 18, 19]";
        let table = format!(
            "CREATE TABLE x AS SELECT * FROM (VALUES (3, [1, 2, 3]), (5, [1, 2, 3]), \
             (7, [1, 2, 3]), (1, {long}), (3, {long})) v(id, toks)"
        );
        rows(&ctx, &table).await;
        let expected = ["1 | 1 | true", "3 | 1 | false", "5 | 5 | true", "7 | 5 | false"];
        assert_same_rows(
            &rows(&ctx, sql).await,
            &expected.map(str::to_string),
            &format!("{spill}, {piece_rows}"),
        );
    }
}

/// Rows of a piece that all lie between two values of another piece come in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn representatives_of_pieces_do_not_depend_on_the_order_of_rows() {
    let ctx =
        Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", "3").context();
    for (number, ids) in
        ["10 20 30 5 3 4", "5 3 4 10 20 30", "14 12 13 30 10 20", "1 30 9 20 7 8 25 24 26 40 2 3"]
            .iter()
            .enumerate()
    {
        let values: Vec<String> = ids.split(' ').map(|id| format!("({id}, [1, 2, 3])")).collect();
        let table = format!(
            "CREATE TABLE t{number} AS SELECT * FROM (VALUES {}) v(id, toks)",
            values.join(", ")
        );
        rows(&ctx, &table).await;
        let ids: Vec<i64> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
        let least = ids.iter().min().unwrap().to_string();
        for on in ["a.id < b.id", "b.id >= a.id", "a.id > b.id"] {
            let sql = format!(
                "SELECT node FROM representatives((SELECT a.id, b.id FROM t{number} a \
                 SIMJOIN t{number} b ON jaccard(a.toks, b.toks) >= 0.9 AND {on})) WHERE kept"
            );
            assert_eq!(rows(&ctx, &sql).await, [least.as_str()], "{ids:?} {on}");
        }
    }
}

/// The join of a piece with itself lists the rows of outer joins, and its join with other pieces none.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn outer_joins_of_pieces_have_the_components_of_their_pairs() {
    for join in ["LEFT SIMJOIN", "RIGHT SIMJOIN", "FULL SIMJOIN"] {
        let sql = format!(
            "SELECT * FROM connected_components((SELECT a.id, b.id FROM x a {join} x b \
             ON jaccard(a.toks, b.toks) >= 0.9 AND a.id < b.id))"
        );
        let mut found = vec![];
        for (spill, piece_rows) in [("never", "auto"), ("always", "3"), ("always", "7")] {
            let session = Session::on_cpu().option("spill", spill);
            let ctx = session.option("debug.spill_piece_rows", piece_rows).context();
            let table = "CREATE TABLE x AS SELECT value * 7 % 60 AS id, CASE WHEN value % 11 = 0 THEN NULL \
                         WHEN value % 5 = 0 THEN [value] ELSE [value % 3, 20] END AS toks \
                         FROM generate_series(1, 60)";
            rows(&ctx, table).await;
            if spill == "always" {
                assert_contains(&explain(&ctx, &sql).await, &["yields=connections"]);
            }
            let mut answer = rows(&ctx, &sql).await;
            answer.sort();
            found.push(answer);
        }
        assert_eq!(found[0].len(), 60, "{join}");
        assert_eq!(found[1], found[0], "{join}");
        assert_eq!(found[2], found[0], "{join}");
    }
}

/// So does a join from disk, where no node has several rows: a pair or two for each piece.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn representatives_of_equal_rows_need_few_pairs_from_disk() {
    const ROWS: usize = 20_000;
    for (piece_rows, pieces) in [("auto", 1), ("6000", 4)] {
        let session = Session::on_cpu().option("spill", "always");
        let ctx = session.option("debug.spill_piece_rows", piece_rows).context();
        let table = format!(
            "CREATE TABLE x AS SELECT value * 7 % {ROWS} AS id, [value % 3, value % 3 + 10, 20] AS toks \
             FROM generate_series(1, {ROWS})"
        );
        rows(&ctx, &table).await;
        for on in ["a.id < b.id", "a.id > b.id"] {
            let sql = format!(
                "SELECT * FROM representatives((SELECT a.id, b.id, jaccard(a.toks, b.toks) \
                 FROM x a SIMJOIN x b ON jaccard(a.toks, b.toks) >= 0.9 AND {on}))"
            );
            let sums = format!("SELECT count(*), count(*) FILTER (WHERE kept) FROM ({sql})");
            assert_eq!(rows(&ctx, &sums).await, [format!("{ROWS} | 3")], "{on}");
            let (_, sums) = measured(&ctx, &sql, &["pairs"]).await;
            let most = 3 * pieces * ROWS;
            assert!((ROWS - 3..=most).contains(&sums[0]), "{} pairs: {on} {piece_rows}", sums[0]);
        }
    }
}

/// The join gives a pair or two for each row whose set an earlier row has: such a row is never kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn representatives_of_equal_rows_need_few_pairs() {
    const ROWS: usize = 30_000;
    let ctx = Session::on_cpu().context();
    let table = format!(
        "CREATE TABLE x AS SELECT value AS id, value % 100 AS w, \
         [value % 3, value % 3 + 10, 20] AS toks FROM generate_series(1, {ROWS})"
    );
    rows(&ctx, &table).await;
    for (least, on, kept, most) in [
        ("0.9", "a.id < b.id", 3, ROWS),
        ("0.9", "a.id > b.id", 3, ROWS),
        ("0.1", "a.id <= b.id", 1, 3 * ROWS + 3),
    ] {
        let sql = format!(
            "SELECT * FROM representatives((SELECT a.id, b.id, jaccard(a.toks, b.toks) \
             FROM x a SIMJOIN x b ON jaccard(a.toks, b.toks) >= {least} AND {on}))"
        );
        let sums = format!("SELECT count(*), count(*) FILTER (WHERE kept) FROM ({sql})");
        assert_eq!(rows(&ctx, &sums).await, [format!("{ROWS} | {kept}")], "{on}");
        assert_contains(&explain(&ctx, &sql).await, &["yields=pairs of first rows"]);
        let (_, sums) = measured(&ctx, &sql, &["pairs"]).await;
        assert!((ROWS - 3..=most).contains(&sums[0]), "{} pairs: {on}", sums[0]);
    }
    // `<>` tells no lesser row, and other conditions tell equal rows apart.
    for on in ["a.id <> b.id", "a.id < b.id AND a.w + b.w < 150", "a.id < b.id AND a.w < 50"] {
        let sql = format!(
            "SELECT * FROM representatives((SELECT a.id, b.id FROM x a SIMJOIN x b \
             ON jaccard(a.toks, b.toks) >= 0.9 AND {on}))"
        );
        assert_contains(&explain(&ctx, &sql).await, &["yields=pairs,"]);
    }
}
