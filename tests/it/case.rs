//! Joins drawn at random: tables, statement, options, and the answer that the oracle gives.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::cases::{
    Condition, EQUALITIES, Literal, Operator, Pattern, Predicate, RESIDUALS, Tables, element_types,
};
use crate::lists::Layout;
use crate::oracle::{Cell, JoinKind, Joined, Measure, Row, and, join, line, set, similarity};
use crate::support::{
    OPERATOR, STRATEGIES, Session, assert_same_rows, batch_of, physical, register_partitions,
    rows_of_tasks, rows_with, split, uses_operator,
};

/// The output of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Columns of both sides and two scores.
    Rows,
    /// `count(*)` and counts of a column of each side.
    Count,
    /// The same, grouped by an expression of the left, of the right side.
    Grouped { left: bool, by: Group },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Id,
    Key,
    Remainder,
}

impl Group {
    fn sql(self, side: &str) -> String {
        match self {
            Self::Id => format!("{side}.id"),
            Self::Key => format!("{side}.key"),
            Self::Remainder => format!("{side}.id % 3"),
        }
    }

    fn cell(self, row: &Row) -> Cell {
        match self {
            Self::Id => Cell::Int(row.id),
            Self::Key => row.key.into(),
            Self::Remainder => Cell::Int(row.id % 3),
        }
    }
}

/// A join drawn at random, and what it must give.
pub struct Case {
    predicate: Predicate,
    kind: JoinKind,
    simjoin: bool,
    equality: Option<Condition>,
    residual: Option<Condition>,
    output: Output,
    /// Measures in the select list, and whether their arguments are swapped.
    scores: [(Measure, bool); 2],
    left: Vec<Row>,
    /// `None` in a join of `a` with itself.
    right: Option<Vec<Row>>,
    elements: [DataType; 2],
    layouts: [Layout; 2],
    batch_rows: usize,
    table_partitions: usize,
    pub session: Session,
}

impl Case {
    pub fn draw(rng: &mut StdRng, measure: Measure, threshold: f64) -> Self {
        let operator = *[Operator::AtLeast, Operator::AtLeast, Operator::AtLeast, Operator::Above]
            .iter()
            .chain(&[Operator::Above, Operator::Equal, Operator::Between])
            .collect::<Vec<_>>()
            .choose(rng)
            .expect("operators");
        let literals = [
            Literal::Float64,
            Literal::Float64,
            Literal::Float32,
            Literal::Integer,
            Literal::Decimal(2),
            Literal::Decimal(15),
            Literal::Parameter,
        ];
        let mut predicate =
            Predicate::new(measure, *operator, *literals.choose(rng).expect("literals"), threshold);
        predicate.swapped = rng.random_bool(0.3);
        predicate.flipped = rng.random_bool(0.3);

        let kind = *JoinKind::ALL.choose(rng).expect("join types");
        let pick = |rng: &mut StdRng, from: &[Condition], p| {
            rng.random_bool(p).then(|| *from.choose(rng).expect("conditions"))
        };
        let equality = pick(rng, EQUALITIES, 0.3);
        let residual = pick(rng, RESIDUALS, 0.45);
        let groups = [Group::Id, Group::Key, Group::Remainder];
        let left_group = match kind.sides() {
            (true, true) => rng.random_bool(0.5),
            (left, _) => left,
        };
        let output = match rng.random_range(0..7) {
            0..4 => Output::Rows,
            4 => Output::Count,
            _ => Output::Grouped { left: left_group, by: *groups.choose(rng).expect("groups") },
        };
        let score = |rng: &mut StdRng| (*Measure::ALL.choose(rng).expect("measures"), rng.random());
        let scores = [(measure, predicate.swapped), score(rng)];

        let patterns = [
            (Pattern::Mixed, 8),
            (Pattern::Clean, 4),
            (Pattern::Repeats, 4),
            (Pattern::Families, 4),
            (Pattern::Large, 3),
            (Pattern::Sparse, 2),
            (Pattern::NoRows, 1),
        ];
        let pattern = |rng: &mut StdRng| {
            patterns.choose_weighted(rng, |p| p.1).expect("patterns with weights").0
        };
        let elements = element_types(rng);
        let sizes = [rng.random_range(25..70), rng.random_range(25..70)];
        let patterns = [pattern(rng), pattern(rng)];
        let itself = rng.random_bool(0.35);
        let universe = *[8, 14, 24, 40, 90].choose(rng).expect("sizes");
        let mut tables = Tables::new(rng, universe);
        let left = tables.rows(sizes[0], patterns[0], &elements[0], 0);
        let right = (!itself).then(|| tables.rows(sizes[1], patterns[1], &elements[1], 20));
        let mut layout = || match rng.random_range(0..9) {
            n @ 0..5 => Layout::ALL[n],
            _ => Layout::List,
        };
        let layouts = [layout(), layout()];
        let session = Session {
            batch_size: *[1, 7, 8192].choose(rng).expect("sizes"),
            partitions: *[1, 2, 5].choose(rng).expect("counts"),
            ..Session::default()
        }
        .option("strategy", STRATEGIES.choose(rng).expect("strategies"))
        .option("build_side", ["auto", "left", "right"].choose(rng).expect("sides"))
        .option("self_join", rng.random_bool(0.8))
        .option("debug.candidate_chunk", [1, 5, 65_536].choose(rng).expect("sizes"))
        .option("debug.match_buffer", [1, 6, 65_536].choose(rng).expect("sizes"))
        // A third of the joins from disk, in all sorts of pieces.
        .option("spill", ["auto", "never", "always"].choose(rng).expect("choices"))
        .option("debug.spill_bands", [1, 3, 64].choose(rng).expect("counts"))
        .option("debug.spill_piece_rows", ["auto", "1", "4", "25"].choose(rng).expect("limits"));
        Self {
            predicate,
            kind,
            simjoin: rng.random_bool(0.5),
            equality,
            residual,
            output,
            scores,
            left,
            right,
            elements,
            layouts,
            batch_rows: *[1, 7, 8192].choose(rng).expect("sizes"),
            table_partitions: *[1, 2, 5].choose(rng).expect("counts"),
            session,
        }
    }

    fn right(&self) -> &[Row] {
        self.right.as_deref().unwrap_or(&self.left)
    }

    pub fn sql(&self) -> String {
        let (left, right) = self.kind.sides();
        let mut columns: Vec<String> = Vec::new();
        let mut group = String::new();
        match self.output {
            Output::Rows => {
                if left {
                    columns.extend(["a.id AS aid", "a.name AS aname"].map(String::from));
                }
                if right {
                    columns.extend(["b.w AS bw", "b.id AS bid"].map(String::from));
                }
                if left && right {
                    for (i, (measure, swapped)) in self.scores.iter().enumerate() {
                        let (x, y) = if *swapped { ("b", "a") } else { ("a", "b") };
                        let call = measure.sql();
                        columns.push(format!("{call}({x}.toks, {y}.toks) AS score{i}"));
                    }
                }
            }
            Output::Count | Output::Grouped { .. } => {
                if let Output::Grouped { left, by } = self.output {
                    let by = by.sql(if left { "a" } else { "b" });
                    columns.push(format!("{by} AS grp"));
                    group = format!(" GROUP BY {by}");
                }
                columns.push("count(*)".into());
                if left {
                    columns.push("count(a.id)".into());
                }
                if right {
                    columns.push("count(b.id)".into());
                }
            }
        }
        let mut on: Vec<String> = vec![self.predicate.sql()];
        on.extend(self.equality.map(|c| c.sql.to_string()));
        on.extend(self.residual.map(|c| c.sql.to_string()));
        let swap = self.left.len() % 2;
        let last = on.len() - 1;
        on.swap(0, last * swap);
        format!(
            "SELECT {} FROM a {} {} {} AS b ON {}{group}",
            columns.join(", "),
            self.kind.sql(),
            if self.simjoin { "SIMJOIN" } else { "JOIN" },
            if self.right.is_some() { "b" } else { "a" },
            on.join(" AND ")
        )
    }

    /// The rows of the join, and how many pairs of rows match and do not.
    fn expected(&self) -> (Vec<String>, usize, usize) {
        let condition = |a: &Row, b: &Row, sizes| {
            let mut holds = self.predicate.holds(sizes);
            for condition in self.equality.iter().chain(&self.residual) {
                holds = and(holds, (condition.holds)(a, b, sizes));
            }
            holds
        };
        let right = self.right();
        let matches = join(JoinKind::Inner, &self.left, right, &condition).len();
        let joined = join(self.kind, &self.left, right, &condition);
        let others = self.left.len() * right.len() - matches;
        (self.render(&joined), matches, others)
    }

    fn render(&self, joined: &[Joined]) -> Vec<String> {
        let (left, right) = self.kind.sides();
        let rows =
            joined.iter().map(|(i, j)| (i.map(|i| &self.left[i]), j.map(|j| &self.right()[j])));
        if self.output == Output::Rows {
            return rows.map(|(a, b)| line(&self.cells(a, b))).collect();
        }
        let mut groups: BTreeMap<String, [i64; 3]> = BTreeMap::new();
        if self.output == Output::Count {
            groups.insert(String::new(), [0; 3]);
        }
        for (a, b) in rows {
            let group = match self.output {
                Output::Grouped { left, by } => {
                    let row = if left { a } else { b };
                    row.map_or(Cell::Null, |r| by.cell(r)).to_string()
                }
                _ => String::new(),
            };
            let counts = groups.entry(group).or_default();
            counts[0] += 1;
            counts[1] += i64::from(a.is_some());
            counts[2] += i64::from(b.is_some());
        }
        let lines = groups.into_iter().map(|(group, counts)| {
            let mut cells = Vec::new();
            if self.output != Output::Count {
                cells.push(Cell::Other(group));
            }
            cells.push(Cell::Int(counts[0]));
            cells.extend(left.then_some(Cell::Int(counts[1])));
            cells.extend(right.then_some(Cell::Int(counts[2])));
            line(&cells)
        });
        lines.collect()
    }

    fn cells(&self, a: Option<&Row>, b: Option<&Row>) -> Vec<Cell> {
        let (left, right) = self.kind.sides();
        let mut cells = Vec::new();
        if left {
            cells.push(a.map(|r| r.id).into());
            cells.push(a.and_then(|r| r.name.as_ref()).into());
        }
        if right {
            cells.push(b.and_then(|r| r.w).into());
            cells.push(b.map(|r| r.id).into());
        }
        if left && right {
            for (measure, swapped) in self.scores {
                let lists = a.zip(b).map(|(a, b)| (&a.toks, &b.toks));
                let value = lists.and_then(|(x, y)| {
                    if swapped { similarity(measure, y, x) } else { similarity(measure, x, y) }
                });
                cells.push(match value {
                    Some(v) if measure == Measure::Overlap => Cell::Int(v as i64),
                    Some(v) => Cell::Float(v),
                    None => Cell::Null,
                });
            }
        }
        cells
    }

    /// Has the join shared by tasks.
    pub fn on_tasks(mut self, rng: &mut StdRng) -> Self {
        self.session.partitions = *[1, 2, 3, 7].choose(rng).expect("counts");
        self.session.tasks_of = Some(rng.random_range(1..3));
        let choices = ["auto", "broadcast", "repartition", "repartition"];
        let choice = choices.choose(rng).expect("choices").to_string();
        let limit = ["1", "64M"].choose(rng).expect("limits").to_string();
        self.session.options.extend([("distribution", choice), ("broadcast_limit", limit)]);
        self
    }

    /// Has candidates verified on this device, in chunks and memory of any size.
    #[cfg(unix)]
    pub fn on_device(mut self, rng: &mut StdRng, ordinal: u32) -> Self {
        self.session = self.session.on_device(rng, ordinal);
        self
    }

    /// Runs the case in a session of its own and compares with the oracle; how many pairs of rows
    /// match and do not.
    pub async fn check(&self, seed: u64) -> (usize, usize) {
        let ctx = self.session.context();
        self.register(&ctx);
        let counts = self.check_in(&ctx, seed).await;
        let sql = self.sql();
        if let Some(partitions) = self.session.tasks_of {
            let parameters = self.predicate.parameters();
            let found = rows_of_tasks(&ctx, &sql, parameters, partitions).await;
            let what = format!("task by task, {}", self.describe(seed));
            assert_same_rows(&found, &self.expected().0, &what);
        }
        if self.must_use_operator() {
            let plan = physical(&ctx, &sql).await;
            assert!(uses_operator(&plan), "no {OPERATOR}\n{}\n{plan}", self.describe(seed));
        }
        counts
    }

    /// Whether the operator surely runs the statement as it stands. A plain join with equalities
    /// may be left to the hash join; a parameter that has no value yet leaves nothing to plan.
    pub fn must_use_operator(&self) -> bool {
        self.predicate.parameters().is_empty() && (self.simjoin || self.equality.is_none())
    }

    /// Registers the tables `a` and, where the join is not of `a` with itself, `b`.
    pub fn register(&self, ctx: &SessionContext) {
        let inputs = [("a", Some(&self.left)), ("b", self.right.as_ref())];
        for (i, (name, rows)) in inputs.into_iter().enumerate() {
            let Some(rows) = rows else { continue };
            let batch = batch_of(rows, &self.elements[i], self.layouts[i]);
            let parts = split(&batch, self.table_partitions, self.batch_rows);
            register_partitions(ctx, name, parts);
        }
    }

    /// Runs the statement over registered tables and compares with the oracle.
    pub async fn check_in(&self, ctx: &SessionContext, seed: u64) -> (usize, usize) {
        let (expected, matches, others) = self.expected();
        let found = rows_with(ctx, &self.sql(), self.predicate.parameters()).await;
        assert_same_rows(&found, &expected, &self.describe(seed));
        (matches, others)
    }

    /// The case, to draw it again.
    pub fn describe(&self, seed: u64) -> String {
        format!(
            "seed {seed}\n{}\n-- $1 = {:?}, {:?}, {:?}, {:?}\n-- {} x {} rows, {} to a batch, \
             {} partitions\nleft sets {:?}",
            self.sql(),
            self.predicate.threshold,
            self.session,
            self.elements,
            self.layouts,
            self.left.len(),
            self.right().len(),
            self.batch_rows,
            self.table_partitions,
            self.left.iter().take(5).map(|r| set(&r.toks)).collect::<Vec<_>>()
        )
    }
}
