//! Joins whose arguments are tokenizer calls: the operator takes the tokens from the texts, without
//! lists of strings. The oracle has the lists, made here character by character.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::lists::Layout;
use crate::oracle::{
    Cell, JoinKind, Joined, Measure, Row, Sizes, Token, compare, join, line, set, words,
};
use crate::support::{
    STRATEGIES, Session, assert_same_rows, assert_uses_operator, batch_of, physical,
    register_partitions, rows, rows_of_tasks, split,
};

/// The tokenizer of a text.
#[derive(Debug, Clone, Copy)]
enum Tokenizer {
    QGrams(usize),
    Words,
}

impl Tokenizer {
    fn tokens(self, text: &str) -> Vec<String> {
        match self {
            Self::Words => words(text),
            Self::QGrams(q) => {
                let chars: Vec<char> = text.chars().collect();
                match chars.len() {
                    0 => vec![],
                    len if len < q => vec![text.to_string()],
                    _ => chars.windows(q).map(|run| run.iter().collect()).collect(),
                }
            }
        }
    }

    fn sql(self, text: &str) -> String {
        match self {
            Self::Words => format!("word_tokens({text})"),
            Self::QGrams(q) => format!("qgrams({text}, {q})"),
        }
    }
}

/// Letters of one to four bytes, of several cases, that combine, and that are none.
const LETTERS: [char; 26] = [
    'a', 'b', 'a', 'b', 'A', 'c', ' ', '-', '1', '\0', 'ä', 'İ', 'Σ', 'σ', 'Ⱥ', '\u{301}', 'त',
    '\u{94d}', '\u{e31}', '\u{200c}', '\u{ad}', '中', '𝄞', '𝐀', '🙂', '\'',
];

/// Texts of which many are alike; some are NULL, empty or short.
fn texts(rng: &mut StdRng, count: usize) -> Vec<Option<String>> {
    let letters = rng.random_range(2..=LETTERS.len());
    let mut texts: Vec<Option<String>> = vec![];
    for _ in 0..count {
        let known = texts.choose(rng).cloned().flatten();
        let text = match rng.random_range(0..10) {
            0 => None,
            1 => Some(String::new()),
            2..6 if known.is_some() => known.map(|known| {
                let mut chars: Vec<char> = known.chars().collect();
                if let Some(place) = (0..chars.len()).collect::<Vec<_>>().choose(rng) {
                    chars[*place] = *LETTERS[..letters].choose(rng).expect("letters");
                }
                chars.into_iter().collect()
            }),
            _ => {
                let most = if rng.random_bool(0.2) { 90 } else { 12 };
                let len = rng.random_range(1..most);
                Some((0..len).filter_map(|_| LETTERS[..letters].choose(rng)).collect())
            }
        };
        texts.push(text);
    }
    texts
}

fn table(rng: &mut StdRng, tokenizer: Tokenizer, count: usize) -> Vec<Row> {
    let texts = texts(rng, count);
    let rows = texts.into_iter().enumerate().map(|(id, name)| {
        let tokens = name.as_deref().map(|name| tokenizer.tokens(name));
        let toks = tokens.map(|all| all.into_iter().map(|t| Some(Token::Text(t))).collect());
        let key = rng.random_bool(0.8).then(|| rng.random_range(0..3));
        Row { id: id as i64, toks, key, name, w: None }
    });
    rows.collect()
}

/// How a side gives its tokens.
#[derive(Debug, Clone, Copy)]
enum Given {
    List,
    /// In a call, cast to this type; or as it is.
    Text(Option<&'static str>),
}

const GIVEN: [Given; 7] = [
    Given::List,
    Given::Text(None),
    Given::Text(None),
    Given::Text(Some("LargeUtf8")),
    Given::Text(Some("Utf8View")),
    Given::Text(Some("Dictionary(Int32, Utf8)")),
    Given::Text(Some("Dictionary(Int8, LargeUtf8)")),
];

impl Given {
    fn sql(self, tokenizer: Tokenizer, side: &str) -> String {
        match self {
            Given::List => format!("{side}.toks"),
            Given::Text(None) => tokenizer.sql(&format!("{side}.name")),
            Given::Text(Some(data_type)) => {
                tokenizer.sql(&format!("arrow_cast({side}.name, '{data_type}')"))
            }
        }
    }
}

/// A join drawn at random.
struct Case {
    tokenizer: Tokenizer,
    kind: JoinKind,
    measure: Measure,
    threshold: f64,
    given: [Given; 2],
    has_key: bool,
    has_residual: bool,
    /// The lists are columns of the relations that are joined.
    below: bool,
    left: Vec<Row>,
    /// `None` in a join of `a` with itself.
    right: Option<Vec<Row>>,
}

impl Case {
    fn draw(rng: &mut StdRng) -> Self {
        let tokenizer = match rng.random_range(0..12) {
            0..3 => Tokenizer::Words,
            q => Tokenizer::QGrams(q - 2),
        };
        let given = *GIVEN.choose(rng).expect("forms");
        let is_self_join = rng.random_bool(0.3);
        let other = if is_self_join { given } else { *GIVEN.choose(rng).expect("forms") };
        let count = rng.random_range(1..60);
        let left = table(rng, tokenizer, count);
        let right = (!is_self_join).then(|| table(rng, tokenizer, 40));
        let measure = *Measure::ALL.choose(rng).expect("measures");
        let threshold = match measure {
            Measure::Overlap => rng.random_range(1..4_u8).into(),
            _ => *[0.2, 0.5, 0.75, 0.9, 1.0].choose(rng).expect("thresholds"),
        };
        Self {
            tokenizer,
            kind: *JoinKind::ALL.choose(rng).expect("join types"),
            measure,
            threshold,
            given: [given, other],
            has_key: rng.random_bool(0.2),
            has_residual: rng.random_bool(0.3),
            below: rng.random_bool(0.5),
            left,
            right,
        }
    }

    fn expected(&self) -> Vec<Joined> {
        let right = self.right.as_ref().unwrap_or(&self.left);
        join(self.kind, &self.left, right, &|l, r, sizes| {
            let admitted = (!self.has_key || compare(l.key, r.key, |l, r| l == r) == Some(true))
                && (!self.has_residual || l.id < r.id);
            Some(admitted && self.measure.value(sizes?) >= self.threshold)
        })
    }

    fn lines(&self, joined: &[Joined]) -> Vec<String> {
        let right = self.right.as_ref().unwrap_or(&self.left);
        let of_pair = |&(l, r): &Joined| {
            let ids = [l, r].map(|row| row.map(|row| row as i64));
            match self.kind.sides() {
                (true, true) => {
                    let sets = l.zip(r).map(|(l, r)| (&self.left[l].toks, &right[r].toks));
                    let sizes = sets.and_then(|(l, r)| Some(Sizes::of(&set(l)?, &set(r)?)));
                    line(&[ids[0].into(), ids[1].into(), self.measure.cell(sizes)])
                }
                (left, _) => line(&[Cell::from(ids[usize::from(!left)])]),
            }
        };
        joined.iter().map(of_pair).collect()
    }

    /// The statement, of which `columns` are selected.
    fn sql(&self, columns: &str) -> String {
        let other = if self.right.is_some() { "b" } else { "a" };
        let [left, right] = [(self.given[0], "l"), (self.given[1], "r")];
        let argument = |(given, side): (Given, &str)| match self.below {
            true => format!("{side}.grams"),
            false => given.sql(self.tokenizer, side),
        };
        let relation = |(given, side): (Given, &str), table: &str| match self.below {
            true => {
                let grams = given.sql(self.tokenizer, "t");
                format!("(SELECT id, key, {grams} AS grams FROM {table} t) {side}")
            }
            false => format!("{table} {side}"),
        };
        let score = format!("{}({}, {})", self.measure.sql(), argument(left), argument(right));
        let mut on = format!("{score} >= {}", self.threshold);
        if self.has_key {
            on += " AND l.key = r.key";
        }
        if self.has_residual {
            on += " AND l.id < r.id";
        }
        format!(
            "SELECT {} FROM {} {} SIMJOIN {} ON {on}",
            columns.replace("SCORE", &score),
            relation(left, "a"),
            self.kind.sql(),
            relation(right, other)
        )
    }

    fn columns(&self) -> &'static str {
        match self.kind.sides() {
            (true, true) => "l.id, r.id, SCORE",
            (true, false) => "l.id",
            _ => "r.id",
        }
    }

    fn context(&self, session: &Session) -> SessionContext {
        let ctx = session.context();
        let tables = [("a", Some(&self.left)), ("b", self.right.as_ref())];
        for (name, rows) in tables.into_iter().filter_map(|(name, rows)| Some((name, rows?))) {
            let batch = batch_of(rows, &DataType::Utf8, Layout::List);
            register_partitions(&ctx, name, split(&batch, 2, 11));
        }
        ctx
    }
}

fn session(rng: &mut StdRng) -> Session {
    let session = Session {
        batch_size: *[3, 8192].choose(rng).expect("sizes"),
        partitions: rng.random_range(1..4),
        ..Session::default()
    };
    let session = session
        .option("strategy", STRATEGIES.choose(rng).expect("strategies"))
        .option("build_side", ["auto", "left", "right"].choose(rng).expect("sides"));
    match rng.random_range(0..4) {
        0 => session.option("spill", "always").option("debug.spill_piece_rows", 7),
        _ => session,
    }
}

/// Every tokenizer, text type, join type and measure: the rows, scores and counts of the oracle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_texts_are_those_of_lists() {
    for seed in 0..80 {
        let mut rng = StdRng::seed_from_u64(seed);
        let case = Case::draw(&mut rng);
        let session = session(&mut rng);
        let ctx = case.context(&session);
        let joined = case.expected();
        let sql = case.sql(case.columns());
        let what = format!("seed {seed}, {session:?}\n{sql}");
        assert_uses_operator(&ctx, &sql).await;
        assert_same_rows(&rows(&ctx, &sql).await, &case.lines(&joined), &what);
        let count = format!("SELECT count(*) FROM ({})", case.sql(case.columns()));
        assert_eq!(rows(&ctx, &count).await, [joined.len().to_string()], "{what}");
    }
}

/// Tasks that share nothing place the rows by the sets of their texts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_take_tokens_from_texts() {
    for seed in 1000..1024 {
        let mut rng = StdRng::seed_from_u64(seed);
        let case = Case::draw(&mut rng);
        let session = Session { tasks_of: Some(2), partitions: 3, ..session(&mut rng) };
        let ctx = case.context(&session);
        let sql = case.sql(case.columns());
        let found = rows_of_tasks(&ctx, &sql, vec![], 2).await;
        let expected = case.lines(&case.expected());
        assert_same_rows(&found, &expected, &format!("seed {seed}, {session:?}\n{sql}"));
    }
}

/// The lists of a view, subquery or common table expression are not made where only the join reads
/// them.
#[tokio::test]
async fn lists_that_only_the_join_reads_are_not_made() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE t (id BIGINT, name VARCHAR) AS VALUES (1, 'abc'), (2, 'abcd')").await;
    rows(&ctx, "CREATE VIEW v AS SELECT id, name, qgrams(lower(name), 2) AS grams FROM t").await;
    let alike = "jaccard(a.grams, b.grams) >= 0.5 AND a.id < b.id";
    for (query, made) in [
        (format!("SELECT a.id, b.id FROM v a SIMJOIN v b ON {alike}"), false),
        (
            format!(
                "SELECT a.id, b.name, jaccard(b.grams, a.grams) FROM v a SIMJOIN v b ON {alike}"
            ),
            false,
        ),
        (format!("SELECT count(*) FROM v a SIMJOIN v b ON {alike}"), false),
        (
            format!("WITH w AS (SELECT * FROM v) SELECT a.id FROM w a LEFT SIMJOIN v b ON {alike}"),
            false,
        ),
        (format!("SELECT a.id, b.grams FROM v a SIMJOIN v b ON {alike}"), true),
        (format!("SELECT a.id FROM v a SIMJOIN v b ON {alike} AND a.grams <> b.grams"), true),
    ] {
        let plan = physical(&ctx, &query).await;
        let scan = plan.split_once("ProjectionExec").map_or("", |(_, scan)| scan);
        assert_eq!(scan.contains("qgrams"), made, "{query}\n{plan}");
        rows(&ctx, "SET simjoin.recognize_joins = false").await;
        let expected = rows(&ctx, &query.replace("SIMJOIN", "JOIN")).await;
        rows(&ctx, "SET simjoin.recognize_joins = true").await;
        assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
    }
}
