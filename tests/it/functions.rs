//! The scalar functions in SQL: types, layouts, NULLs, scalars beside columns, documentation.

use arrow::datatypes::DataType;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::cases::{Pattern, Tables};
use crate::lists::{BINARIES, INTEGERS, Layout, TEXTS, dictionary};
use crate::oracle::{Cell, Measure, Row, ints, line, similarity};
use crate::support::{
    Session, assert_contains, assert_same_rows, batch_of, error, register_partitions, rows, split,
};

const NAMES: [&str; 28] = [
    "jaccard",
    "array_jaccard",
    "list_jaccard",
    "jaccard_similarity",
    "jaccard_index",
    "dice",
    "sorensen_dice",
    "set_cosine",
    "overlap",
    "intersection_size",
    "overlap_coefficient",
    "containment",
    "qgrams",
    "word_tokens",
    "shingles",
    "normalize",
    "unaccent",
    "casefold",
    "weighted_jaccard",
    "weighted_dice",
    "weighted_cosine",
    "weighted_containment",
    "weighted_overlap",
    "token_counts",
    "weigh",
    "tfidf",
    "idf",
    "bm25_weights",
];

#[tokio::test]
async fn every_function_and_alias_is_listed() {
    let ctx = Session::default().context();
    for name in NAMES {
        let sql = format!(
            "SELECT routine_name FROM information_schema.routines WHERE routine_name = '{name}'"
        );
        assert!(!rows(&ctx, &sql).await.is_empty(), "{name} is no routine");
    }
    let described = [0, 11, 12, 13, 14, 15, 16];
    for name in described.map(|at| NAMES[at]).into_iter().chain(NAMES[18..].iter().copied()) {
        let shown = rows(&ctx, &format!("SHOW FUNCTIONS LIKE '{name}'")).await;
        assert!(!shown.is_empty(), "SHOW FUNCTIONS is silent about {name}");
        let sql = format!(
            "SELECT description, syntax_example FROM information_schema.routines \
             WHERE routine_name = '{name}'"
        );
        let described = rows(&ctx, &sql).await;
        assert!(described.iter().all(|d| d.contains(&format!("{name}("))), "{described:?}");
    }
}

#[tokio::test]
async fn aliases_are_the_same_function() {
    let ctx = Session::default().context();
    for (name, aliases) in
        [("jaccard", &NAMES[1..5]), ("dice", &NAMES[6..7]), ("overlap", &NAMES[9..10])]
    {
        for alias in aliases {
            let sql = format!("SELECT {name}([1, 2, 3], [2, 3]) = {alias}([1, 2, 3], [2, 3])");
            assert_eq!(rows(&ctx, &sql).await, ["true"], "{alias}");
        }
    }
}

#[tokio::test]
async fn types_are_as_documented() {
    let ctx = Session::default().context();
    for measure in Measure::ALL {
        let expected = if measure == Measure::Overlap { "Int64" } else { "Float64" };
        let sql = format!("SELECT arrow_typeof({}([1], [1]))", measure.sql());
        assert_eq!(rows(&ctx, &sql).await, [format!("{expected:?}")]);
    }
    for call in ["qgrams('abc', 2)", "word_tokens('a b')", "shingles(['a', 'b'], 2)"] {
        let shown = rows(&ctx, &format!("SELECT arrow_typeof({call})")).await;
        assert!(shown[0].contains("List") && shown[0].contains("Utf8"), "{call}: {shown:?}");
    }
}

/// A column of one type and layout against one of another.
async fn check(left: &DataType, right: &DataType, layouts: [Layout; 2], seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut tables = Tables::new(&mut rng, 40);
    let a = tables.rows(12, Pattern::Mixed, left, 0);
    let b = tables.rows(12, Pattern::Sparse, right, 0);
    let ctx = Session::default().context();
    let inputs = [("a", left, layouts[0], &a), ("b", right, layouts[1], &b)];
    for (name, element, layout, table) in inputs {
        register_partitions(&ctx, name, split(&batch_of(table, element, layout), 1, 5));
    }
    let calls = Measure::ALL.map(|m| format!("{}(a.toks, b.toks)", m.sql())).join(", ");
    let sql = format!("SELECT a.id, b.id, {calls} FROM a CROSS JOIN b");
    let expected = a.iter().flat_map(|x| b.iter().map(move |y| (x, y))).map(|(x, y)| scores(x, y));
    let what = format!("{sql}\n{left} {right} {layouts:?}");
    assert_same_rows(&rows(&ctx, &sql).await, &expected.collect::<Vec<_>>(), &what);
}

fn scores(x: &Row, y: &Row) -> String {
    let mut cells = vec![Cell::Int(x.id), Cell::Int(y.id)];
    cells.extend(Measure::ALL.map(|m| match similarity(m, &x.toks, &y.toks) {
        None => Cell::Null,
        Some(v) if m == Measure::Overlap => Cell::Int(v as i64),
        Some(v) => Cell::Float(v),
    }));
    line(&cells)
}

#[tokio::test]
async fn every_pair_of_integer_types_compares_by_value() {
    for (i, left) in INTEGERS.iter().enumerate() {
        for (j, right) in INTEGERS.iter().enumerate() {
            check(left, right, [Layout::List; 2], (10 * i + j) as u64).await;
        }
    }
}

#[tokio::test]
async fn every_pair_of_text_and_of_binary_types_compares_by_bytes() {
    for types in [&TEXTS[..], &BINARIES[..]] {
        for left in types {
            for right in types {
                check(left, right, [Layout::List; 2], 200).await;
            }
        }
    }
}

/// One list for all rows, on either side, and for both.
#[tokio::test]
async fn scalars_go_with_columns() {
    let mut rng = StdRng::seed_from_u64(500);
    let a = Tables::new(&mut rng, 6).rows(20, Pattern::Mixed, &DataType::Int16, 0);
    let ctx = Session::default().context();
    let batch = batch_of(&a, &DataType::Int16, Layout::List);
    register_partitions(&ctx, "a", split(&batch, 1, 7));
    for (sql, list) in [
        ("[2, 3, 2, NULL]", ints([2, 3])),
        ("[]", ints([])),
        ("arrow_cast([1, 2, 3], 'LargeList(Int64)')", ints([1, 2, 3])),
        ("NULL", None),
    ] {
        let one = Row::of(-1, list);
        let calls = Measure::ALL.map(|m| format!("{}(toks, {sql})", m.sql())).join(", ");
        let found = rows(&ctx, &format!("SELECT id, -1, {calls} FROM a")).await;
        let expected: Vec<_> = a.iter().map(|x| scores(x, &one)).collect();
        assert_same_rows(&found, &expected, &calls);
        let calls = Measure::ALL.map(|m| format!("{}({sql}, toks)", m.sql())).join(", ");
        let found = rows(&ctx, &format!("SELECT -1, id, {calls} FROM a")).await;
        let expected: Vec<_> = a.iter().map(|x| scores(&one, x)).collect();
        assert_same_rows(&found, &expected, &calls);
    }
}

#[tokio::test]
async fn every_layout_reads_the_same() {
    for left in Layout::ALL {
        for right in Layout::ALL {
            check(&DataType::Int32, &DataType::Int32, [left, right], 300).await;
            check(&DataType::Utf8View, &DataType::Utf8, [left, right], 301).await;
        }
    }
}

#[tokio::test]
async fn dictionaries_are_seen_through() {
    for values in [DataType::Utf8, DataType::Int64, DataType::Binary] {
        let encoded = dictionary(values.clone());
        check(&encoded, &encoded, [Layout::List; 2], 400).await;
        check(&values, &encoded, [Layout::LargeList, Layout::List], 401).await;
    }
}

/// `18446744073709551615` and `-1` have the same bits and are different tokens.
#[tokio::test]
async fn large_unsigned_hashes_stay_exact() {
    let ctx = Session::default().context();
    let largest = "[arrow_cast('18446744073709551615', 'UInt64')]";
    for (call, expected) in [
        (format!("overlap({largest}, {largest})"), "1"),
        (format!("overlap({largest}, [-1])"), "0"),
        (format!("overlap([-1], {largest})"), "0"),
        ("overlap([arrow_cast('7', 'UInt64')], [7])".to_string(), "1"),
    ] {
        assert_eq!(rows(&ctx, &format!("SELECT {call}")).await, [expected], "{call}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_planning_errors() {
    let ctx = Session::default().context();
    for (call, parts) in [
        ("jaccard('some text', 'other text')", &["jaccard", "qgrams", "word_tokens"][..]),
        ("dice('a', ['a'])", &["dice", "qgrams"]),
        ("jaccard([1.5], [2.5])", &["jaccard", "Float64"]),
        ("jaccard([true], [false])", &["jaccard", "Boolean"]),
        ("jaccard([1], ['1'])", &["jaccard"]),
        ("jaccard([[1]], [[1]])", &["jaccard"]),
        ("jaccard(1, 2)", &["jaccard", "Int64"]),
        ("jaccard([1])", &["jaccard"]),
        ("jaccard([1], [2], [3])", &["jaccard"]),
        ("qgrams('abc', 0)", &["qgrams"]),
        ("qgrams('abc', -1)", &["qgrams"]),
        ("qgrams('abc')", &["qgrams"]),
        ("qgrams([1], 2)", &["qgrams"]),
        ("shingles('a b', 2)", &["shingles"]),
        ("shingles(['a'], 0)", &["shingles"]),
        ("word_tokens([1])", &["word_tokens"]),
        ("word_tokens()", &["word_tokens"]),
        ("normalize('a', 'NFX')", &["normalize", "'NFC', 'NFD', 'NFKC' or 'NFKD'", "'NFX'"]),
        ("normalize('a', 1)", &["normalize", "'NFC'", "Int64"]),
        ("unaccent(1)", &["unaccent", "CAST(x AS VARCHAR)"]),
        ("casefold('a', 'b')", &["casefold", "found 2 arguments"]),
    ] {
        let message = error(&ctx, &format!("SELECT {call}")).await;
        assert_contains(&message, parts);
    }
}
