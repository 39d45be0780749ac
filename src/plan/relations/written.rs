//! Table functions that stand for queries over others: `thresholds`, `evaluate`. The query of `compare`, which names measures, is
//! one of [`functions`](crate::functions).

use datafusion::common::{Result, internal_err, plan_err};
use datafusion::sql::sqlparser::ast::Query;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::ScoreOrder;
use super::function::suffix_of;

/// The greatest number: NaN, which compares as greater, is beyond.
const GREATEST: &str = "CAST('Infinity' AS DOUBLE)";

/// A query whose first common table expressions are the given ones. Its names are those of no query inside of these: a
/// query inside calls fewer functions.
pub(super) fn query(text: &str, inputs: Vec<Query>) -> Result<Box<Query>> {
    let calls = |query: &Query| query.to_string().matches('(').count();
    let calls: usize = inputs.iter().map(calls).sum();
    let text = text.replace("__simjoin_", &format!("__simjoin_{calls}_"));
    let mut parsed = Parser::new(&GenericDialect {}).try_with_sql(&text)?.parse_query()?;
    let Some(with) = &mut parsed.with else { return internal_err!("{text} has no inputs") };
    for (cte, input) in with.cte_tables.iter_mut().zip(inputs) {
        *cte.query = input;
    }
    Ok(parsed)
}

/// A number as SQL has it.
fn literal(number: f64) -> String {
    match number.is_infinite() {
        true if number > 0.0 => GREATEST.to_string(),
        true => "CAST('-Infinity' AS DOUBLE)".to_string(),
        false => format!("{number:?}"),
    }
}

fn comparison(order: ScoreOrder) -> &'static str {
    match order {
        ScoreOrder::Similarity => ">=",
        ScoreOrder::Distance => "<=",
    }
}

/// The rows of `VALUES` that number thresholds.
fn numbered(thresholds: &[f64]) -> String {
    let rows = thresholds.iter().enumerate();
    let rows = rows
        .map(|(level, threshold)| format!("({level}, CAST({} AS DOUBLE))", literal(*threshold)));
    rows.collect::<Vec<_>>().join(", ")
}

/// The query of `thresholds`: for each threshold the pairs within it, those that only this step adds, the groups, and the
/// weakest of the added pairs. The pairs have two nodes, a score and perhaps a text that shows them; they are read
/// twice. `thresholds` begin with the strictest one.
pub(super) fn thresholds(columns: usize, thresholds: &[f64], order: ScoreOrder) -> Result<String> {
    let (names, example) = match columns {
        3 => ("l, r, score", "concat(l, ' ~ ', r)"),
        4 => ("l, r, score, example", "CAST(example AS VARCHAR)"),
        other => {
            return plan_err!(
                "thresholds reads three columns, the nodes of a pair and its score, and perhaps a fourth one, a text that \
                 shows the pair; the query has {other}"
            );
        }
    };
    let within = comparison(order);
    let levels: String = thresholds
        .iter()
        .enumerate()
        .map(|(level, threshold)| {
            format!(" WHEN score {within} {} THEN {level}", literal(*threshold))
        })
        .collect();
    let list: Vec<String> = thresholds.iter().map(|threshold| literal(*threshold)).collect();
    let (by, weakest) = match order {
        ScoreOrder::Similarity => ("", ""),
        ScoreOrder::Distance => (", 'distance'", " DESC"),
    };
    let (mut counts, mut picks) = (vec![], [String::new(), String::new(), String::new()]);
    for (level, threshold) in thresholds.iter().enumerate() {
        let suffix = suffix_of(threshold);
        let is_grouped = format!("size{suffix} > 1");
        counts.push(format!(
            "count(*) FILTER (WHERE {is_grouped}) AS rows_{level}, count(DISTINCT component{suffix}) FILTER (WHERE \
             {is_grouped}) AS groups_{level}, coalesce(max(size{suffix}), 0) AS largest_{level}"
        ));
        for (pick, name) in picks.iter_mut().zip(["rows", "groups", "largest"]) {
            pick.push_str(&format!(" WHEN {level} THEN g.{name}_{level}"));
        }
    }
    let [rows, groups, largest] = picks;
    Ok(format!(
        "WITH __simjoin_p({names}) AS (SELECT 1), \
         __simjoin_o AS (SELECT level, example, row_number() OVER (PARTITION BY level ORDER BY score{weakest}, l, r) AS \
         place FROM (SELECT l, r, score, example, CASE{levels} END AS level FROM (SELECT l, r, CAST(score AS DOUBLE) AS score, \
         {example} AS example FROM __simjoin_p WHERE l <> r) WHERE score <= {GREATEST}) WHERE level IS NOT NULL), \
         __simjoin_c AS (SELECT level, count(*) AS added, string_agg(CASE WHEN place <= 3 THEN example END, '; ' ORDER BY \
         place) AS examples FROM __simjoin_o GROUP BY level), \
         __simjoin_g AS (SELECT {} FROM connected_components((SELECT l, r, CAST(score AS DOUBLE) FROM __simjoin_p), [{}]{by})), \
         __simjoin_s(level, threshold) AS (VALUES {}) \
         SELECT s.threshold, CAST(coalesce(sum(c.added) OVER (ORDER BY s.level), 0) AS BIGINT) AS pairs, \
         coalesce(c.added, 0) AS added, CASE s.level{rows} END AS rows_in_groups, CASE s.level{groups} END AS groups, \
         CASE s.level{largest} END AS largest_group, c.examples FROM __simjoin_s s LEFT JOIN __simjoin_c c ON \
         c.level = s.level CROSS JOIN __simjoin_g g",
        counts.join(", "),
        list.join(", "),
        numbered(thresholds)
    ))
}

/// The condition of SQL that a pair is marked so in a column.
pub fn label_is(column: &str, label: &str) -> String {
    format!("lower(trim(CAST({column} AS VARCHAR))) = '{label}'")
}

/// The query of `evaluate`: links held against true pairs, at each threshold where there are some. Of true pairs with a
/// column `label`, at the place `label`, those marked yes are true, and links that are not marked are not judged.
pub(super) fn evaluate(
    columns: [usize; 2],
    label: Option<usize>,
    thresholds: &[f64],
    order: ScoreOrder,
) -> Result<String> {
    let [of_links, of_truth] = columns;
    let has_scores = !thresholds.is_empty();
    if of_truth < 2 || of_links < if has_scores { 3 } else { 2 } {
        return plan_err!(
            "evaluate reads links and true pairs, the first two columns of which tell the rows{}; the queries have \
             {of_links} and {of_truth} columns",
            if has_scores { ", and the third one of the links is the score" } else { "" }
        );
    }
    let names = |columns: usize, label: Option<usize>| {
        let others = (2..columns).map(|column| match label == Some(column) {
            true => ", label".to_string(),
            false => format!(", c{column}"),
        });
        format!("l, r{}", others.collect::<String>())
    };
    let label = label.filter(|place| *place > 1);
    let (is_true, known, join) = match label {
        Some(_) => {
            let [yes, no] = ["yes", "no"].map(|mark| label_is("label", mark));
            (yes.clone(), format!(" AND ({yes} OR {no})"), "JOIN")
        }
        None => ("true".to_string(), String::new(), "LEFT JOIN"),
    };
    let scored = format!("CASE WHEN CAST(c2 AS DOUBLE) <= {GREATEST} THEN CAST(c2 AS DOUBLE) END");
    let (score, best) = match (has_scores, order) {
        (false, _) => ("CAST(NULL AS DOUBLE)", "max"),
        (true, ScoreOrder::Similarity) => (scored.as_str(), "max"),
        (true, ScoreOrder::Distance) => (scored.as_str(), "min"),
    };
    let (counted, threshold) = match has_scores {
        false => (
            "SELECT count(*) AS links, count(*) FILTER (WHERE is_true) AS found FROM __simjoin_j"
                .to_string(),
            "",
        ),
        true => (
            format!(
                "SELECT s.threshold, count(j.is_true) AS links, count(*) FILTER (WHERE j.is_true) AS found FROM (VALUES {}) \
                 s(level, threshold) LEFT JOIN __simjoin_j j ON j.score {} s.threshold \
                 GROUP BY s.threshold",
                numbered(thresholds),
                comparison(order)
            ),
            "k.threshold, ",
        ),
    };
    let share = |part: &str, whole: &str| {
        format!("CASE WHEN {whole} > 0 THEN {part} / CAST({whole} AS DOUBLE) END")
    };
    Ok(format!(
        "WITH __simjoin_l({}) AS (SELECT 1), __simjoin_u({}) AS (SELECT 1), \
         __simjoin_k AS (SELECT l, r, {best}({score}) AS score FROM __simjoin_l WHERE l IS NOT NULL AND r IS NOT NULL \
         GROUP BY l, r), __simjoin_n AS (SELECT l, r, bool_and({is_true}) AS is_true FROM __simjoin_u WHERE l IS NOT NULL AND \
         r IS NOT NULL{known} GROUP BY l, r), __simjoin_t AS (SELECT l, r FROM __simjoin_n WHERE is_true), \
         __simjoin_j AS (SELECT k.score, coalesce(n.is_true, false) AS is_true FROM __simjoin_k k {join} __simjoin_n n ON \
         n.l = k.l AND n.r = k.r) \
         SELECT {threshold}k.links, k.found AS true_links, t.pairs AS true_pairs, {} AS precision, {} AS recall, {} AS f1 \
         FROM ({counted}) k CROSS JOIN (SELECT count(*) AS pairs FROM __simjoin_t) t",
        names(of_links, None),
        names(of_truth, label),
        share("k.found", "k.links"),
        share("k.found", "t.pairs"),
        share("2.0 * k.found", "(k.links + t.pairs)"),
    ))
}
