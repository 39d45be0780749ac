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

#[test]
fn tokens_are_weighed_by_one_window() {
    let [ours, theirs] = ["ours", "theirs"].map(|name| table().named(name.into()));
    let on = ["name".to_string()];
    let question = Question::parse(&on, Some("tfidf"), Some("words"), &[]).unwrap();
    let of_one = WeighedTables::of(&question, [&ours, &ours]).unwrap().unwrap();
    assert_eq!(
        of_one.statements,
        [
            "CREATE TABLE \"__simjoin_weighed_ours\" AS SELECT t.*, tfidf(word_tokens(t.\"name\")) OVER () AS \
          \"__simjoin_weights_0\" FROM \"ours\" t ORDER BY t.__simjoin_row"
        ]
    );
    let [left, right] = &of_one.tables;
    let verb =
        |question, tables| Verb { question, tables, id: None, show: Some(&[]), labels: None };
    assert_eq!(
        verb(&question, [left, right]).pairs().unwrap(),
        "SELECT a.__simjoin_row AS \"left\", b.__simjoin_row AS \"right\", \
         weighted_cosine(a.\"__simjoin_weights_0\", b.\"__simjoin_weights_0\") AS \"score\" \
         FROM \"__simjoin_weighed_ours\" a SIMJOIN \"__simjoin_weighed_ours\" b \
         ON weighted_cosine(a.\"__simjoin_weights_0\", b.\"__simjoin_weights_0\") >= 0.8 \
         AND a.__simjoin_row < b.__simjoin_row ORDER BY a.__simjoin_row, b.__simjoin_row"
    );
    let of_two = WeighedTables::of(&question, [&ours, &theirs]).unwrap().unwrap();
    assert_eq!(
        of_two.statements[0],
        "CREATE TABLE \"__simjoin_weights_of_ours\" AS SELECT side, row, tfidf(t0) OVER () AS w0 FROM (\
         SELECT 0 AS side, t.__simjoin_row AS row, word_tokens(t.\"name\") AS t0 FROM \"ours\" t UNION ALL \
         SELECT 1 AS side, t.__simjoin_row AS row, word_tokens(t.\"name\") AS t0 FROM \"theirs\" t)"
    );
    assert_eq!(of_two.statements.len(), 4, "{:?}", of_two.statements);
    let plain = question_of("jaccard");
    assert!(WeighedTables::of(&plain, [&ours, &theirs]).unwrap().is_none());
    // Two columns of one table have one scale, too.
    let crossed = Question::parse(&["name=\"last, first\"".to_string()], Some("tfidf"), None, &[]);
    let crossed = WeighedTables::of(&crossed.unwrap(), [&ours, &ours]).unwrap().unwrap();
    let made = &crossed.statements[1];
    assert!(
        made.contains("s0.w0 AS \"__simjoin_weights_0\", s1.w0 AS \"__simjoin_weights_0_right\""),
        "{made}"
    );
}

fn question_of(measure: &str) -> Question {
    Question::parse(&["name".to_string()], Some(measure), None, &[]).unwrap()
}

#[test]
fn weighted_measures_are_refused_in_words() {
    let table = table();
    let weigh = |question: &Question| WeighedTables::of(question, [&table, &table]);
    let of_vectors = Question::parse(&["v".to_string()], Some("tfidf"), None, &[]).unwrap();
    assert!(weigh(&of_vectors).unwrap_err().text.contains("has no measure \"tfidf\""));
    let mistyped = weigh(&question_of("tfidff")).unwrap_err();
    assert!(mistyped.hint.unwrap().starts_with("did you mean tfidf? "));
    let error = pairs(&question_of("weighted_overlap")).unwrap_err();
    assert!(error.hint.unwrap().contains("nearest"));
    let sum = question(&["name,weighted_overlap,1"], Some(0.5)).unwrap();
    assert_eq!(pairs(&sum).unwrap_err().hint.unwrap(), "weighted_cosine has the same values");
}
