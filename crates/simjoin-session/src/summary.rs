//! Summaries of statements that have run: what cost the time and what would help, in words. The
//! rules are those of docs/explain.md.

use std::time::Duration;

use datafusion::execution::memory_pool::human_readable_size;
use datafusion_simjoin::functions;
use indicatif::HumanCount;

use super::operator::Operator;
use super::phases::{self, Took, time};
use super::warnings::without_types;

/// A statement that took less has nothing to gain.
const SHORT: Duration = Duration::from_millis(20);
/// Index entries that are read for each probe set, above which tokens count as frequent.
const MANY_POSTINGS: u64 = 10_000;
/// Pairs of rows that a condition was evaluated for, for each row of the result, above which most of
/// the work of the condition was in vain.
const MANY_RESIDUALS: u64 = 10;
/// The ratio of build rows to probe rows from which exchanging the sides helps.
const LARGER: u64 = 2;

/// The place where a statement ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// In this process.
    Here,
    /// In the tasks of a cluster.
    OnCluster,
}

impl Ran {
    /// The parts of the process, or of the cluster, that work at the same time.
    fn workers(self) -> &'static str {
        match self {
            Self::Here => "on all threads",
            Self::OnCluster => "in all tasks",
        }
    }

    /// The things that a statement waits for.
    fn waited_for(self) -> &'static str {
        match self {
            Self::Here => "files, a disk, a GPU or other programs",
            Self::OnCluster => "the scheduler, the network, files or other statements",
        }
    }
}

/// A part of the work of a similarity join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinPhase {
    Encode,
    Order,
    Choose,
    Index,
    Upload,
    Filter,
    Verify,
    Output,
}

impl JoinPhase {
    const ALL: [(Self, &'static [&'static str], &'static str); 8] = [
        (Self::Encode, &["build_encode_time", "probe_encode_time"], "encoding the rows"),
        (Self::Order, &["order_time"], "putting the build side in order"),
        (Self::Choose, &["choice_time"], "choosing a strategy"),
        (Self::Index, &["index_time"], "indexing the build side"),
        (Self::Upload, &["device_upload_time"], "bringing the build side to the GPU"),
        (Self::Filter, &["filter_time"], "finding candidates"),
        (Self::Verify, &["verify_time"], "comparing candidates"),
        (Self::Output, &["output_time"], "making the rows of the result"),
    ];
}

/// A similarity join with the times of its phases, which are sums over partitions.
struct TimedJoin<'a> {
    operator: &'a Operator,
    times: Vec<(JoinPhase, &'static str, Duration)>,
}

impl<'a> TimedJoin<'a> {
    fn of(operator: &'a Operator) -> Option<Self> {
        operator.predicate()?;
        let times = JoinPhase::ALL.iter().map(|(phase, counters, words)| {
            (*phase, *words, counters.iter().map(|counter| operator.time(counter)).sum())
        });
        Some(Self { operator, times: times.collect() })
    }

    fn work(&self) -> Duration {
        self.times.iter().map(|(_, _, time)| *time).sum()
    }

    fn predicate(&self) -> String {
        without_types(self.operator.predicate().unwrap_or_default())
    }

    /// Whether the driving predicate compares sets.
    fn is_of_sets(&self) -> bool {
        let predicate = self.operator.predicate().unwrap_or_default();
        let measures =
            functions::all().into_iter().filter(|udf| functions::measure_of(udf).is_some());
        measures.map(|udf| format!("{}(", udf.name())).any(|call| predicate.contains(&call))
    }

    fn count(&self, counter: &str) -> u64 {
        self.operator.count(counter)
    }

    fn has(&self, part: &str) -> bool {
        self.operator.description.contains(part)
    }

    /// The phase that took the greatest part.
    fn greatest(&self) -> (JoinPhase, &'static str, Duration) {
        let greatest = self.times.iter().max_by_key(|(_, _, time)| *time).copied();
        greatest.unwrap_or((JoinPhase::Filter, "finding candidates", Duration::ZERO))
    }
}

/// A line on what cost the time, and one for each thing that would help; `None` for a plan without a
/// similarity join.
pub fn of(plan: &[&Operator], took: Took, ran: Ran) -> Option<String> {
    let elapsed = took.running;
    let mut joins: Vec<TimedJoin<'_>> = plan.iter().copied().filter_map(TimedJoin::of).collect();
    joins.sort_by_key(|join| std::cmp::Reverse(join.work()));
    let costliest = joins.first()?;
    let in_joins: Duration = joins.iter().map(TimedJoin::work).sum();
    let others = plan.iter().copied().filter(|operator| operator.predicate().is_none());
    let others: Vec<(&Operator, Duration)> =
        others.map(|operator| (operator, work_of(operator))).collect();
    let work = in_joins + others.iter().map(|(_, time)| *time).sum::<Duration>();
    let mut lines =
        vec![format!("{} elapsed, {} of work {}", time(elapsed), time(work), ran.workers())];
    if work.is_zero() {
        return lines.pop();
    }
    // Several joins of a statement may run at the same time, as the tasks of a cluster do.
    if ran == Ran::Here && joins.len() == 1 {
        lines.extend(phases::of(costliest.operator, took));
    }
    for join in &joins {
        let (_, words, greatest) = join.greatest();
        let kernels = Duration::from_nanos(join.operator.count_of_all("device_kernel_time"));
        let kernels = match kernels.is_zero() {
            true => String::new(),
            false => format!("; the GPU computed for {}", time(kernels)),
        };
        lines.push(format!(
            "{} in {}, most of it ({}) {words}{kernels}",
            share(join.work(), work),
            join.predicate(),
            time(greatest)
        ));
    }
    if elapsed < SHORT {
        return Some(lines.join("\n"));
    }
    let advice = match others.iter().max_by_key(|(_, time)| *time) {
        Some((other, most)) if work - in_joins > in_joins => {
            let (rest, most) = (share(work - in_joins, work), time(*most));
            vec![format!(
                "{rest} is outside of the similarity joins, most of it ({most}) in {}",
                other.name()
            )]
        }
        _ => advice(costliest, elapsed),
    };
    let idle = elapsed.saturating_sub(work);
    if idle * 2 > elapsed {
        lines.push(format!(
            "for {} of the time no operator worked: {} were waited for",
            time(idle),
            ran.waited_for()
        ));
    }
    lines.extend(advice);
    Some(lines.join("\n"))
}

/// The work of an operator that is no similarity join. A reader of files has no `elapsed_compute`, nor
/// have the writers of a cluster.
fn work_of(operator: &Operator) -> Duration {
    let computing = operator.time("elapsed_compute");
    let writing = ["write_time", "repart_time", "spill_time"].map(|name| operator.time(name));
    computing.max(operator.time("time_elapsed_processing")).max(writing.iter().sum())
}

/// Changes that would make a join faster.
fn advice(join: &TimedJoin<'_>, elapsed: Duration) -> Vec<String> {
    let mut advice = vec![];
    advice.extend(of_disk(join));
    let opening = join.operator.time("device_open_time");
    if opening * 4 > elapsed {
        advice.push(format!(
            "the GPU was started in {}, which later statements of the session do not wait for",
            time(opening)
        ));
    }
    advice.extend(of_sides(join));
    advice.extend(match join.greatest().0 {
        JoinPhase::Encode => Some(of_encoding(join)),
        JoinPhase::Choose => Some(of_choice(join)),
        JoinPhase::Order | JoinPhase::Index | JoinPhase::Upload => None,
        JoinPhase::Filter => Some(of_candidates(join)),
        JoinPhase::Verify => Some(of_verification(join)),
        JoinPhase::Output => Some(of_output(join)),
    });
    advice
}

fn of_disk(join: &TimedJoin<'_>) -> Option<String> {
    let pieces = join.count("spill_passes");
    if pieces == 0 {
        return None;
    }
    let bytes = join.count("build_spilled_bytes") + join.count("probe_spilled_bytes");
    let stored = match join.count("probe_spilled_rows") {
        0 => join.count("build_spilled_rows"),
        rows => rows,
    };
    let times = match join.count("spill_probe_visits").checked_div(stored) {
        Some(times) if times > 1 => format!(", each row of which was read {times} times"),
        _ => String::new(),
    };
    Some(format!(
        "it went to disk: {} in {pieces} pieces{times}; more memory (--memory-limit) saves that",
        human_readable_size(bytes as usize)
    ))
}

/// Whether the larger side was built.
fn of_sides(join: &TimedJoin<'_>) -> Option<String> {
    let (build, probe) = (join.count("build_rows"), join.count("probe_rows"));
    let matters =
        [JoinPhase::Encode, JoinPhase::Order, JoinPhase::Index].contains(&join.greatest().0);
    let build_side = ["left", "right"].into_iter().find(|side| join.has(&format!("build={side}")));
    let (side, true) = (build_side?, matters && build > probe.saturating_mul(LARGER)) else {
        return None;
    };
    let other = if side == "left" { "right" } else { "left" };
    Some(format!(
        "the {side} side was indexed, which has {} rows, the other one {}: exchange them, or SET \
         simjoin.build_side = '{other}'",
        HumanCount(build),
        HumanCount(probe)
    ))
}

fn of_choice(join: &TimedJoin<'_>) -> String {
    let chosen = join.operator.description.split_once(", chosen=").map_or("", |(_, rest)| rest);
    let name: String = chosen.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
    match name.as_str() {
        "" => "SET simjoin.strategy saves the choice".to_string(),
        name => format!("SET simjoin.strategy = '{name}' saves the choice"),
    }
}

/// Tokenizers in a view below the join are not seen in its description.
fn of_encoding(join: &TimedJoin<'_>) -> String {
    let tokenizes = ["qgrams(", "word_tokens(", "shingles("].iter().any(|name| join.has(name));
    let stored = match tokenizes {
        true => ", or tokens stored in a Parquet file save encoding",
        false => {
            ", save encoding; so do tokens stored in a Parquet file, if they are made of texts here"
        }
    };
    format!("fewer rows, by conditions on each side{stored}")
}

/// A bound that leaves fewer pairs, and a key unless there is one.
fn stronger(join: &TimedJoin<'_>) -> String {
    let bound = match join.predicate().contains("distance(") {
        true => "a lesser distance",
        false => "a greater threshold",
    };
    match join.has(", on=[") {
        true => format!("{bound}, or a key with more values"),
        false => format!("{bound}, or a blocking key (AND a.year = b.year)"),
    }
}

fn of_candidates(join: &TimedJoin<'_>) -> String {
    let entries = join.count("postings").checked_div(join.count("probe_items").max(1));
    let entries = entries.unwrap_or(0);
    if entries > MANY_POSTINGS && join.is_of_sets() {
        return format!(
            "{} index entries were read for each set, because sets share frequent tokens: {}, longer \
             q-grams, or leaving out frequent words helps",
            HumanCount(entries),
            stronger(join)
        );
    }
    format!("{} leaves less to search", stronger(join))
}

fn of_verification(join: &TimedJoin<'_>) -> String {
    let (verified, matches) = (join.count("verified"), join.count("matches"));
    if matches * 2 >= verified {
        return format!(
            "most candidates are similar, {} of {}: {} makes the answer smaller",
            HumanCount(matches),
            HumanCount(verified),
            stronger(join)
        );
    }
    format!(
        "{} of {} candidates were similar: {} leaves fewer of them",
        HumanCount(matches),
        HumanCount(verified),
        stronger(join)
    )
}

fn of_output(join: &TimedJoin<'_>) -> String {
    let (residuals, rows) = (join.count("residual_rows"), join.count("output_rows"));
    if residuals > rows.max(1) * MANY_RESIDUALS {
        return format!(
            "filter= was evaluated for {} pairs of rows and left {}: an equality among its \
             conditions (a.k = b.k) would be a blocking key, a condition on one side would be \
             evaluated before",
            HumanCount(residuals),
            HumanCount(rows)
        );
    }
    format!(
        "the join gives {} rows: count(*), per row with GROUP BY, does without them; fewer columns \
         make them smaller; {} makes them fewer",
        HumanCount(rows),
        stronger(join)
    )
}

fn share(part: Duration, all: Duration) -> String {
    format!("{:.0}%", 100.0 * part.as_secs_f64() / all.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::tests::operator;

    const SELF: &str = "SetSimilarityJoinExec: jaccard(a.t, b.t) >= Float64(0.8), threshold=0.8, \
                        join_type=Inner, self-join, each pair once, yields=pairs";
    const TWO: &str = "SetSimilarityJoinExec: jaccard(qgrams(a.s,3), qgrams(b.s,3)) >= 0.8, \
                       threshold=0.8, join_type=Inner, two-sided, build=left, yields=pairs";
    const VECTORS: &str = "SetSimilarityJoinExec: array_distance(a.v, b.v) <= 0.5, threshold=0.5, \
                           join_type=Inner, self-join, yields=pairs, on=[(k@0, k@0)]";

    fn running(running: Duration) -> Took {
        Took { planning: Duration::ZERO, running }
    }

    fn summary(plan: &[Operator]) -> String {
        let plan: Vec<&Operator> = plan.iter().collect();
        of(&plan, running(Duration::from_millis(1500)), Ran::Here).unwrap()
    }

    /// Each rule of docs/explain.md, by the counters that bring it.
    #[test]
    fn counters_tell_what_would_help() {
        for (description, counts, times, expected) in [
            (
                SELF,
                &[("postings", 5_000), ("probe_items", 100)][..],
                &[("filter_time", 900), ("verify_time", 100)][..],
                "100% in jaccard(a.t, b.t) >= 0.8, most of it (900 ms) finding candidates\n\
                 a greater threshold, or a blocking key (AND a.year = b.year) leaves less to search",
            ),
            (
                SELF,
                &[("postings", 5_000_000), ("probe_items", 100)],
                &[("filter_time", 900)],
                "50,000 index entries were read for each set, because sets share frequent tokens",
            ),
            (
                VECTORS,
                &[("postings", 5_000_000), ("probe_items", 100), ("build_values", 7)],
                &[("filter_time", 900)],
                "a lesser distance, or a key with more values leaves less to search",
            ),
            (
                SELF,
                &[("verified", 1000), ("matches", 20)],
                &[("verify_time", 900)],
                "20 of 1,000 candidates were similar: a greater threshold",
            ),
            (
                SELF,
                &[("verified", 1000), ("matches", 900)],
                &[("verify_time", 900)],
                "most candidates are similar, 900 of 1,000",
            ),
            (
                SELF,
                &[("residual_rows", 1000), ("output_rows", 3)],
                &[("output_time", 900)],
                "filter= was evaluated for 1,000 pairs of rows and left 3",
            ),
            (
                SELF,
                &[("residual_rows", 1000), ("output_rows", 1000)],
                &[("output_time", 900)],
                "the join gives 1,000 rows: count(*)",
            ),
            (
                TWO,
                &[("build_rows", 9000), ("probe_rows", 100)],
                &[("index_time", 900)],
                "the left side was indexed, which has 9,000 rows, the other one 100: exchange them, \
                 or SET simjoin.build_side = 'right'",
            ),
            (
                TWO,
                &[],
                &[("build_encode_time", 900)],
                "fewer rows, by conditions on each side, or tokens stored in a Parquet file save encoding",
            ),
            (
                SELF,
                &[],
                &[("probe_encode_time", 900)],
                "fewer rows, by conditions on each side, save encoding; so do tokens stored",
            ),
            (
                SELF,
                &[
                    ("spill_passes", 4),
                    ("build_spilled_rows", 100),
                    ("build_spilled_bytes", 5 << 20),
                    ("spill_probe_visits", 350),
                ],
                &[("filter_time", 900)],
                "it went to disk: 5.0 MB in 4 pieces, each row of which was read 3 times; more \
                 memory (--memory-limit)",
            ),
            (
                SELF,
                &[],
                &[
                    ("filter_time", 800),
                    ("device_open_time", 400),
                    ("device_kernel_time_bits", 70),
                    ("device_kernel_time_lanes", 5),
                ],
                "finding candidates; the GPU computed for 75 ms\n\
                 the GPU was started in 400 ms",
            ),
            (
                "SetSimilarityJoinExec: dice(a.t, b.t) >= 0.8, threshold=0.8, chosen=ppjoin (estimated 2 \
                 ms), cpu",
                &[],
                &[("choice_time", 900)],
                "SET simjoin.strategy = 'ppjoin' saves the choice",
            ),
        ] {
            let told = summary(&[operator(description, counts, times)]);
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("no operator worked"), "{told}");
        }
        let join = operator(SELF, &[], &[("filter_time", 9)]);
        let short = of(&[&join], running(SHORT / 2), Ran::Here).unwrap();
        assert_eq!(short.lines().count(), 2, "{short}");
    }

    #[test]
    fn other_operators_and_several_joins_are_told() {
        let join = operator(SELF, &[], &[("filter_time", 100)]);
        let sort = operator("SortExec: expr=[x]", &[], &[("elapsed_compute", 700)]);
        let scan = operator("DataSourceExec: x", &[], &[("time_elapsed_processing", 200)]);
        let told = summary(&[sort, join, scan]);
        let expected = "1.50 s elapsed, 1.00 s of work on all threads\n\
                        10% in jaccard(a.t, b.t) >= 0.8, most of it (100 ms) finding candidates\n\
                        90% is outside of the similarity joins, most of it (700 ms) in SortExec";
        assert_eq!(told, expected);
        let joins = [
            operator(SELF, &[], &[("filter_time", 100)]),
            operator(VECTORS, &[], &[("verify_time", 300)]),
        ];
        let told = summary(&joins);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[1].starts_with("75% in array_distance"), "{told}");
        assert!(lines[2].starts_with("25% in jaccard"), "{told}");
        assert!(lines[3].starts_with("for 1.10 s of the time no operator worked"), "{told}");
        assert!(lines[4].contains("a lesser distance"), "{told}");
        assert_eq!(of(&[&operator("SortExec: x", &[], &[])], running(SHORT), Ran::Here), None);
    }

    #[test]
    fn the_tasks_of_a_cluster_are_told() {
        let join = operator(SELF, &[], &[("filter_time", 100)]);
        let writer = operator("ShuffleWriterExec: x", &[], &[("write_time", 200)]);
        let told = of(&[&writer, &join], running(Duration::from_secs(1)), Ran::OnCluster).unwrap();
        let expected = "1.00 s elapsed, 300 ms of work in all tasks\n\
                        33% in jaccard(a.t, b.t) >= 0.8, most of it (100 ms) finding candidates\n\
                        for 700 ms of the time no operator worked: the scheduler, the network, \
                        files or other statements were waited for\n\
                        67% is outside of the similarity joins, most of it (200 ms) in \
                        ShuffleWriterExec";
        assert_eq!(told, expected);
    }
}
