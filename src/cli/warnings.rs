//! Warnings before the answer of a statement: thresholds and variables that are probably mistakes.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::config::SimJoinOptions;
use crate::exec::SetSimilarityJoinExec;

/// Says of each similarity join of the plan that no pair can satisfy it: its threshold is above
/// what the measure gives, or NULL or NaN, as a percentage or a mistyped number is.
pub(super) fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut warnings = vec![];
    collect(plan, &mut warnings);
    warnings.dedup();
    warnings
}

fn collect(plan: &Arc<dyn ExecutionPlan>, warnings: &mut Vec<String>) {
    if let Some(join) = plan.downcast_ref::<SetSimilarityJoinExec>().map(|exec| exec.join())
        && join.predicate.bound.is_nan()
    {
        let function = join.predicate.call.function;
        let name = function.name();
        let range = match function.is_integer() {
            true => "counts common elements",
            false => "is at most 1, and 80% are 0.8",
        };
        let predicate = without_types(&join.text);
        warnings.push(match predicate.contains("NULL") {
            true => format!("no pair can satisfy {predicate}: nothing compares with NULL"),
            false => format!("no pair can satisfy {predicate}: {name} {range}"),
        });
    }
    for child in plan.children() {
        collect(child, warnings);
    }
}

/// `>= Float64(80)` as it was written.
fn without_types(predicate: &str) -> String {
    let mut text = predicate.to_string();
    for name in ["Float64(", "Int64("] {
        while let Some(start) = text.find(name)
            && let Some(length) = text[start..].find(')')
        {
            let number = text[start + name.len()..start + length].to_string();
            text.replace_range(start..=start + length, &number);
        }
    }
    text
}

/// Says of each `SIMJOIN_*` of the environment that it sets nothing.
pub(super) fn of_environment(variables: impl Iterator<Item = String>) -> Vec<String> {
    /// Those of the tests and benches of this crate.
    const OURS: [&str; 5] =
        ["SIMJOIN_BENCH_", "SIMJOIN_FUZZ_", "SIMJOIN_REQUIRE_", "SIMJOIN_SLT_", "SIMJOIN_TEST_"];
    let known: Vec<String> =
        SimJoinOptions::NAMES.iter().map(|name| SimJoinOptions::variable(name)).collect();
    let unknown = variables.filter(|variable| {
        variable.starts_with("SIMJOIN_")
            && !known.contains(variable)
            && !OURS.iter().any(|prefix| variable.starts_with(prefix))
    });
    let warnings = unknown.map(|variable| {
        let name = variable.trim_start_matches("SIMJOIN_");
        let meant = match SimJoinOptions::near(&name.to_lowercase()) {
            Some(near) => format!(" Did you mean {}?", SimJoinOptions::variable(near)),
            None => String::new(),
        };
        let known = known.join(", ");
        format!("{variable} in the environment sets no option.{meant} The options are {known}")
    });
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use datafusion::common::Result;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::session::{SimJoinContextExt, install};

    async fn warnings(on: &str) -> Result<Vec<String>> {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder)?.build());
        let sql = format!("SELECT * FROM (SELECT [1] t) a SIMJOIN (SELECT [2] t) b ON {on}");
        Ok(of_plan(&ctx.simjoin_sql(&sql).await?.create_physical_plan().await?))
    }

    #[tokio::test]
    async fn thresholds_that_nothing_reaches_are_told() {
        for (on, expected) in [
            ("jaccard(a.t, b.t) >= 80", "jaccard(a.t, b.t) >= 80: jaccard is at most 1"),
            ("dice(a.t, b.t) > 1", "dice is at most 1"),
            ("1.5 <= jaccard(a.t, b.t) AND a.t <> b.t", "jaccard is at most 1"),
            ("overlap(a.t, b.t) > 9223372036854775807", "overlap counts common elements"),
        ] {
            let told = warnings(on).await.unwrap();
            assert!(told.len() == 1 && told[0].contains(expected), "{on}: {told:?}");
        }
        for on in ["jaccard(a.t, b.t) >= 1", "overlap(a.t, b.t) >= 80"] {
            assert_eq!(warnings(on).await.unwrap(), Vec::<String>::new(), "{on}");
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
}
