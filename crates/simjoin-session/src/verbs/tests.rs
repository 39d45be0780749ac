//! Tests of the words of a verb.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};

use super::*;

fn table() -> VerbTable {
    let vector = DataType::List(Arc::new(Field::new("item", DataType::Float32, true)));
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8View, true),
        Field::new("last, first", DataType::Utf8, true),
        Field::new("v", vector, true),
        Field::new("year", DataType::Int64, true),
        Field::new(ROW, DataType::Int64, false),
    ]);
    VerbTable::new("t", &schema)
}

fn question(on: &[&str], at_least: Option<f64>) -> Result<Question> {
    let on: Vec<String> = on.iter().map(|text| text.to_string()).collect();
    Ok(Question { at_least, ..Question::parse(&on, None, None, &[])? })
}

fn pairs(question: &Question) -> Result<String> {
    let table = table();
    Verb { question, tables: [&table, &table], id: None, show: Some(&[]), labels: None }.pairs()
}

#[test]
fn columns_are_read_with_their_weights() {
    let read = |text: &str| ComparedColumn::parse(text).unwrap();
    let plain = |left: &str, right: &str| ComparedColumn {
        left: left.to_string(),
        right: right.to_string(),
        measure: None,
        tokenizer: None,
        weight: None,
    };
    assert_eq!(read("name"), plain("name", "name"));
    assert_eq!(read(" name = label "), plain("name", "label"));
    assert_eq!(read("\"last, first\"=\"a=b\""), plain("last, first", "a=b"));
    let weighted = ComparedColumn { weight: Some(0.5), ..plain("name", "name") };
    assert_eq!(read("name,0.5"), weighted);
    let by_measure = ComparedColumn { measure: Some("dice".to_string()), ..weighted };
    assert_eq!(read("name,dice,0.5"), by_measure);
    let by_tokens = ComparedColumn { tokenizer: Some("words".to_string()), ..by_measure };
    assert_eq!(read("name,dice,0.5,words"), by_tokens);
    for wrong in
        ["", "name=", "name,", "name,inf", "name,-1", "a=b=c", "name,dice,1,words,x", "\"name"]
    {
        assert!(ComparedColumn::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn names_and_numbers_are_those_of_sql() {
    let sql = pairs(&question(&["\"last, first\""], Some(0.1 + 0.2)).unwrap()).unwrap();
    assert_eq!(
        sql,
        "SELECT a.__simjoin_row AS \"left\", b.__simjoin_row AS \"right\", \
         jaccard(qgrams(a.\"last, first\", 3), qgrams(b.\"last, first\", 3)) AS \"score\" FROM \"t\" a \
         SIMJOIN \"t\" b ON jaccard(qgrams(a.\"last, first\", 3), qgrams(b.\"last, first\", 3)) >= \
         0.30000000000000004 AND a.__simjoin_row < b.__simjoin_row ORDER BY a.__simjoin_row, b.__simjoin_row"
    );
    let sum = question(&["name,1", "year,equal,1"], Some(2.0)).unwrap();
    assert!(pairs(&sum).unwrap().contains(
        "1.0 * coalesce(jaccard(qgrams(a.\"name\", 3), qgrams(b.\"name\", 3)), 0.0) + \
         CASE WHEN a.\"year\" = b.\"year\" THEN 1.0 ELSE 0.0 END >= 2"
    ));
    // The weights are added as SQL adds them.
    let rounded =
        question(&["name,0.6", "year,equal,0.3", "\"last, first\",0.1"], Some(1.0)).unwrap();
    assert!(pairs(&rounded).unwrap_err().hint.unwrap().contains("0.9999999999999999"));
}

#[test]
fn vectors_have_distances_and_similarities() {
    let by = |measure: &str, at_least, at_most| {
        let on = ["v".to_string()];
        let question = Question::parse(&on, Some(measure), None, &[]).unwrap();
        pairs(&Question { at_least, at_most, ..question })
    };
    assert!(
        by("euclidean", None, Some(2.0)).unwrap().contains("array_distance(a.\"v\", b.\"v\") <= 2")
    );
    assert!(
        by("cosine", Some(0.9), None)
            .unwrap()
            .contains("cosine_similarity(a.\"v\", b.\"v\") >= 0.9")
    );
    assert!(by("euclidean", Some(0.9), None).unwrap_err().text.contains("give --at-most"));
    assert!(by("jaccard", Some(0.9), None).unwrap_err().hint.unwrap().contains("euclidean"));
}

#[test]
fn a_threshold_is_suggested_where_groups_or_pairs_grow() {
    let steps = |all: &[(f64, i64, i64)]| -> Vec<AtThreshold> {
        let step = |(threshold, added, largest): &(f64, i64, i64)| AtThreshold {
            threshold: *threshold,
            added: *added,
            largest: *largest,
        };
        all.iter().map(step).collect()
    };
    let chain = steps(&[(1.0, 9, 2), (0.9, 90, 4), (0.8, 80, 9), (0.7, 70, 30)]);
    let (threshold, why) = suggestion(&chain).unwrap();
    assert!(threshold == 0.8 && why.contains("one group of 30 rows"), "{why}");
    let flood = steps(&[(1.0, 9, 2), (0.9, 12, 3), (0.8, 80, 4)]);
    let (threshold, why) = suggestion(&flood).unwrap();
    assert!(threshold == 0.9 && why.contains("adds 80 pairs"), "{why}");
    assert_eq!(suggestion(&steps(&[(1.0, 9, 2), (0.9, 12, 3), (0.8, 9, 4)])), None);
    assert_eq!(suggestion(&[]), None);
}
