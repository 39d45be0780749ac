//! Conditions of a join, in both texts.

use rand::Rng;

use super::joins::{Aliased, Generator, PARAMETER};

/// Something in the text for the operator and in the one for nested loops.
#[derive(Debug, Clone)]
pub struct Text {
    pub ours: String,
    pub oracle: String,
}

impl Text {
    pub fn same(text: impl Into<String>) -> Self {
        let ours = text.into();
        Self { oracle: ours.clone(), ours }
    }

    pub fn map(&self, write: impl Fn(&str) -> String) -> Self {
        Self { ours: write(&self.ours), oracle: write(&self.oracle) }
    }
}

/// `left = right`, for the nested loop without an equality that a hash join could use.
fn equal(left: Text, right: Text) -> Text {
    let (l, r) = (&left.oracle, &right.oracle);
    Text {
        ours: format!("{} = {}", left.ours, right.ours),
        oracle: format!("({l} <= {r} AND {l} >= {r})"),
    }
}

fn not_distinct(left: Text, right: Text) -> Text {
    let (l, r) = (&left.oracle, &right.oracle);
    Text {
        ours: format!("({} IS NOT DISTINCT FROM {})", left.ours, right.ours),
        oracle: format!("(({l} <= {r} AND {l} >= {r}) OR ({l} IS NULL AND {r} IS NULL))"),
    }
}

/// A condition over both sides that is no similarity.
pub fn of_both(generator: &mut Generator<'_>, left: &mut Aliased, right: &mut Aliased) -> Text {
    let (a, b) = (left.alias.clone(), right.alias.clone());
    let column = |alias: &str, name: &str| Text::same(format!("{alias}.{name}"));
    let columns = |name: &str| [column(&a, name), column(&b, name)];
    // Neighbours read the same columns in another way: they are what a twisted copy differs by.
    match generator.pick(23) {
        0 => {
            let [l, r] = columns("k");
            equal(l, r)
        }
        1 => {
            let [l, r] = columns("f");
            equal(l, r)
        }
        2 => {
            let [l, r] = columns("flag");
            equal(l, r)
        }
        3 => Text::same(format!("{a}.flag AND {b}.flag")),
        4 => equal(left.expr(Text::same(format!("{a}.w + 1"))), column(&b, "w")),
        22 => equal(
            left.expr(Text::same(format!("upper({a}.k)"))),
            right.expr(Text::same(format!("upper({b}.k)"))),
        ),
        5 => {
            let [l, r] = columns("k");
            not_distinct(l, r)
        }
        6 => {
            let [l, r] = columns("w");
            not_distinct(l, r)
        }
        // Volatile, though its value is not.
        7 => Text {
            ours: format!("{a}.w + floor(random()) = {b}.w + floor(random())"),
            oracle: format!("({a}.w <= {b}.w AND {a}.w >= {b}.w)"),
        },
        8 => Text {
            ours: format!("{a}.id + floor(random() * 1e12) = {b}.id + floor(random() * 1e12)"),
            oracle: "false".to_string(),
        },
        n @ 9..14 => {
            let operator = ["<", "<=", ">", ">=", "<>"][n - 9];
            let name = ["id", "w", "f", "k"][generator.pick(4)];
            Text::same(format!("{a}.{name} {operator} {b}.{name}"))
        }
        14 => Text::same(format!("{b}.id > {a}.id")),
        15 => Text::same(format!("{a}.id < {b}.w")),
        16 => Text::same(format!("{a}.w + {b}.w > 4")),
        17 => Text::same(format!("{a}.k || {b}.k LIKE '%xy%'")),
        18 => Text::same(format!("({a}.flag OR {b}.w > 2)")),
        19 => Text::same(format!("CASE WHEN {a}.flag THEN {b}.id > 1 ELSE {a}.id <> {b}.id END")),
        20 => Text {
            ours: format!("random() >= 0 AND {a}.id <> {b}.id"),
            oracle: format!("{a}.id <> {b}.id"),
        },
        _ => Text::same(format!("{a}.id <> {b}.id AND {a}.w <= {b}.w")),
    }
}

/// A condition over one side.
pub fn of_one(generator: &mut Generator<'_>, side: &mut Aliased) -> Text {
    let s = side.alias.clone();
    match generator.pick(10) {
        0 => Text::same(format!("{s}.flag")),
        1 => Text::same(format!("NOT {s}.flag")),
        2 => Text::same(format!("{s}.w > 2")),
        3 => Text::same(format!("{s}.k IS NOT NULL")),
        4 => Text::same(format!("{s}.f < 1.6")),
        5 => Text::same(format!("array_length({s}.toks) > 1")),
        6 => Text::same(format!("{s}.id % 2 = 0")),
        7 => Text::same(format!("({s}.w IS NULL OR {s}.w <> 3)")),
        8 if generator.has_lambdas() => {
            let filtered = generator.filtered(&format!("{s}.toks"), "t");
            let length = side.expr(filtered.map(|text| format!("array_length({text})")));
            length.map(|text| format!("{text} >= 1"))
        }
        _ => Text::same(format!("{s}.k LIKE 'x%'")),
    }
}

/// The argument of a measure on one side: a list column, or something made of one.
pub fn argument(generator: &mut Generator<'_>, side: &mut Aliased, choice: usize) -> Text {
    let s = side.alias.clone();
    match choice {
        0..5 => Text::same(format!("{s}.toks")),
        5..7 => Text::same(format!("{s}.odd")),
        7 if generator.has_lambdas() => side.expr(generator.filtered(&format!("{s}.toks"), "e")),
        // A parameter with the name of a column, and one beside a column that the lambda reads.
        8 if generator.has_lambdas() => side.expr(generator.filtered(&format!("{s}.toks"), "w")),
        9 if generator.has_lambdas() && generator.has_integers() => {
            let other = |name: &str| format!("array_filter({s}.toks, {name} -> {name} <> {s}.w)");
            side.expr(Text { ours: other("id"), oracle: other(PARAMETER) })
        }
        9 | 10 => side.expr(Text::same(format!("array_distinct({s}.toks)"))),
        _ => side.expr(Text::same(format!("coalesce({s}.toks, {s}.toks)"))),
    }
}

/// A similarity that bounds from below.
pub fn similarity(
    generator: &mut Generator<'_>,
    measure: &str,
    first: &Text,
    second: &Text,
) -> Text {
    let is_integer = measure == "overlap";
    let thresholds: &[&str] = match is_integer {
        true => &["1", "2", "3", "1.5"],
        false => &["0.25", "0.3333333333333333", "0.5", "0.6", "0.6666666666666666", "0.75", "1.0"],
    };
    let threshold = thresholds[generator.pick(thresholds.len())];
    let form = generator.pick(9);
    let condition = |call: String| match form {
        0 => format!("{call} > {threshold} - 0.1"),
        1 => format!("{threshold} <= {call}"),
        2 => format!("{call} = {threshold}"),
        3 => format!("{call} BETWEEN {threshold} AND {threshold} + 0.3"),
        4 => format!("{call} >= CAST({threshold} AS DECIMAL(16, 15))"),
        5 => format!("CAST({call} AS REAL) >= CAST({threshold} AS REAL)"),
        6 => format!("NOT ({threshold} > {call})"),
        _ => format!("{call} >= {threshold}"),
    };
    Text {
        ours: condition(format!("{measure}({}, {})", first.ours, second.ours)),
        oracle: condition(format!("{measure}({}, {})", first.oracle, second.oracle)),
    }
}

/// A further condition on a similarity, which cannot drive the join.
pub fn further_similarity(
    generator: &mut Generator<'_>,
    measure: &str,
    first: &Text,
    second: &Text,
) -> Text {
    let upper = generator.rng.random_bool(0.5);
    let condition = |first: &str, second: &str| match (upper, measure) {
        (true, "overlap") => format!("overlap({first}, {second}) <= 2"),
        (true, _) => format!("{measure}({first}, {second}) < 0.9"),
        (false, "overlap") => format!("overlap({first}, {second}) % 2 = 1"),
        (false, _) => format!("{measure}({first}, {second}) >= 0.3"),
    };
    Text {
        ours: condition(&first.ours, &second.ours),
        oracle: condition(&first.oracle, &second.oracle),
    }
}
