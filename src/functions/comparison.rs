//! The query of the table function `compare`: two values by every measure that they have.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, internal_err, plan_err};

use super::tokenizer::Tokenizer;
use crate::values::list_element_type;

/// The query of `compare`: the first two columns by each measure that they have, what both share, and what differs.
pub(crate) fn comparison_query(schema: &Schema, tokenizer: Option<&str>) -> Result<String> {
    let [left, right, others @ ..] = schema.fields().as_ref() else {
        return plan_err!(
            "compare reads pairs of values, the first two columns of a query; the query has {}",
            schema.fields().len()
        );
    };
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut names = vec!["\"left\"".to_string(), "\"right\"".to_string()];
    for (place, other) in others.iter().enumerate() {
        let is_own = [&SET_MEASURES[..], &TEXT_MEASURES, &VECTOR_MEASURES, &OTHERS]
            .iter()
            .any(|own| own.contains(&other.name().as_str()));
        let is_known = is_own || names.contains(&quoted(other.name()));
        names.push(if is_known { format!("column_{}", place + 3) } else { quoted(other.name()) });
    }
    let mut answers = names.clone();
    let tokenizer = tokenizer.unwrap_or("qgrams:3");
    let measure =
        |(function, [a, b]): (&str, [&str; 2])| format!("{function}({a}, {b}) AS {function}");
    let sets = |sides: [&str; 2]| {
        let list = |list: String, name: &str| format!("array_sort({list}) AS {name}");
        let [a, b] = sides;
        let shares = [
            list(format!("array_intersect({a}, {b})"), "shared"),
            list(format!("array_except({a}, {b})"), "left_only"),
            list(format!("array_except({b}, {a})"), "right_only"),
        ];
        let measures = SET_MEASURES.map(|function| measure((function, sides)));
        measures.into_iter().chain(shares).collect::<Vec<_>>()
    };
    let values = ["\"left\"", "\"right\""];
    match [left, right].map(|side| ComparedValues::of(side.data_type())) {
        [ComparedValues::Text, ComparedValues::Text] => {
            let Some(tokens) =
                values.map(|value| Tokenizer::expression(tokenizer, value)).into_iter().collect()
            else {
                return plan_err!(
                    "compare knows no tokenizer '{tokenizer}'; write 'qgrams:3', 'words' or 'shingles:2', with any length"
                );
            };
            let tokens: Vec<String> = tokens;
            let [a, b] = tokens.as_slice() else { return internal_err!("two sides have tokens") };
            answers.extend(TEXT_MEASURES.map(|function| measure((function, values))));
            answers.extend(sets([a, b]));
            answers.push("edit_script(\"left\", \"right\") AS edit_script".to_string());
        }
        [ComparedValues::Set, ComparedValues::Set] => answers.extend(sets(values)),
        [ComparedValues::Vector, ComparedValues::Vector | ComparedValues::Set]
        | [ComparedValues::Set, ComparedValues::Vector] => {
            answers.extend(VECTOR_MEASURES.map(|function| measure((function, values))));
        }
        _ => {
            return plan_err!(
                "compare takes two texts, two sets (lists) or two vectors (lists of floats), found {} and {}",
                left.data_type(),
                right.data_type()
            );
        }
    }
    Ok(format!(
        "WITH __simjoin_p({}) AS (SELECT 1) SELECT {} FROM __simjoin_p",
        names.join(", "),
        answers.join(", ")
    ))
}

const OTHERS: [&str; 4] = ["shared", "left_only", "right_only", "edit_script"];
const SET_MEASURES: [&str; 6] =
    ["jaccard", "dice", "set_cosine", "overlap_coefficient", "containment", "overlap"];
const TEXT_MEASURES: [&str; 6] = [
    "levenshtein",
    "damerau_levenshtein",
    "levenshtein_similarity",
    "indel_similarity",
    "jaro_similarity",
    "jaro_winkler_similarity",
];
const VECTOR_MEASURES: [&str; 4] =
    ["array_distance", "cosine_similarity", "cosine_distance", "inner_product"];

/// The values of a column, as they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedValues {
    Text,
    Set,
    Vector,
    Other,
}

impl ComparedValues {
    fn of(data_type: &DataType) -> Self {
        let is_text = |data_type: &DataType| match data_type {
            DataType::Dictionary(_, values) => values.is_string(),
            other => other.is_string(),
        };
        match (is_text(data_type), list_element_type(data_type)) {
            (true, _) => Self::Text,
            (false, Some(element)) if element.is_floating() => Self::Vector,
            (false, Some(_)) => Self::Set,
            (false, None) => Self::Other,
        }
    }
}
