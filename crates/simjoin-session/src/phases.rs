//! Where the time of a statement went: its phases, one after the other.

use std::time::Duration;

use super::operator::Operator;

/// The time that a statement took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// To make its plan.
    pub planning: Duration,
    /// To run the plan.
    pub running: Duration,
}

/// The phases of a join in memory and the counters that are the time of each.
const IN_MEMORY: &[(&str, &[&str])] = &[
    ("reading and encoding", &["read_elapsed"]),
    ("ordering", &["order_time"]),
    ("choosing", &["choice_time"]),
    ("starting the GPU", &["device_open_time", "device_upload_time"]),
    ("indexing", &["index_time"]),
    ("probing", &["probe_elapsed"]),
];

/// The phases of a join from disk, whose pieces are ordered and indexed while it is under way.
const FROM_DISK: &[(&str, &[&str])] =
    &[("reading and storing", &["read_elapsed"]), ("joining", &["probe_elapsed"])];

/// The phases of a statement whose only similarity join is `join`, in the order in which they follow
/// each other; `None` where the join has not run.
pub fn of(join: &Operator, took: Took) -> Option<String> {
    let phases = match join.count("spill_passes") {
        0 => IN_MEMORY,
        _ => FROM_DISK,
    };
    let of_join = phases.iter().map(|(name, counters)| {
        (*name, counters.iter().map(|counter| join.time(counter)).sum::<Duration>())
    });
    let of_join: Vec<(&str, Duration)> = of_join.collect();
    let known: Duration = of_join.iter().map(|(_, time)| *time).sum();
    if known.is_zero() {
        return None;
    }
    let rest = took.running.saturating_sub(known);
    let all = [("planning", took.planning)].into_iter().chain(of_join);
    let all = all.chain([("other operators", rest)]).filter(|(_, took)| !took.is_zero());
    let shown: Vec<String> = all.map(|(name, took)| format!("{name} {}", time(took))).collect();
    Some(shown.join(", "))
}

/// A time with two or three digits.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        100.0.. => format!("{seconds:.0} s"),
        10.0.. => format!("{seconds:.1} s"),
        1.0.. => format!("{seconds:.2} s"),
        0.001.. => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::tests::operator;

    const JOIN: &str = "SetSimilarityJoinExec: jaccard(a.t, b.t) >= 0.8, threshold=0.8";

    fn took(planning: u64, running: u64) -> Took {
        let [planning, running] = [planning, running].map(Duration::from_millis);
        Took { planning, running }
    }

    #[test]
    fn phases_and_the_rest_are_the_whole_time() {
        let times = [
            ("read_elapsed", 50),
            ("build_encode_time", 90),
            ("order_time", 20),
            ("choice_time", 1),
            ("index_time", 5),
            ("probe_elapsed", 22),
            ("filter_time", 40),
        ];
        let told = of(&operator(JOIN, &[], &times), took(3, 100)).unwrap();
        let expected = "planning 3 ms, reading and encoding 50 ms, ordering 20 ms, choosing 1 ms, \
                        indexing 5 ms, probing 22 ms, other operators 2 ms";
        assert_eq!(told, expected);
        let device = [("probe_elapsed", 60), ("device_open_time", 30), ("device_upload_time", 10)];
        let told = of(&operator(JOIN, &[], &device), took(0, 100)).unwrap();
        assert_eq!(told, "starting the GPU 40 ms, probing 60 ms");
    }

    #[test]
    fn pieces_from_disk_are_indexed_while_they_are_joined() {
        let times = [("read_elapsed", 50), ("index_time", 30), ("probe_elapsed", 45)];
        let told = of(&operator(JOIN, &[("spill_passes", 4)], &times), took(1, 95)).unwrap();
        assert_eq!(told, "planning 1 ms, reading and storing 50 ms, joining 45 ms");
        assert_eq!(of(&operator(JOIN, &[], &[]), took(1, 95)), None);
    }
}
