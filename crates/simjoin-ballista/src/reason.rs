//! Finds out why a statement failed, from Ballista's texts.
//!
//! A task's error reaches the client as the text of its `Debug` form, inside the texts of the
//! layers that it came through: `Job failed due to stage 0 failed: Task failed due to runtime
//! execution error: DataFusionError(Shared(ArrowError(CastError("Cannot cast …"))))`.

use datafusion::common::DataFusionError;

use simjoin_files::storage::OUTSIDE;

/// The option that stands in the error of each statement whose spilled data took too much of an executor.
pub(super) const WORK_DIR_LIMIT: &str = "--work-dir-limit";

/// The error of a statement that lost rows with an executor. A client may send the statement again.
pub(super) const LOST: &str = "an executor was lost with rows of the statement";

/// Prefixes that the layers put before an error.
const LAYERS: [&str; 11] = [
    "Task failed due to runtime execution error: ",
    "Failed to create SessionContext: ",
    "Could not parse plan: ",
    "Internal Ballista error: ",
    "General error: ",
    "DataFusion error: ",
    "Execution error: ",
    "External error: ",
    "Arrow error: ",
    "Error during planning: ",
    "Fail to build execution graph: ",
];

/// The error of a statement that the cluster gave up.
pub(super) fn failure(text: &str) -> DataFusionError {
    let reason = plain(text);
    if UNKNOWN_OPERATOR.iter().any(|unknown| text.contains(unknown)) {
        return DataFusionError::Execution(format!(
            "an executor does not know the operators of the similarity join; start executors with \
             simjoin executor in version {}, or prepare your own with \
             simjoin_ballista::configure_executor: {reason}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    if reason.contains(WORK_DIR_LIMIT) || reason.contains(OUTSIDE) {
        return DataFusionError::Execution(format!("the cluster refuses: {reason}"));
    }
    // A file that a COPY writes is named.
    if reason.contains("No space left on device") && !reason.contains("writing ") {
        return DataFusionError::Execution(format!(
            "the work folder (--work-dir) of an executor is full: {reason}"
        ));
    }
    match text.contains("ResourcesExhausted(") || text.contains("Resources exhausted: ") {
        true => DataFusionError::ResourcesExhausted(format!("on the cluster: {reason}")),
        false => DataFusionError::Execution(format!("the cluster failed: {reason}")),
    }
}

/// The errors of an executor that cannot read the bytes of this crate's operators, or functions.
const UNKNOWN_OPERATOR: [&str; 2] =
    ["Could not deserialize BallistaPhysicalPlanNode", "rejected by executor"];

/// Whether a statement failed because rows went with an executor: it may do better without that
/// one.
pub(super) fn is_loss(error: &DataFusionError) -> bool {
    let DataFusionError::Execution(text) = error else { return false };
    // A task reports rows that it cannot fetch before the scheduler gives their executor up. A
    // cancellation without a request comes from the scheduler, after a loss.
    text.contains(LOST) || text.contains(NOT_FETCHED) || text.ends_with("Cancelled")
}

/// Ballista's error for a stage that could not read its input.
const NOT_FETCHED: &str = "failed 1 times, most recent failure reason";

/// The text of an error without the layers that it came through.
pub(super) fn plain(text: &str) -> String {
    let mut rest = text.trim();
    loop {
        let shorter = LAYERS.iter().find_map(|layer| rest.strip_prefix(layer));
        let Some(shorter) = shorter.or_else(|| after_stage(rest)) else { break };
        rest = shorter.trim_start();
    }
    // The first line says it; further ones are a backtrace.
    let text = opened(rest).unwrap_or_else(|| rest.to_string());
    text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().trim().to_string()
}

/// The text behind `Job failed due to stage 3 failed: ` or `Error planning job 038FTPTXP8000: `.
fn after_stage(text: &str) -> Option<&str> {
    if let Some(job) = text.strip_prefix("Error planning job ") {
        return Some(job.split_once(": ")?.1);
    }
    let rest = text.strip_prefix("Job failed due to stage ")?;
    let (stage, rest) = rest.split_once(" failed: ")?;
    stage.chars().all(|c| c.is_ascii_digit()).then_some(rest)
}

/// The innermost text in the `Debug` form of an error; None for another text.
fn opened(text: &str) -> Option<String> {
    let (name, inside) = text.strip_suffix(')')?.split_once('(')?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    if let Some((first, rest)) = quoted(inside) {
        return Some(match rest.strip_prefix(", ") {
            // A context, and what it is the context of. Backtraces stand there as well.
            Some(rest) => match opened(rest) {
                Some(inner) => format!("{first}: {inner}"),
                None => first,
            },
            None => first,
        });
    }
    Some(opened(inside).unwrap_or_else(|| inside.to_string()))
}

/// The string literal that a text begins with, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut unquoted = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((unquoted, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => unquoted.push('\n'),
                't' => unquoted.push('\t'),
                c => unquoted.push(c),
            },
            c => unquoted.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_taken_away() {
        for (text, expected) in [
            (
                "Job failed due to stage 0 failed: Task failed due to runtime execution error: \
                 DataFusionError(Shared(External(ArrowError(CastError(\"Cannot cast 'a \\\"b\\\"' \
                 to Int32\")))))",
                "Cannot cast 'a \"b\"' to Int32",
            ),
            ("DataFusionError(Shared(External(ArrowError(DivideByZero))))", "DivideByZero"),
            ("Failed to create SessionContext: DataFusionError(Execution(\"no\"))", "no"),
            (
                "DataFusionError(Context(\"while reading\", Execution(\"gone\")))",
                "while reading: gone",
            ),
            ("DataFusionError(ArrowError(CsvError(\"bad\"), Some(\"\")))", "bad"),
            ("Job 12 was cancelled (by somebody)", "Job 12 was cancelled (by somebody)"),
            ("the first (of \"two\")", "the first (of \"two\")"),
            ("Error planning job 038F: DataFusionError(Plan(\"no\"))", "no"),
            ("Could not parse plan: Error during planning: no such thing", "no such thing"),
            ("", ""),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    #[test]
    fn a_full_disk_and_a_foreign_executor_are_told_with_what_to_do() {
        let full = failure("No space left on device (os error 28)").to_string();
        assert!(full.contains("--work-dir"), "{full}");
        let copy = failure(
            "DataFusionError(Context(\"writing /x.csv\", IoError(Custom { kind: \
                            StorageFull, error: \"the disk is full: No space left on device\" })))",
        );
        assert!(!copy.to_string().contains("--work-dir"), "{copy}");
        let unknown = failure("Could not deserialize BallistaPhysicalPlanNode: invalid tag");
        assert!(unknown.to_string().contains("simjoin executor"), "{unknown}");
    }

    #[test]
    fn a_loss_is_told_from_other_failures() {
        for text in [
            format!("{LOST} (executor 1)"),
            "Job failed due to stage 2 failed: Stage 2 has failed 1 times, most recent failure \
             reason: \"refused\""
                .to_string(),
            "Cancelled".to_string(),
        ] {
            assert!(is_loss(&failure(&text)), "{text}");
        }
        assert!(!is_loss(&failure("Job failed due to stage 2 failed: no")));
        assert!(!is_loss(&failure("ResourcesExhausted(\"no\")")));
    }

    #[test]
    fn memory_that_ran_out_stays_such_an_error() {
        let text = "Task failed due to runtime execution error: \
                    DataFusionError(Shared(ResourcesExhausted(\"Failed to allocate\")))";
        let error = failure(text);
        assert!(
            matches!(&error, DataFusionError::ResourcesExhausted(m) if m.contains("Failed to"))
        );
        assert!(matches!(failure("x"), DataFusionError::Execution(_)));
    }
}
