use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt32Type};
use datafusion::catalog::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::PartitionEvaluatorArgs;
use datafusion::logical_expr::{ExprFunctionExt, col};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::similarity::{LAYOUTS, Row, Token, families, lists, random_rows};
use super::{call, column, list_of, refusal, scalar};
use crate::functions::weights::log2_ratio;
use crate::functions::{Weighting, expr_fn, token_counts_udf, weigh_udf, weighting_udwf, windows};
use crate::values::byte_tokens::ByteTokens;
use crate::values::{Tokens, with_byte_tokens};

type Set = Option<Vec<(Token, u32)>>;

/// The weighted sets of a column.
fn sets(array: &ArrayRef) -> Vec<Set> {
    let lists: &ListArray = array.as_list();
    let entries = lists.values().as_struct();
    assert_eq!(entries.column_names(), ["token", "weight"]);
    let tokens = Tokens::try_new(entries.column(0)).unwrap();
    let weights = entries.column(1).as_primitive::<UInt32Type>();
    assert!(tokens.nulls().is_none_or(|nulls| nulls.null_count() == 0));
    let token = |i: usize| match &tokens {
        Tokens::Signed(array) => Token::Integer(array.value(i).into()),
        Tokens::Unsigned(array) => Token::Integer(array.value(i).into()),
        bytes => with_byte_tokens!(bytes, array => {
            Token::Bytes(ByteTokens::bytes(array, i).to_vec())
        }, else panic!("tokens of {}", entries.column(0).data_type())),
    };
    let row = |row: usize| {
        let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        lists.is_valid(row).then(|| range.map(|i| (token(i), weights.value(i))).collect())
    };
    (0..lists.len()).map(row).collect()
}

/// The set of some pairs, by addition to the first one of each token.
fn added(pairs: impl IntoIterator<Item = (Token, u32)>) -> Vec<(Token, u32)> {
    let mut set: Vec<(Token, u32)> = vec![];
    for (token, weight) in pairs {
        match set.iter_mut().find(|(known, _)| *known == token) {
            Some((_, sum)) => *sum += weight,
            None => set.push((token, weight)),
        }
    }
    set
}

fn counted(row: &Row) -> Set {
    Some(added(row.as_ref()?.iter().flatten().map(|token| (token.clone(), 1))))
}

fn weighted_type(token: DataType) -> DataType {
    let fields = [("token", token), ("weight", DataType::UInt32)];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
    list_of(DataType::Struct(fields.to_vec().into()))
}

fn without_dictionary(element: &DataType) -> DataType {
    match element {
        DataType::Dictionary(_, values) => without_dictionary(values),
        other => other.clone(),
    }
}

#[test]
fn tokens_of_every_layout_and_type_are_counted() {
    let mut rng = StdRng::seed_from_u64(41);
    let udf = token_counts_udf();
    for element in families().concat() {
        for layout in 0..LAYOUTS {
            let rows = random_rows(&element, 17, &mut rng);
            let array = lists(&rows, &element, layout, &mut rng);
            let expected: Vec<Set> = rows.iter().map(counted).collect();
            let found = call(&udf, vec![column(&array)], 17).unwrap();
            assert_eq!(found.data_type(), weighted_type(without_dictionary(&element)));
            assert_eq!(sets(&found.to_array(17).unwrap()), expected, "{}", array.data_type());
            let found = call(&udf, vec![scalar(&array, 5)], 17).unwrap();
            assert_eq!(sets(&found.to_array(1).unwrap()), expected[5..6]);
        }
    }
}

#[test]
fn weights_of_every_layout_and_type_add_up() {
    let mut rng = StdRng::seed_from_u64(42);
    let udf = weigh_udf();
    let integers = families()[0].clone();
    for element in families().concat() {
        // Lists of one size have other lengths than those of the weights.
        for layout in [0, 1, 2, 3, 5] {
            let rows = random_rows(&element, 17, &mut rng);
            let kind = &integers[rng.random_range(0..integers.len() - 1)];
            let weight = |rng: &mut StdRng| {
                let weight = rng.random_range(0..60);
                rng.random_bool(0.9).then_some(Token::Integer(weight))
            };
            let weights: Vec<Row> = rows
                .iter()
                .map(|row| {
                    let len = row.as_ref().map_or(3, Vec::len);
                    rng.random_bool(0.9).then(|| (0..len).map(|_| weight(&mut rng)).collect())
                })
                .collect();
            let arrays = [
                lists(&rows, &element, layout, &mut rng),
                lists(&weights, kind, [0, 1, 2, 3, 5][rng.random_range(0..5)], &mut rng),
            ];
            let of_row = |(row, weights): (&Row, &Row)| -> Set {
                let pairs = row.as_ref()?.iter().zip(weights.as_ref()?);
                Some(added(pairs.filter_map(|pair| match pair {
                    (Some(token), Some(Token::Integer(weight))) if *weight > 0 => {
                        Some((token.clone(), *weight as u32))
                    }
                    _ => None,
                })))
            };
            let expected: Vec<Set> = rows.iter().zip(&weights).map(of_row).collect();
            let found = call(&udf, arrays.iter().map(column).collect(), 17).unwrap();
            assert_eq!(found.data_type(), weighted_type(without_dictionary(&element)));
            assert_eq!(sets(&found.to_array(17).unwrap()), expected);
            let found = call(&udf, arrays.iter().map(|a| scalar(a, 3)).collect(), 17).unwrap();
            assert_eq!(sets(&found.to_array(1).unwrap()), expected[3..4]);
        }
    }
}

#[test]
fn logarithms_are_those_of_floating_point_numbers() {
    let mut rng = StdRng::seed_from_u64(43);
    let check = |upper: u64, lower: u64| {
        let exact = (upper as f64 / lower as f64).log2();
        let found = log2_ratio(upper, lower, 16);
        assert!((found as f64 - exact * 65536.0).abs() < 0.5001, "{upper} / {lower}");
        let fine = log2_ratio(upper, lower, 40) as f64 / (1_u64 << 40) as f64;
        assert!((fine - exact).abs() < 1e-11, "{upper} / {lower}");
        found
    };
    for n in 1..300 {
        let mut before = u64::MAX;
        for df in 1..=n {
            let log = check(1 + n, 1 + df);
            assert!(log <= before);
            before = log;
        }
    }
    for _ in 0..20_000 {
        let most = 1_u64 << rng.random_range(1..52);
        let n = rng.random_range(1..=most);
        check(1 + n, 1 + rng.random_range(0..=n));
    }
    for power in 0..40 {
        for odd in [1, 3, 5, 74_399, 8_388_607] {
            assert_eq!(log2_ratio(odd << power, odd, 16), power << 16);
            assert_eq!(log2_ratio(odd << power, odd, 40), power << 40);
        }
    }
    assert_eq!(log2_ratio(u64::MAX, 1, 16), 64 << 16);
    assert_eq!(log2_ratio(u64::MAX, u64::MAX - 1, 40), 0);
    assert_eq!(log2_ratio(0, 0, 16), 0);
}

/// The weights of rows by the definitions, as numbers before they are rounded.
fn oracle(
    weighting: Weighting,
    [k1, b]: [f64; 2],
    rows: &[&Row],
) -> Vec<Option<Vec<(Token, f64)>>> {
    let sets: Vec<Set> = rows.iter().map(|row| counted(row)).collect();
    let n = sets.iter().flatten().count() as f64;
    let mut frequencies: BTreeMap<&Token, f64> = BTreeMap::new();
    sets.iter().flatten().flatten().for_each(|(token, _)| {
        *frequencies.entry(token).or_default() += 1.0;
    });
    let length = |set: &[(Token, u32)]| set.iter().map(|(_, count)| f64::from(*count)).sum::<f64>();
    let average = sets.iter().flatten().map(|set| length(set)).sum::<f64>() / n;
    let of_set = |set: &Vec<(Token, u32)>| {
        let weight = |(token, count): &(Token, u32)| {
            let (df, f) = (frequencies[token], f64::from(*count));
            let idf = (((1.0 + n) / (1.0 + df)).log2() * 65536.0).round() + 94_548.0;
            let weight = match weighting {
                Weighting::Tfidf => f * idf,
                Weighting::Idf => idf,
                Weighting::Bm25 => {
                    let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
                    let part = (1.0 - b) + b * length(set) / average;
                    (65536.0 * idf * f * (k1 + 1.0) / (f + k1 * part)).max(1.0)
                }
            };
            (token.clone(), weight)
        };
        set.iter().map(weight).collect()
    };
    sets.iter().map(|set| set.as_ref().map(of_set)).collect()
}

fn assert_weights(found: &[Set], weighting: Weighting, parameters: [f64; 2], rows: &[&Row]) {
    let expected = oracle(weighting, parameters, rows);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let tokens = |set: &Option<Vec<(Token, f64)>>| {
            set.as_ref().map(|set| set.iter().map(|(token, _)| token.clone()).collect::<Vec<_>>())
        };
        let numbers = |set: &Set| {
            let pairs = set.as_ref()?.iter().map(|(token, w)| (token.clone(), f64::from(*w)));
            Some(pairs.collect::<Vec<_>>())
        };
        let found = numbers(found);
        assert_eq!(tokens(&found), tokens(&expected), "{weighting}");
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found.1 - expected.1).abs() < 0.5001, "{weighting}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn weights_of_every_layout_and_type_are_those_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(44);
    for element in families().concat() {
        for layout in 0..LAYOUTS {
            let rows = random_rows(&element, 40, &mut rng);
            let array = lists(&rows, &element, layout, &mut rng);
            let field = Arc::new(Field::new("a", array.data_type().clone(), true));
            for weighting in Weighting::ALL {
                let parameters = [rng.random_range(0.0..3.0), rng.random_range(0.0..=1.0)];
                let mut arguments: Vec<PhysicalExprRef> = vec![Arc::new(Column::new("a", 0))];
                let mut fields = vec![Arc::clone(&field)];
                if weighting == Weighting::Bm25 {
                    arguments.extend(parameters.map(lit));
                    fields
                        .extend([0; 2].map(|_| Arc::new(Field::new("p", DataType::Float64, true))));
                }
                let udwf = weighting_udwf(weighting);
                let args = PartitionEvaluatorArgs::new(&arguments, &fields, false, false);
                let mut evaluator = udwf.partition_evaluator_factory(args).unwrap();
                let found = evaluator.evaluate_all(&[Arc::clone(&array)], 40).unwrap();
                let token = match without_dictionary(&element) {
                    plain if plain.is_integer() || plain == DataType::Null => plain,
                    plain => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(plain)),
                };
                assert_eq!(found.data_type(), &weighted_type(token));
                let all: Vec<&Row> = rows.iter().collect();
                assert_weights(&sets(&found), weighting, parameters, &all);
                let none = evaluator.evaluate_all(&[array.slice(0, 0)], 0).unwrap();
                assert_eq!((none.len(), none.data_type()), (0, found.data_type()));
            }
        }
    }
}

fn context(partitions: usize, batch_size: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_target_partitions(partitions)
        .with_batch_size(batch_size);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(crate::install(builder).unwrap().build())
}

async fn table(ctx: &SessionContext, query: &str) -> RecordBatch {
    let frame = ctx.sql(query).await.unwrap();
    let schema = Arc::clone(frame.schema().inner());
    concat_batches(&schema, &frame.collect().await.unwrap()).unwrap()
}

async fn error(ctx: &SessionContext, query: &str) -> String {
    match ctx.sql(query).await {
        Ok(frame) => frame.collect().await.unwrap_err().strip_backtrace(),
        Err(error) => error.strip_backtrace(),
    }
}

/// Rows with an id, a group and a list, in several batches and partitions.
fn register(ctx: &SessionContext, groups: &[Option<i64>], array: &ArrayRef) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..groups.len() as i64));
    let groups: ArrayRef = Arc::new(groups.iter().copied().collect::<Int64Array>());
    let fields = [("id", &ids), ("g", &groups), ("toks", array)];
    let schema = Arc::new(Schema::new(
        fields.map(|(name, array)| Field::new(name, array.data_type().clone(), true)).to_vec(),
    ));
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), vec![ids, groups, Arc::clone(array)]).unwrap();
    let half = batch.num_rows() / 2;
    let pieces = |from: usize, to: usize| {
        (from..to).step_by(31).map(|at| batch.slice(at, 31.min(to - at))).collect::<Vec<_>>()
    };
    let partitions = vec![pieces(0, half), pieces(half, batch.num_rows())];
    let table = MemTable::try_new(schema, partitions).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
}

#[tokio::test]
async fn partitions_are_the_collections_whatever_the_batches() {
    let mut rng = StdRng::seed_from_u64(45);
    for element in [DataType::Utf8, DataType::Utf8View, DataType::Int32, DataType::Binary] {
        let rows = random_rows(&element, 400, &mut rng);
        let array = lists(&rows, &element, 0, &mut rng);
        let groups: Vec<Option<i64>> =
            (0..400).map(|_| rng.random_bool(0.9).then(|| rng.random_range(0..7_i64))).collect();
        for [partitions, batch_size] in [[1, 8192], [4, 8192], [3, 7]] {
            let ctx = context(partitions, batch_size);
            register(&ctx, &groups, &array);
            for (over, grouped) in [
                ("", false),
                ("ORDER BY g DESC", false),
                ("ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", false),
                ("PARTITION BY g", true),
                ("PARTITION BY g ORDER BY id ROWS BETWEEN CURRENT ROW AND CURRENT ROW", true),
            ] {
                let calls = ["tfidf(toks)", "idf(toks)", "bm25_weights(toks, 2, 1 - 0.5)"];
                let calls = calls.map(|call| format!("{call} OVER ({over})")).join(", ");
                let found = table(&ctx, &format!("SELECT id, {calls} FROM t ORDER BY id")).await;
                assert_eq!(found.num_rows(), 400);
                for (weighting, weights) in Weighting::ALL.into_iter().zip(&found.columns()[1..]) {
                    let weights = sets(weights);
                    for group in (0..7).map(Some).chain([None]) {
                        let is_in = |row: &usize| !grouped || groups[*row] == group;
                        let members: Vec<usize> = (0..400).filter(is_in).collect();
                        let own: Vec<Set> = members.iter().map(|&i| weights[i].clone()).collect();
                        let all: Vec<&Row> = members.iter().map(|&i| &rows[i]).collect();
                        assert_weights(&own, weighting, [2.0, 0.5], &all);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn no_rows_and_constant_lists() {
    let ctx = context(2, 8192);
    for call in ["tfidf(toks)", "idf(toks)", "bm25_weights(toks)"] {
        let none = format!("SELECT {call} OVER () FROM (VALUES (['a'])) AS t(toks) WHERE false");
        assert_eq!(table(&ctx, &none).await.num_rows(), 0);
        let call = call.replace("toks", "['b', 'b', NULL]");
        let found = table(&ctx, &format!("SELECT {call} OVER () FROM range(3)")).await;
        assert_eq!(sets(found.column(0)).iter().flatten().flatten().count(), 3);
        let call = call.replace("['b', 'b', NULL]", "NULL");
        let found = table(&ctx, &format!("SELECT {call} OVER () FROM range(3)")).await;
        assert_eq!(found.column(0).null_count(), 3);
        let call = call.replace("NULL", "arrow_cast([], 'List(Utf8)')");
        let found = table(&ctx, &format!("SELECT {call} OVER () FROM range(3)")).await;
        assert_eq!(sets(found.column(0)), vec![Some(vec![]); 3]);
    }
}

#[tokio::test]
async fn functions_as_expressions_give_the_same() {
    let ctx = context(2, 8192);
    let rows = [Some(vec![Some(1), Some(2), Some(1)]), None, Some(vec![Some(2)])];
    let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
    register(&ctx, &[Some(1), Some(1), Some(2)], &array);
    let toks = || col("toks");
    let by_group = expr_fn::idf(toks()).partition_by(vec![col("g")]).build().unwrap();
    let frame = ctx.table("t").await.unwrap();
    let frame = frame.select(vec![
        col("id"),
        expr_fn::token_counts(toks()),
        expr_fn::weigh(toks(), toks()),
        expr_fn::tfidf(toks()),
        by_group,
        expr_fn::bm25_weights(toks(), 1.2, 0.75),
    ]);
    let found = frame.unwrap().sort_by(vec![col("id")]).unwrap().collect().await.unwrap();
    let query = "SELECT id, token_counts(toks), weigh(toks, toks), tfidf(toks) OVER (), \
                 idf(toks) OVER (PARTITION BY g), bm25_weights(toks) OVER () FROM t ORDER BY id";
    let expected = table(&ctx, query).await;
    let found = concat_batches(&found[0].schema(), &found).unwrap();
    assert_eq!(found.columns(), expected.columns());
}

#[test]
fn wrong_types_are_refused_with_advice() {
    use DataType::*;
    let list = list_of(Utf8);
    let refused = |types: &[DataType]| refusal(&weigh_udf(), types);
    assert_eq!(
        refused(&[list.clone(), list_of(Float32)]),
        "Error during planning: weigh expects weights as a list of integers, found List(Float32); make integers of \
         them, for example CAST(round(65536 * w) AS BIGINT) of each weight w"
    );
    assert!(refused(&[list.clone(), list_of(Decimal128(9, 2))]).contains("round(65536 * w)"));
    assert!(refused(&[list.clone(), list_of(Utf8)]).contains("arrow_cast(list, 'List(Int64)')"));
    assert!(refused(&[list.clone(), Int64]).contains("found Int64; make_array(...)"));
    assert!(refused(&[Utf8, list.clone()]).contains("word_tokens(text)"));
    assert_eq!(
        refused(std::slice::from_ref(&list)),
        "Error during planning: weigh takes a list of tokens and a list of their weights, found one argument \
         (List(Utf8)); for example: weigh(['data', 'base'], [3, 1])"
    );
    let refused = |types: &[DataType]| refusal(&token_counts_udf(), types);
    assert!(refused(&[Utf8]).contains("token_counts expects lists of tokens, found Utf8; turn"));
    assert!(refused(&[list_of(Float64)]).contains("token_counts expects lists of integers, text"));
    assert!(refused(&[]).contains("token_counts takes a list of tokens, found none; for example"));
}

#[tokio::test]
async fn errors_name_what_would_work() {
    let ctx = context(1, 8192);
    for (call, expected) in [
        (
            "weigh(['a'], [-1])",
            "Execution error: weigh: a weight must be an integer from 0 to 4294967295, found -1; ",
        ),
        ("weigh(['a'], [4294967296])", "found 4294967296; divide the weights"),
        ("weigh(['a'], [18446744073709551615])", "found 18446744073709551615; "),
        (
            "weigh(['a', 'b'], [1])",
            "Execution error: weigh: each token needs a weight, found a list of 2 tokens and a list of 1 weights \
             in one row; make both lists of one length",
        ),
        (
            "weigh(['a', 'a'], [4294967295, 1])",
            "weigh: the weights of a token in one row add up to 4294967296, and the greatest weight is 4294967295; ",
        ),
        ("weigh(['a'], [1.5])", "CAST(round(65536 * w) AS BIGINT)"),
        (
            "tfidf('text') OVER ()",
            "tfidf expects lists of tokens, found Utf8; turn text into a list with qgrams(text, 3) or \
             word_tokens(text)",
        ),
        ("idf() OVER ()", "idf takes a list of tokens, found none; for example: idf("),
        ("tfidf(['a'], 1) OVER ()", "tfidf takes a list of tokens, found 2 arguments"),
        (
            "bm25_weights(['a'], 1) OVER ()",
            "alone or with both numbers k1 and b, found 2 arguments",
        ),
        (
            "bm25_weights(['a'], -1, 0.5) OVER ()",
            "bm25_weights: k1 must be a literal number of at least 0, found -1; write for example 1.2",
        ),
        (
            "bm25_weights(['a'], 1, 1.5) OVER ()",
            "b must be a literal number from 0 to 1, found 1.5; ",
        ),
        (
            "bm25_weights(['a'], 'x', 1) OVER ()",
            "k1 must be a literal number of at least 0, found Utf8",
        ),
        (
            "bm25_weights(['a'], 1, value) OVER ()",
            "b must be a literal number from 0 to 1, found value",
        ),
        (
            "bm25_weights(['a'], 1, NULL) OVER ()",
            "b must be a literal number from 0 to 1, found Null",
        ),
        (
            "bm25_weights(['a'], 'NaN'::DOUBLE, 1) OVER ()",
            "k1 must be a literal number of at least 0",
        ),
        (
            "tfidf(array_repeat('a', 45427)) OVER ()",
            "a token stands 45427 times in one row, and its ",
        ),
        ("bm25_weights(array_repeat('a', 9000000), 1e30, 0) OVER ()", "take a smaller k1 than 1"),
    ] {
        let message = error(&ctx, &format!("SELECT {call} FROM range(1)")).await;
        assert!(message.contains(expected), "{call}: {message}");
        let is_planned = message.starts_with("Error during planning: ");
        assert!(is_planned || message.starts_with("Execution error: "), "{message}");
    }
    table(&ctx, "SELECT tfidf(array_repeat('a', 45426)) OVER () FROM range(1)").await;
    let kept = table(&ctx, "SELECT weigh(['a', NULL, 'b'], [0, -1, 4294967295])").await;
    let only = (Token::Bytes(b"b".to_vec()), u32::MAX);
    assert_eq!(sets(kept.column(0)), [Some(vec![only])]);
}

#[tokio::test]
async fn windows_and_their_documentation_are_listed() {
    let ctx = context(1, 8192);
    for udwf in windows() {
        let name = udwf.name();
        assert!(table(&ctx, &format!("SHOW FUNCTIONS LIKE '{name}'")).await.num_rows() > 0);
        let query = format!(
            "SELECT DISTINCT syntax_example, is_deterministic, function_type FROM
             information_schema.routines WHERE routine_name = '{name}'"
        );
        let found = table(&ctx, &query).await;
        assert_eq!(found.num_rows(), 1);
        let text = |column: usize| {
            arrow::util::display::array_value_to_string(found.column(column), 0).unwrap()
        };
        assert!(text(0).starts_with(&format!("{name}(")));
        assert_eq!([text(1), text(2)], ["true", "WINDOW"]);
        let example = udwf.documentation().and_then(|d| d.sql_example.clone()).unwrap();
        let lines: Vec<&str> = example.lines().collect();
        let found = table(&ctx, lines[1].trim_start_matches("> ")).await;
        let answer = arrow::util::display::array_value_to_string(found.column(0), 0).unwrap();
        assert_eq!(answer, lines[3].trim_matches(['|', ' ']));
    }
}

#[test]
fn a_window_function_of_the_caller_stays() {
    let own = datafusion::functions_window::rank::rank_udwf();
    let own = Arc::new(own.as_ref().clone().with_aliases(["tfidf"]));
    let mut builder = SessionStateBuilder::new_with_default_features();
    builder.window_functions().get_or_insert_default().push(Arc::clone(&own));
    let builder = crate::install_parts(crate::install_parts(builder).unwrap()).unwrap();
    let state = builder.build();
    assert_eq!(state.window_functions()["tfidf"].name(), "rank");
    assert_eq!(state.window_functions()["idf"], weighting_udwf(Weighting::Idf));
    assert!(state.scalar_functions().contains_key("token_counts"));
}
