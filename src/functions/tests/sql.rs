use arrow::util::pretty::pretty_format_batches;
use datafusion::logical_expr::{ScalarUDF, col, lit};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::functions::{all, expr_fn, measure_of, similarity_udf};
use crate::set::Measure;

fn context() -> SessionContext {
    let ctx = SessionContext::new_with_config(
        SessionConfig::new().with_information_schema(true).with_target_partitions(1),
    );
    all().iter().for_each(|udf| ctx.register_udf(udf.as_ref().clone()));
    ctx
}

/// The answer to `query` as a table without its rules and heading.
async fn rows(ctx: &SessionContext, query: &str) -> Vec<String> {
    let batches = ctx.sql(query).await.unwrap().collect().await.unwrap();
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let lines = table.lines().skip(3).filter(|line| !line.starts_with('+'));
    lines.map(|line| line.trim_matches(['|', ' ']).to_string()).collect()
}

async fn one(ctx: &SessionContext, expression: &str) -> String {
    rows(ctx, &format!("SELECT {expression}")).await.join("\n")
}

async fn error(ctx: &SessionContext, query: &str) -> String {
    match ctx.sql(query).await {
        Ok(frame) => frame.collect().await.unwrap_err().strip_backtrace(),
        Err(error) => error.strip_backtrace(),
    }
}

#[tokio::test]
async fn literals_and_aliases() {
    let ctx = context();
    for (expression, expected) in [
        ("jaccard([1, 2, 3], [2, 3, 4])", "0.5"),
        ("jaccard([1, 2, 2, NULL], [2, 1])", "1.0"),
        ("list_jaccard(make_array('a'), make_array('b'))", "0.0"),
        ("dice([1, 2, 3, 4], [3, 4, 5, 6])", "0.5"),
        ("sorensen_dice(['a', 'b'], ['b', 'a'])", "1.0"),
        ("set_cosine([1, 2], [2, 3, 4, 5, 6, 7, 8, 9])", "0.25"),
        ("overlap([1, 2, 2, 3], [2, 3, 4])", "2"),
        ("intersection_size([1], [])", "0"),
        ("overlap_coefficient([1, 2], [2, 3, 4])", "0.5"),
        ("containment([1, 2, 3, 4], [4, 5])", "0.25"),
        ("jaccard([], [])", "0.0"),
        ("jaccard(NULL, [1]) IS NULL", "true"),
        ("jaccard([18446744073709551615], [-1])", "0.0"),
        ("jaccard(arrow_cast([1, 2], 'LargeList(UInt64)'), [1, 2])", "1.0"),
        ("arrow_typeof(overlap([1], [1]))", "Int64"),
        ("arrow_typeof(jaccard([1], [1]))", "Float64"),
        ("qgrams('banana', 3)", "[ban, ana, nan]"),
        ("qgrams('', 3)", "[]"),
        ("word_tokens('To be, or not to be')", "[to, be, or, not, to, be]"),
        ("shingles(word_tokens('To be, or not'), 2)", "[to be, be or, or not]"),
        ("shingles(['only'], 2)", "[only]"),
        ("jaccard(qgrams('night', 2), qgrams('nacht', 2))", "0.14285714285714285"),
    ] {
        assert_eq!(one(&ctx, expression).await, expected, "{expression}");
    }
}

#[tokio::test]
async fn columns_and_literals_mix() {
    let ctx = context();
    let query = "SELECT jaccard(x, [1, 2]), jaccard([1], x), overlap(x, y), qgrams(t, n)
        FROM (VALUES ([1, 2], [2], 'aab', 1), ([3], NULL, 'aab', 2), (NULL, [1], NULL, 0))
        AS v(x, y, t, n)";
    let found: Vec<String> = rows(&ctx, query)
        .await
        .iter()
        .map(|row| row.split('|').map(str::trim).collect::<Vec<_>>().join("|"))
        .collect();
    assert_eq!(found, ["1.0|0.5|1|[a, b]", "0.0|0.0||[aa, ab]", ""]);
}

#[tokio::test]
async fn errors_name_what_would_work() {
    let ctx = context();
    let message = error(&ctx, "SELECT jaccard('night', 'nacht')").await;
    assert_eq!(
        message,
        "Error during planning: jaccard expects lists of tokens, found Utf8; turn text into a \
         list with qgrams(text, 3) or word_tokens(text)"
    );
    let message = error(&ctx, "SELECT qgrams('night', 0)").await;
    assert!(message.contains("qgrams: q must be at least 1, found 0"), "{message}");
    let message = error(&ctx, "SELECT jaccard([1])").await;
    assert!(message.starts_with("Error during planning: ") && message.contains("jaccard"));
    let message = error(&ctx, "SELECT jaccard()").await;
    assert!(message.starts_with("Error during planning: ") && message.contains("jaccard"));
}

#[tokio::test]
async fn functions_and_their_documentation_are_listed() {
    let ctx = context();
    for udf in all() {
        for name in udf.aliases().iter().map(String::as_str).chain([udf.name()]) {
            let listed = rows(&ctx, &format!("SHOW FUNCTIONS LIKE '{name}'")).await;
            assert!(!listed.is_empty(), "{name} is not shown");
            let query = format!(
                "SELECT DISTINCT syntax_example, is_deterministic FROM
                 information_schema.routines WHERE routine_name = '{name}'"
            );
            let expected = format!("{}(", udf.name());
            let routines = rows(&ctx, &query).await;
            assert!(routines.len() == 1 && routines[0].starts_with(&expected), "{routines:?}");
            assert!(routines[0].ends_with("true"), "{routines:?}");
        }
    }
}

/// The examples of the documentation are what the functions answer.
#[tokio::test]
async fn documented_examples_hold() {
    let ctx = context();
    for udf in all() {
        let example = udf.documentation().and_then(|d| d.sql_example.clone()).unwrap();
        let lines: Vec<&str> = example.lines().collect();
        let query = lines[1].trim_start_matches("> ");
        let answer = lines[3].trim_matches(['|', ' ']);
        assert_eq!(rows(&ctx, query).await, [answer], "{query}");
    }
}

#[test]
fn a_namesake_is_no_measure() {
    for measure in Measure::ALL {
        assert_eq!(measure_of(&similarity_udf(measure)), Some(measure));
    }
    let qgrams = expr_fn::qgrams(col("t"), lit(3));
    assert_eq!(qgrams.to_string(), "qgrams(t, Int32(3))");
    let namesake: ScalarUDF = datafusion::logical_expr::create_udf(
        "jaccard",
        vec![],
        arrow::datatypes::DataType::Float64,
        datafusion::logical_expr::Volatility::Immutable,
        std::sync::Arc::new(|args| Ok(args[0].clone())),
    );
    assert_eq!(measure_of(&namesake), None);
}
