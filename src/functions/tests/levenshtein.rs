//! `levenshtein` against DataFusion's own.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions::string;
use datafusion::logical_expr::ColumnarValue;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{call, column, scalar};
use crate::functions::{is_levenshtein, levenshtein};

fn random(rng: &mut StdRng, rows: usize) -> ArrayRef {
    let alphabet: Vec<char> = "abcdeé中😀ж".chars().collect();
    let text = |rng: &mut StdRng| -> Option<String> {
        let letters = [2, 5, 9][rng.random_range(0..3)];
        let len = [3, 12, 17, 40, 70][rng.random_range(0..5)];
        let len = rng.random_range(0..=len);
        let text = (0..len).map(|_| alphabet[rng.random_range(0..letters)]).collect();
        (rng.random_range(0..9) > 0).then_some(text)
    };
    Arc::new((0..rows).map(|_| text(rng)).collect::<StringArray>())
}

/// The result of a call: its type and rows, or its error.
fn outcome(found: Result<ColumnarValue>, rows: usize) -> Result<ArrayRef, String> {
    found.and_then(|found| found.into_array(rows)).map_err(|error| error.strip_backtrace())
}

#[test]
fn values_and_types_are_those_of_datafusion() {
    let mut rng = StdRng::seed_from_u64(61);
    let types = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
    for round in 0..180 {
        let (first, second) = (&types[round % 3], &types[round / 3 % 3]);
        let rows = [1, 40, 1_200][rng.random_range(0..3)];
        let arrays =
            [first, second].map(|data_type| cast(&random(&mut rng, rows), data_type).unwrap());
        let row = rng.random_range(0..rows);
        let arguments = match round / 9 % 4 {
            0 | 1 => vec![column(&arrays[0]), column(&arrays[1])],
            2 => vec![scalar(&arrays[0], row), column(&arrays[1])],
            _ => vec![column(&arrays[0]), scalar(&arrays[1], row)],
        };
        if [first, second] == [&DataType::Utf8, &DataType::LargeUtf8] {
            // Of which DataFusion's own has a type, but no values.
            let [ours, stock] = [levenshtein(), string::levenshtein()]
                .map(|udf| outcome(invoke(&udf, &arguments, rows), rows));
            assert_eq!(ours, stock);
            assert!(ours.is_err());
            continue;
        }
        let [ours, stock] = [levenshtein(), string::levenshtein()]
            .map(|udf| outcome(call(&udf, arguments.clone(), rows), rows));
        assert_eq!(ours, stock, "{first} {second}");
    }
}

fn invoke(
    udf: &datafusion::logical_expr::ScalarUDF,
    arguments: &[ColumnarValue],
    rows: usize,
) -> Result<ColumnarValue> {
    use arrow::datatypes::Field;
    use datafusion::logical_expr::ScalarFunctionArgs;
    udf.invoke_with_args(ScalarFunctionArgs {
        args: arguments.to_vec(),
        arg_fields: vec![],
        number_rows: rows,
        return_field: Arc::new(Field::new("d", DataType::Int64, true)),
        config_options: Arc::default(),
    })
}

/// The answer to a query, or the error with which it is refused.
async fn answer(context: &SessionContext, query: &str) -> Result<String, String> {
    let answer = async {
        let batches = context.sql(query).await?.collect().await?;
        let schema = batches.iter().map(|batch| batch.schema_ref().as_ref().clone());
        let schema: Vec<_> = schema.collect();
        Result::<_>::Ok(format!("{schema:?}\n{}", pretty_format_batches(&batches)?))
    };
    answer.await.map_err(|error| error.strip_backtrace())
}

/// Sessions have this crate's function, and no query of texts tells it from DataFusion's. What DataFusion
/// refuses is refused, with advice.
#[tokio::test]
async fn sessions_answer_as_those_of_datafusion() -> Result<()> {
    let stock = SessionContext::new();
    let builder = SessionStateBuilder::new().with_default_features();
    let ours = SessionContext::new_with_state(crate::install(builder)?.build());
    let of = |context: &SessionContext| {
        let state = context.state();
        is_levenshtein(&state.scalar_functions()["levenshtein"])
    };
    assert!(of(&stock) && !of(&ours));
    let rows = "FROM (VALUES ('kitten', 'sitting'), ('', 'é'), (NULL, 'a'), ('a', NULL)) t(a, b)";
    let texts = [
        "a",
        "arrow_cast(a, 'Utf8')",
        "arrow_cast(a, 'LargeUtf8')",
        "'sitten'",
        "NULL",
        "arrow_cast(a, 'Dictionary(Int32, Utf8)')",
        "arrow_cast(a, 'Binary')",
        "1",
        "a || b",
        "arrow_cast(a, 'Utf8View')",
        "[a]",
    ];
    let calls = texts.iter().flat_map(|x| texts.map(|y| format!("levenshtein({x}, {y})")));
    let odd = ["levenshtein()", "levenshtein(a)", "levenshtein(a, b, a)"].map(String::from);
    for call in calls.chain(odd) {
        let query = format!("SELECT {call} AS d, arrow_typeof({call}) AS t {rows}");
        let [found, expected] = [answer(&ours, &query).await, answer(&stock, &query).await];
        match (found, expected) {
            (Err(found), Err(_)) if found.contains("levenshtein expects text") => {}
            (Err(found), Err(_)) if found.contains("levenshtein takes two texts") => {}
            (found, expected) => assert_eq!(found, expected, "{query}"),
        }
    }
    for (call, advice) in [
        ("levenshtein(a, 1)", "found Int64; codes such as 01427 have lost their zeros"),
        ("levenshtein(1.5, b)", "found Float64"),
        ("levenshtein(DATE '2026-11-28', DATE '2026-11-29')", "are a.d - b.d"),
        ("levenshtein(arrow_cast(a, 'Binary'), b)", "arrow_cast(x, 'Utf8') reads bytes as text"),
        ("levenshtein([a], [b])", "lists are joined by jaccard"),
        ("levenshtein(true, b)", "CAST(x AS VARCHAR)"),
        ("levenshtein(a)", "levenshtein takes two texts, found one argument (Utf8)"),
        ("levenshtein()", "levenshtein takes two texts, found none"),
        ("levenshtein(a, b, a)", "found 3 arguments (Utf8, Utf8, Utf8)"),
    ] {
        let error = answer(&ours, &format!("SELECT {call} {rows}")).await.unwrap_err();
        assert!(error.starts_with("Error during planning: levenshtein "), "{call}: {error}");
        assert!(error.contains(advice), "{call}: {error}");
    }
    for query in [
        "SELECT levenshtein('kitten', 'sitting')",
        &format!("SELECT levenshtein(a, b) {rows} WHERE false"),
        &format!("SELECT count(*) {rows} WHERE levenshtein(a, b) <= 3"),
    ] {
        assert_eq!(answer(&ours, query).await, answer(&stock, query).await, "{query}");
    }
    Ok(())
}

/// A user's function of the name stays.
#[test]
fn a_namesake_stays() -> Result<()> {
    let namesake = datafusion::logical_expr::create_udf(
        "levenshtein",
        vec![DataType::Int64],
        DataType::Int64,
        datafusion::logical_expr::Volatility::Immutable,
        Arc::new(|arguments| Ok(arguments[0].clone())),
    );
    let mut builder = SessionStateBuilder::new();
    builder.scalar_functions().get_or_insert_default().push(Arc::new(namesake.clone()));
    let state = crate::install(builder)?.build();
    assert_eq!(state.scalar_functions()["levenshtein"].as_ref(), &namesake);
    Ok(())
}
