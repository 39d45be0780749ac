//! The tables of a world.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tempfile::TempDir;

use super::vectors::{Shape, vectors_of};
use crate::lists::{INTEGERS, Layout, TEXTS, dictionary, list_column, token};
use crate::oracle::List;
use crate::support::{rows, split};

/// Tables of one shape: `id, toks, odd, v, u, k, w, f, flag`. `toks` is a list, `odd` the same sets in
/// another layout; `v` is a vector, `u` the same in another layout. All tokens of a world are of one
/// kind, all vectors of one length.
pub struct World {
    pub joins: Joins,
    pub has_integers: bool,
    pub shape: Shape,
    /// The vectors of all tables.
    pub vectors: Vec<Vec<f64>>,
    /// Whether statements have lambdas; see [`World::prepare`].
    pub has_lambdas: bool,
    tables: Vec<(&'static str, Arc<dyn TableProvider>, String)>,
    dir: TempDir,
}

/// The families that statements join by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joins {
    Sets,
    Vectors,
    /// By either, and by one under a condition on the other.
    Both,
}

/// The names of the tables: two with rows, one without any.
pub const TABLES: [&str; 3] = ["n", "m", "nothing"];
/// Files, of table `n` and of no rows, without NaN, which the stock engine's statistics of Parquet
/// files do not see.
const FILES: [(&str, &str); 2] = [("full", "true"), ("empty", "id IS NULL")];

impl World {
    pub fn draw(rng: &mut StdRng) -> Self {
        let joins = *[Joins::Sets, Joins::Vectors, Joins::Both].choose(rng).unwrap();
        let has_integers = rng.random_bool(0.7);
        let universe = *[4, 8, 16].choose(rng).unwrap();
        let mut seen: Vec<Vec<u32>> = vec![];
        let shape = Shape::draw(rng);
        let mut seen_vectors = vec![];
        let mut all = vec![];
        let tables = TABLES.map(|name| {
            let most = if name == "nothing" { 0 } else { *[3, 9, 16].choose(rng).unwrap() };
            let rows = if most == 0 { 0 } else { rng.random_range(1..=most) };
            let vectors = shape.columns(rng, rows, &mut seen_vectors);
            all.extend(vectors_of(&vectors[0]));
            let batch = batch(rng, vectors, has_integers, universe, &mut seen);
            // A table without rows may have no batch either.
            let parts = match most {
                0 if rng.random_bool(0.5) => vec![vec![]],
                _ => split(&batch, rng.random_range(1..4), rng.random_range(1..9)),
            };
            let text = create(name, &batch, has_integers);
            let table = MemTable::try_new(batch.schema(), parts).unwrap();
            (name, Arc::new(table) as Arc<dyn TableProvider>, text)
        });
        let has_lambdas = rng.random_bool(0.3);
        let dir = tempfile::tempdir().unwrap();
        Self { joins, has_integers, shape, vectors: all, has_lambdas, tables: tables.into(), dir }
    }

    /// A session with the tables. Where statements have lambdas it lacks the rule of DataFusion 55
    /// that puts projections together: the parameters of their lambdas then read other columns.
    pub async fn prepare(&self, ctx: SessionContext) -> SessionContext {
        let mut ctx = ctx;
        if self.has_lambdas {
            let state = ctx.state();
            let rules = state.physical_optimizers().iter();
            let rules = rules.filter(|rule| rule.name() != "ProjectionPushdown").cloned().collect();
            let state = SessionStateBuilder::new_from_existing(state);
            let state = state.with_physical_optimizer_rules(rules).build();
            ctx = SessionContext::new_with_state(state);
        }
        let ctx = ctx.enable_url_table();
        rows(&ctx, "SET datafusion.sql_parser.dialect = 'duckdb'").await;
        for (name, table, _) in &self.tables {
            ctx.register_table(*name, Arc::clone(table)).unwrap();
        }
        ctx
    }

    pub async fn write_files(&self, ctx: &SessionContext) {
        for (name, condition) in FILES {
            let path = self.dir.path().join(format!("{name}.parquet"));
            let copy = format!(
                "COPY (SELECT id, toks, v, k, w, CASE WHEN isnan(f) THEN 9.5 ELSE f END AS f, flag \
                 FROM n WHERE {condition}) TO '{}' STORED AS PARQUET",
                path.display()
            );
            rows(ctx, &copy).await;
        }
    }

    /// A file in FROM.
    pub fn file(&self, rng: &mut StdRng) -> String {
        let (name, _) = FILES.choose(rng).unwrap();
        let path = self.dir.path().join(format!("{name}.parquet"));
        format!(
            "(SELECT id, toks, toks AS odd, v, v AS u, k, w, f, flag FROM '{}')",
            path.display()
        )
    }

    /// The rows as statements, for a report. Partitions and batches are not told.
    pub fn setup(&self) -> String {
        self.tables.iter().map(|(.., text)| text.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// A set like one of those before, or a new one; NULL elements and repeats among its tokens.
fn tokens(rng: &mut StdRng, universe: u32, seen: &mut Vec<Vec<u32>>) -> Vec<Option<u32>> {
    let mut set = match seen.choose(rng) {
        Some(set) if rng.random_bool(0.7) => set.clone(),
        _ => (0..rng.random_range(1..6)).map(|_| rng.random_range(0..universe)).collect(),
    };
    if rng.random_bool(0.4) {
        match rng.random_range(0..3) {
            0 => set.push(rng.random_range(0..universe)),
            1 if set.len() > 1 => drop(set.pop()),
            _ => set[0] = rng.random_range(0..universe),
        }
    }
    seen.push(set.clone());
    let mut tokens: Vec<Option<u32>> = set.into_iter().map(Some).collect();
    if rng.random_bool(0.2) {
        tokens.push(None);
    }
    if rng.random_bool(0.2) {
        tokens.push(tokens[0]);
    }
    tokens
}

fn batch(
    rng: &mut StdRng,
    [v, u]: [ArrayRef; 2],
    has_integers: bool,
    universe: u32,
    seen: &mut Vec<Vec<u32>>,
) -> RecordBatch {
    let rows = v.len();
    let repeated = rng.random_bool(0.4);
    let sets: Vec<Option<Vec<Option<u32>>>> = (0..rows)
        .map(|row| {
            if repeated && row > 0 && rng.random_bool(0.6) {
                let set = seen.last().cloned().unwrap_or_default();
                return Some(set.into_iter().map(Some).collect());
            }
            match rng.random_range(0..12) {
                0 => None,
                1 => Some(vec![]),
                2 => Some(vec![None]),
                _ => Some(tokens(rng, universe, seen)),
            }
        })
        .collect();
    let lists = |element: &DataType| -> Vec<List> {
        let list = |set: &Vec<Option<u32>>| {
            set.iter().map(|t| t.map(|number| token(element, number))).collect()
        };
        sets.iter().map(|set| set.as_ref().map(list)).collect()
    };
    let elements: &[DataType] = if has_integers { &INTEGERS } else { &TEXTS };
    let (first, mut other) = (elements[0].clone(), elements.choose(rng).unwrap().clone());
    if rng.random_bool(0.2) {
        other = dictionary(other);
    }
    let toks = list_column(&first, Layout::List, &lists(&first));
    let odd = match rng.random_bool(0.25) {
        true => dictionary_of(rng, &toks),
        false => list_column(&other, *Layout::ALL.choose(rng).unwrap(), &lists(&other)),
    };
    let known = |rng: &mut StdRng| rng.random_bool(0.8);
    let floats = [0.0, -0.0, 1.5, 2.5, f64::NAN, f64::INFINITY, -7.0];
    let k: StringArray = (0..rows)
        .map(|_| known(rng).then(|| *["x", "y", "xy", "ü"].choose(rng).unwrap()))
        .collect();
    let w: Int64Array = (0..rows).map(|_| known(rng).then(|| rng.random_range(0..6))).collect();
    let f: Float64Array =
        (0..rows).map(|_| known(rng).then(|| *floats.choose(rng).unwrap())).collect();
    let flag: BooleanArray = (0..rows).map(|_| known(rng).then(|| rng.random())).collect();
    // Not unique everywhere.
    let step = *[1, 1, 2].choose(rng).unwrap();
    let id = Int64Array::from_iter_values((0..rows as i64).map(|row| row / step));
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("toks", toks.data_type().clone(), true),
        Field::new("odd", odd.data_type().clone(), true),
        Field::new("v", v.data_type().clone(), true),
        Field::new("u", u.data_type().clone(), true),
        Field::new("k", DataType::Utf8, true),
        Field::new("w", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, true),
    ];
    let [k, w, f, flag]: [ArrayRef; 4] = [Arc::new(k), Arc::new(w), Arc::new(f), Arc::new(flag)];
    let columns: Vec<ArrayRef> = vec![Arc::new(id), toks, odd, v, u, k, w, f, flag];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A formatted list of texts with quotes. A lone empty text looks like no element.
fn quoted(list: &str) -> String {
    let elements = list.trim_matches(['[', ']']).split(", ");
    let elements = elements.map(|element| match element {
        "NULL" => element.to_string(),
        _ => format!("'{element}'"),
    });
    match list {
        "[]" => list.to_string(),
        _ => format!("[{}]", elements.collect::<Vec<_>>().join(", ")),
    }
}

/// A statement that makes a table with the rows of a batch.
fn create(name: &str, batch: &RecordBatch, has_integers: bool) -> String {
    let options = FormatOptions::new().with_null("NULL");
    let schema = batch.schema();
    let fields = schema.fields().iter();
    let columns = batch.columns().iter().zip(fields.clone()).map(|(column, field)| {
        let format = ArrayFormatter::try_new(column, &options).unwrap();
        let is_text = field.data_type() == &DataType::Utf8;
        let is_list = ["toks", "odd"].contains(&field.name().as_str());
        let value = move |row: usize| match (column.is_null(row), is_text) {
            (true, _) => "NULL".to_string(),
            (_, true) => format!("'{}'", format.value(row)),
            _ if is_list && !has_integers => quoted(&format.value(row).to_string()),
            _ => {
                let value = format.value(row).to_string();
                value.replace("NaN", "'NaN'").replace("-inf", "'-Infinity'").replace("inf", "'inf'")
            }
        };
        (0..batch.num_rows()).map(value).collect::<Vec<_>>()
    });
    let columns: Vec<Vec<String>> = columns.collect();
    let rows = (0..batch.num_rows()).map(|row| {
        let values: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
        format!("({})", values.join(", "))
    });
    let rows: Vec<String> = rows.collect();
    let casts = fields.enumerate().map(|(i, field)| {
        let data_type = field.data_type();
        format!("arrow_cast(column{}, '{data_type}') AS {}", i + 1, field.name())
    });
    let casts: Vec<String> = casts.collect();
    match rows.is_empty() {
        true => format!("-- {name}: no rows of {schema}"),
        false => format!(
            "CREATE TABLE {name} AS SELECT {} FROM (VALUES {});",
            casts.join(", "),
            rows.join(", ")
        ),
    }
}

/// The lists as a dictionary whose values are in another order and have one that nothing uses.
fn dictionary_of(rng: &mut StdRng, lists: &ArrayRef) -> ArrayRef {
    use arrow::array::UInt32Array;
    use arrow::compute::take;
    let rows = lists.len() as u32;
    let order: Vec<u32> = (0..rows).rev().chain((rows > 0).then_some(0)).collect();
    let values = take(lists, &UInt32Array::from(order), None).unwrap();
    let keys: Int32Array = (0..rows)
        .map(|row| {
            let is_null = lists.is_null(row as usize) && rng.random();
            (!is_null).then_some((rows - 1 - row) as i32)
        })
        .collect();
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}
