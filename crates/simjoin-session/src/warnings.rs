//! Warnings before the answer of a statement: thresholds and variables that are probably mistakes.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use datafusion_simjoin::config::{SimJoinOptions, nearest};
use datafusion_simjoin::exec::SetSimilarityJoinExec;
use datafusion_simjoin::functions::{StringFunction, measure_of, string_function_of};
use datafusion_simjoin::spec::{Order, Predicate};

/// Says of each similarity join of the plan that no pair can satisfy it: its threshold is above
/// what the measure gives, or NULL or NaN, as a percentage or a mistyped number is.
pub fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut warnings = vec![];
    collect(plan, &mut warnings);
    warnings.dedup();
    warnings
}

fn collect(plan: &Arc<dyn ExecutionPlan>, warnings: &mut Vec<String>) {
    if let Some(join) = plan.downcast_ref::<SetSimilarityJoinExec>().map(|exec| exec.join())
        && is_out_of_reach(&join.predicate)
    {
        let function = join.predicate.call.function;
        let name = function.name();
        let range = match function.extremes() {
            [0.0, 1.0] => "is at most 1, and 80% are 0.8",
            [0.0, _] => "counts common elements",
            _ if function.info().order == Order::Distance => "is never less than 0",
            _ => "is never greater",
        };
        let predicate = without_types(&join.text);
        warnings.push(match predicate.contains("NULL") {
            true => format!("no pair can satisfy {predicate}: nothing compares with NULL"),
            false => format!("no pair can satisfy {predicate}: {name} {range}"),
        });
    }
    // Alternatives of one condition are joins of a union: another one of them may find pairs.
    if plan.is::<UnionExec>() {
        return;
    }
    for child in plan.children() {
        collect(child, warnings);
    }
}

/// Whether no pair satisfies a predicate.
fn is_out_of_reach(predicate: &Predicate) -> bool {
    let function = predicate.call.function;
    // Rounding may give a little less than 0, and NaN, which is beyond all numbers, is no distance.
    let least = if function.name() == "cosine_distance" { -1e-6 } else { 0.0 };
    let is_distance = function.info().order == Order::Distance;
    predicate.bound.is_nan() || is_distance && predicate.bound < least
}

/// Warns of `<=>` between lists of numbers in a select list or an order: pgvector's cosine distance is
/// IS NOT DISTINCT FROM here.
pub fn of_vectors(plan: &LogicalPlan) -> Option<String> {
    let mut found = false;
    // Neither closure returns an error.
    let _ = plan.apply_with_subqueries(|node| {
        if let (LogicalPlan::Projection(_) | LogicalPlan::Sort(_), [input]) =
            (node, node.inputs().as_slice())
        {
            for expression in node.expressions() {
                expression.apply(|part| {
                    found |= compares_vectors(part, input.schema());
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.then(|| {
        "<=> between lists is IS NOT DISTINCT FROM, which is true or false; the cosine distance of \
         vectors is cosine_distance(a, b)"
            .to_string()
    })
}

fn compares_vectors(expression: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, .. }) = expression
    else {
        return false;
    };
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        left.get_type(schema).unwrap_or(DataType::Null)
    else {
        return false;
    };
    item.data_type().is_numeric()
}

/// Warns of each number of edits, places or common tokens that is divided by a whole number, such as a length:
/// the quotient is a whole number, too, and mostly 0.
pub fn of_divisions(plan: &LogicalPlan) -> Vec<String> {
    of_expressions(plan, of_division)
}

/// Warns of each band of floating-point numbers that ends at a decimal fraction, such as a cent: differences are
/// rounded, so that pairs at the end are in it or not by chance.
pub fn of_bands(plan: &LogicalPlan) -> Vec<String> {
    of_expressions(plan, of_band)
}

/// The warnings of the parts of all expressions of a plan, each once.
fn of_expressions(
    plan: &LogicalPlan,
    warning_of: fn(&Expr, &DFSchema) -> Option<String>,
) -> Vec<String> {
    let mut warnings: Vec<String> = vec![];
    // Neither closure returns an error.
    let _ = plan.apply_with_subqueries(|node| {
        let mut schema = DFSchema::empty();
        node.inputs().iter().for_each(|input| schema.merge(input.schema()));
        for expression in node.expressions() {
            expression.apply(|part| {
                let found = warning_of(part, &schema);
                warnings.extend(found.filter(|warning| !warnings.contains(warning)));
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    warnings
}

fn of_band(expression: &Expr, schema: &DFSchema) -> Option<String> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else { return None };
    let (difference, bound) = match op {
        Operator::Lt | Operator::LtEq => (left, right),
        Operator::Gt | Operator::GtEq => (right, left),
        _ => return None,
    };
    let Expr::ScalarFunction(call) = difference.as_ref() else { return None };
    let ("abs", [Expr::BinaryExpr(BinaryExpr { left: a, op: Operator::Minus, right: b })]) =
        (call.func.name(), call.args.as_slice())
    else {
        return None;
    };
    let Expr::Literal(value, _) = bound.as_ref() else { return None };
    let ScalarValue::Float64(Some(bound)) = value.cast_to(&DataType::Float64).ok()? else {
        return None;
    };
    // Fractions of powers of two have no rounding of their own.
    let is_decimal = (bound * 1024.0).fract() != 0.0 && bound.is_finite();
    let is_float = [a, b].iter().any(|e| e.get_type(schema).is_ok_and(|t| t.is_floating()));
    (is_decimal && is_float).then(|| {
        format!(
            "{difference} of floating-point numbers is rounded, so that pairs exactly {bound} apart may be \
             in or out: 1.01 - 1.00 is 0.010000000000000009; CAST({a} AS DECIMAL(18, 4)) and \
             CAST({b} AS DECIMAL(18, 4)) are exact"
        )
    })
}

fn of_division(expression: &Expr, schema: &DFSchema) -> Option<String> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, .. }) = expression else {
        return None;
    };
    let Expr::ScalarFunction(call) = left.as_ref() else { return None };
    let relative = match (string_function_of(&call.func), measure_of(&call.func)) {
        (Some(StringFunction::Levenshtein), _) => {
            "relative to the lengths there is levenshtein_similarity(a, b); "
        }
        (_, Some(_)) => {
            "relative to the sizes there are jaccard, dice, overlap_coefficient and containment; "
        }
        (Some(_), _) => "",
        _ => return None,
    };
    expression.get_type(schema).ok()?.is_integer().then(|| {
        format!(
            "{left} is a whole number, and so is its quotient by another, which is 0 where the divisor is \
             greater; {relative}CAST({left} AS DOUBLE) divides as one expects"
        )
    })
}

/// `>= Float64(80)` as it was written.
pub fn without_types(predicate: &str) -> String {
    let mut text = predicate.to_string();
    for name in ["Float64(", "Int64(", "Int32("] {
        while let Some(start) = text.find(name)
            && let Some(length) = text[start..].find(')')
        {
            let number = text[start + name.len()..start + length].to_string();
            text.replace_range(start..=start + length, &number);
        }
    }
    text
}

/// Says of each `SIMJOIN_*` and `DATAFUSION_*` of the environment that it sets nothing.
pub fn of_environment(variables: impl Iterator<Item = String>) -> Vec<String> {
    /// Prefixes of the variables of this crate's tests and benches, and of DataFusion's.
    const OF_TESTS: [&str; 6] = [
        "DATAFUSION_TEST_",
        "SIMJOIN_BENCH_",
        "SIMJOIN_FUZZ_",
        "SIMJOIN_REQUIRE_",
        "SIMJOIN_SLT_",
        "SIMJOIN_TEST_",
    ];
    let variables = variables.filter(|name| !OF_TESTS.iter().any(|of| name.starts_with(of)));
    variables.filter_map(|name| of_simjoin(&name).or_else(|| of_datafusion(&name))).collect()
}

fn of_simjoin(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("SIMJOIN_")?;
    let known: Vec<String> =
        SimJoinOptions::NAMES.iter().map(|name| SimJoinOptions::variable(name)).collect();
    if known.iter().any(|known| known == variable) {
        return None;
    }
    let meant = match SimJoinOptions::near(&name.to_lowercase()) {
        Some(near) => format!(" Did you mean {}?", SimJoinOptions::variable(near)),
        None => String::new(),
    };
    let known = known.join(", ");
    Some(format!("{variable} in the environment sets no option.{meant} The options are {known}"))
}

fn of_datafusion(variable: &str) -> Option<String> {
    variable.strip_prefix("DATAFUSION_")?;
    if let Some(flag) = flag_of(variable) {
        return Some(format!("{variable} in the environment sets no option; use {flag}"));
    }
    let options = ConfigOptions::default().entries().into_iter();
    let known: Vec<String> =
        options.map(|option| option.key.to_uppercase().replace('.', "_")).collect();
    if known.iter().any(|known| known == variable) {
        return None;
    }
    let meant = match nearest(variable, known.iter().map(String::as_str)) {
        Some(near) => format!(" Did you mean {near}?"),
        None => String::new(),
    };
    Some(format!(
        "{variable} in the environment sets no option.{meant} SHOW datafusion lists the options"
    ))
}

/// The flag, or the statement, for an option of the runtime, which DataFusion does not read from
/// the environment.
fn flag_of(variable: &str) -> Option<String> {
    Some(match variable.strip_prefix("DATAFUSION_RUNTIME_")? {
        "MEMORY_LIMIT" => "--memory-limit".to_string(),
        "MAX_TEMP_DIRECTORY_SIZE" => "--disk-limit".to_string(),
        name => format!("SET datafusion.runtime.{} = …", name.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::common::Result;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    async fn warnings(on: &str) -> Result<Vec<String>> {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder)?.build());
        let sql = format!(
            "SELECT * FROM (SELECT [1] t, 'x' s) a SIMJOIN (SELECT [2] t, 'y' s) b ON {on}"
        );
        Ok(of_plan(&ctx.simjoin_sql(&sql).await?.create_physical_plan().await?))
    }

    #[tokio::test]
    async fn thresholds_that_nothing_reaches_are_told() {
        for (on, expected) in [
            ("jaccard(a.t, b.t) >= 80", "jaccard(a.t, b.t) >= 80: jaccard is at most 1"),
            ("dice(a.t, b.t) > 1", "dice is at most 1"),
            ("1.5 <= jaccard(a.t, b.t) AND a.t <> b.t", "jaccard is at most 1"),
            ("overlap(a.t, b.t) > 9223372036854775807", "overlap counts common elements"),
            (
                "levenshtein(a.s, b.s) <= -1",
                "levenshtein(a.s, b.s) <= -1: levenshtein is never less",
            ),
            ("hamming(a.s, b.s) < 0", "hamming is never less than 0"),
            ("array_distance(a.t, b.t) <= -1.0", "<= -1: array_distance is never less than 0"),
            ("cosine_distance(a.t, b.t) < -0.5", "cosine_distance is never less than 0"),
        ] {
            let told = warnings(on).await.unwrap();
            assert!(told.len() == 1 && told[0].contains(expected), "{on}: {told:?}");
        }
        for on in [
            "jaccard(a.t, b.t) >= 1",
            "overlap(a.t, b.t) >= 80",
            "levenshtein(a.s, b.s) <= 0",
            "array_distance(a.t, b.t) <= 0.0",
            "cosine_distance(a.t, b.t) <= -1e-9",
            "inner_product(a.t, b.t) >= -1.0",
        ] {
            assert_eq!(warnings(on).await.unwrap(), Vec::<String>::new(), "{on}");
        }
    }

    #[tokio::test]
    async fn the_cosine_distance_of_other_systems_is_told() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE t AS SELECT 1 AS id, [1.0, 2.0] AS v").await.unwrap();
        for (sql, is_told) in [
            ("SELECT id FROM t ORDER BY v <=> [1.0, 3.0] LIMIT 3", true),
            ("SELECT a.v <=> b.v AS d FROM t a, t b", true),
            ("SELECT a.id <=> b.id FROM t a, t b", false),
            ("SELECT a.id FROM t a JOIN t b ON a.v IS NOT DISTINCT FROM b.v", false),
        ] {
            let frame = ctx.sql(sql).await.unwrap();
            assert_eq!(of_vectors(frame.logical_plan()).is_some(), is_told, "{sql}");
        }
    }

    #[tokio::test]
    async fn divisions_of_whole_numbers_are_told() {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        ctx.sql("CREATE TABLE t AS SELECT 'Petrov' AS x, [1, 2] AS toks").await.unwrap();
        let ratio = "levenshtein(a.x, b.x) / greatest(length(a.x), length(b.x))";
        for (sql, expected) in [
            (
                format!("SELECT 1 FROM t a JOIN t b ON {ratio} <= 0.2"),
                Some("levenshtein_similarity"),
            ),
            (
                format!("SELECT 1 FROM t a, t b WHERE {ratio} <= 0.2"),
                Some("levenshtein_similarity"),
            ),
            (format!("SELECT {ratio} FROM t a, t b"), Some("levenshtein_similarity")),
            (format!("SELECT a.x FROM t a, t b ORDER BY {ratio}"), Some("levenshtein_similarity")),
            (
                format!("SELECT * FROM t WHERE EXISTS (SELECT {ratio} FROM t a, t b)"),
                Some("levenshtein_similarity"),
            ),
            (
                "SELECT damerau_levenshtein(a.x, b.x) / 10 FROM t a, t b".to_string(),
                Some("CAST(damerau_levenshtein(a.x, b.x) AS DOUBLE)"),
            ),
            (
                "SELECT overlap(a.toks, b.toks) / length(a.x) FROM t a, t b".to_string(),
                Some("jaccard"),
            ),
            (format!("SELECT {ratio} AS r, {ratio} < 1 AS s FROM t a, t b"), Some("whole number")),
            ("SELECT levenshtein(a.x, b.x) / 10.0 FROM t a, t b".to_string(), None),
            ("SELECT levenshtein(a.x, b.x) * 1.0 / length(a.x) FROM t a, t b".to_string(), None),
            ("SELECT CAST(hamming(x, x) AS DOUBLE) / length(x) FROM t".to_string(), None),
            ("SELECT length(a.x) / length(b.x) FROM t a, t b".to_string(), None),
            ("SELECT jaccard(a.toks, b.toks) / 2 FROM t a, t b".to_string(), None),
        ] {
            let told = of_divisions(ctx.sql(&sql).await.unwrap().logical_plan());
            assert_eq!(told.len(), usize::from(expected.is_some()), "{sql}: {told:?}");
            assert!(expected.is_none_or(|expected| told[0].contains(expected)), "{sql}: {told:?}");
        }
    }

    #[tokio::test]
    async fn bands_of_rounded_numbers_are_told() {
        let ctx = SessionContext::new();
        let table = "CREATE TABLE t AS SELECT 1.5::double AS x, 2::decimal(9, 2) AS d, 3 AS n";
        ctx.sql(table).await.unwrap();
        for (condition, is_told) in [
            ("abs(a.x - b.x) <= 0.01", true),
            ("0.3 > abs(a.x - b.d)", true),
            ("abs(a.x - b.x) <= 0.5", false),
            ("abs(a.d - b.d) <= 0.01", false),
            ("abs(a.n - b.n) <= 3", false),
            ("abs(a.x) <= 0.01", false),
        ] {
            let sql = format!("SELECT 1 FROM t a JOIN t b ON {condition}");
            let told = of_bands(ctx.sql(&sql).await.unwrap().logical_plan());
            assert_eq!(told.len(), usize::from(is_told), "{sql}: {told:?}");
            assert!(!is_told || told[0].contains("AS DECIMAL(18, 4))"), "{told:?}");
        }
    }

    #[test]
    fn variables_that_set_nothing_are_told() {
        let variables = [
            "SIMJOIN_STRATEGY",
            "SIMJOIN_DEBUG_GPU_LAYOUT",
            "SIMJOIN_TEST_GPU",
            "SIMJOINS",
            "SIMJOIN_STRATGY",
            "SIMJOIN_NOPE",
            "SIMJOIN_SIMD",
        ];
        let told = of_environment(variables.into_iter().map(str::to_string));
        assert_eq!(told.len(), 3, "{told:?}");
        let starts = [
            "SIMJOIN_STRATGY in the environment sets no option. Did you mean SIMJOIN_STRATEGY? The \
             options are SIMJOIN_",
            "SIMJOIN_NOPE in the environment sets no option. The options are SIMJOIN_",
        ];
        for (told, starts) in told.iter().zip(starts) {
            assert!(told.starts_with(starts), "{told}");
        }
        assert!(told[1].contains("SIMJOIN_RECOGNIZE_JOINS"), "{told:?}");
        assert!(told[2].contains("Did you mean SIMJOIN_DEBUG_SIMD?"), "{told:?}");
    }

    #[test]
    fn variables_of_datafusion_that_set_nothing_are_told() {
        let told = |name: &str| of_environment([name.to_string()].into_iter());
        for name in [
            "DATAFUSION_EXECUTION_BATCH_SIZE",
            "DATAFUSION_OPTIMIZER_JOIN_REORDERING",
            "DATAFUSION_TEST_DATA",
            "DATAFUSIONS",
        ] {
            assert_eq!(told(name), Vec::<String>::new(), "{name}");
        }
        for (name, expected) in [
            ("DATAFUSION_EXECUTION_BATCH_SIZ", "Did you mean DATAFUSION_EXECUTION_BATCH_SIZE?"),
            ("DATAFUSION_NOPE", "sets no option. SHOW datafusion lists the options"),
            ("DATAFUSION_RUNTIME_MEMORY_LIMIT", "use --memory-limit"),
            ("DATAFUSION_RUNTIME_TEMP_DIRECTORY", "use SET datafusion.runtime.temp_directory = …"),
        ] {
            let told = told(name);
            assert!(told.len() == 1 && told[0].contains(expected), "{name}: {told:?}");
        }
    }
}
