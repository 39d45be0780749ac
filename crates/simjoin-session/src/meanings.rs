//! Functions and operators of other systems: what this one has in their place.

mod advice;
mod names;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use names::FUNCTIONS;

pub(crate) use advice::{EDIT_DISTANCE, FORMS, NEAREST, NEAREST_BEFORE_ON};

/// The means of this system in place of a function of that name.
pub fn of_function(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase().replace('_', "");
    FUNCTIONS.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, advice)| *advice)
}

/// Operators on vectors, texts and bits of PostgreSQL and its extensions, longer ones first where one begins
/// another.
const OPERATORS: [(&str, &str); 13] = [
    ("<<->", advice::TRIGRAMS),
    ("<->>", advice::TRIGRAMS),
    ("<=>", "the cosine distance is cosine_distance(a, b); <=> is IS NOT DISTINCT FROM"),
    ("<->", "the Euclidean distance is array_distance(a, b)"),
    ("<#>", "the inner product is inner_product(a, b), which is great where vectors are similar"),
    ("<+>", advice::MANHATTAN),
    ("<~>", advice::HAMMING),
    ("<%>", advice::SET_DISTANCE),
    ("<<%", advice::TRIGRAMS),
    ("%>>", advice::TRIGRAMS),
    ("<%", advice::TRIGRAMS),
    ("%>", advice::TRIGRAMS),
    // Between blanks, as other operators begin with it.
    (" # ", "the exclusive or of integers is a ^ b; their bits are not counted yet"),
];

/// Advice on the first such operator of the statement, outside of its texts and comments.
pub fn of_operator(sql: &str) -> Option<&'static str> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).with_unescape(false).tokenize().ok()?;
    // Texts, names and blanks end an operator, whose characters may be several tokens.
    let symbols: String = tokens
        .iter()
        .map(|token| token.to_string())
        .map(|text| {
            match text.chars().all(|c| c.is_ascii_punctuation() && !"'\"();,".contains(c)) {
                true => text,
                false => " ".to_string(),
            }
        })
        .collect();
    OPERATORS.iter().find(|(operator, _)| symbols.contains(operator)).map(|(_, advice)| *advice)
}

/// Advice on `%` between texts.
pub const PERCENT: &str = advice::TRIGRAMS;

/// Advice on clauses that other systems have for the best rows of each row: `LIMIT 3 BY a.id`.
pub fn of_clause(sql: &str) -> Option<&'static str> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).with_unescape(false).tokenize().ok()?;
    let tokens: Vec<&Token> =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let found = tokens.windows(3).any(|window| {
        is(window[0], Keyword::LIMIT)
            && matches!(window[1], Token::Number(..))
            && is(window[2], Keyword::BY)
    });
    found.then_some(NEAREST)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    #[test]
    fn names_are_found_however_they_are_written() {
        for (name, expected) in [
            ("jaro_winkler", "jaro_winkler_similarity"),
            ("JARO_WINKLER_SIMILARITY", "jaro_winkler_similarity"),
            ("jarowinkler", "jaro_winkler_similarity"),
            ("similarity", "pg_trgm"),
            ("tokenize", "word_tokens"),
            ("split", "string_to_array"),
            ("string_split", "string_to_array"),
            ("regexp_split_to_array", "regexp_replace"),
            ("knn", "NEAREST 5 BY"),
            ("l2_distance", "array_distance"),
            ("minhash", "exact"),
            ("edit_distance", "levenshtein"),
            ("damerau_levenshtein", "levenshtein"),
            ("soundex", "phonetic"),
        ] {
            assert!(of_function(name).is_some_and(|advice| advice.contains(expected)), "{name}");
        }
        assert_eq!(of_function("jacard"), None);
        let mut all: Vec<&str> = FUNCTIONS.iter().flat_map(|(names, _)| names.to_vec()).collect();
        let len = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), len, "a name with two meanings");
        assert!(all.iter().all(|name| !name.contains('_')));
    }

    #[test]
    fn the_names_of_databases_and_libraries_bring_what_there_is() {
        for (names, expected) in [
            ("vec_distance_l2 vector_l2_distance vec_distance_euclidean", "array_distance(a, b)"),
            ("l2squareddistance L2SquaredDistance squared_euclidean l2_squared", "sqrt(0.25)"),
            ("vec_distance_cosine approx_cosine_similarity", "cosine_distance(a, b)"),
            ("distance VECTOR_DISTANCE", "cosine_distance(a, b) and"),
            ("manhattan_distance L1Distance", "Manhattan"),
            ("linfdistance LinfDistance", "Chebyshev"),
            ("tanimoto tanimoto_sml tanimoto_similarity", "jaccard(a.bits, b.bits)"),
            (
                "bit_count bitcount bitCount popcount bit_hamming_distance bithammingdistance",
                "64 - 6",
            ),
            ("hamming_distance mismatches byteHammingDistance", "hamming(a, b)"),
            ("jaccard_distance", "1 - jaccard"),
            ("st_dwithin haversine greatcircledistance st_distance", "radians(lat)"),
            ("min_by arg_min argMax max_by", "first_value(x ORDER BY y)"),
            ("VECTOR_SEARCH knn topk nearest", "NEAREST 5 BY"),
            ("EDITDISTANCE EDIT_DISTANCE editDistance editDistanceUTF8", "levenshtein(a, b)"),
            ("ngramDistance ngramSearch", "qgrams(a, 4)"),
            ("arrayIntersect", "array_intersect(a, b)"),
            ("soundex metaphone dmetaphone", "phonetic"),
            ("partial_ratio token_set_ratio token_sort_ratio", "indel_similarity"),
            ("strip_accents remove_accents deaccent unidecode", "unaccent(text)"),
            ("nfc_normalize NORMALIZE_AND_CASEFOLD normalizeUTF8NFC", "normalize(text, 'NFC')"),
            ("lcase fold_case", "casefold(text)"),
            ("date_diff DATEDIFF", "a.d - b.d"),
            ("tf_idf tfidf idf", "tfidf(word_tokens(x)) OVER ()"),
            ("bm25 BM25", "NEAREST 5 BY SIMILARITY weighted_overlap"),
            ("ruzicka weightedJaccard", "weighted_jaccard(a.w, b.w)"),
        ] {
            for name in names.split(' ') {
                let advice = of_function(name);
                assert!(advice.is_some_and(|a| a.contains(expected)), "{name}: {advice:?}");
            }
        }
    }

    /// The text that each advice tells to write, as statements that run; `…` stands for `SELECT 1 FROM t a SIMJOIN t b`.
    const STATEMENTS: &[(&str, &str, &str)] = &[
        (advice::EDIT_DISTANCE, "ON levenshtein(a.s, b.s) <= 2", "… {}"),
        (advice::EDIT_DISTANCE, "levenshtein_similarity(a, b)", "SELECT {} FROM x"),
        (
            advice::HAMMING,
            "ON hamming(a.s, b.s) <= 2 AND character_length(a.s) = character_length(b.s)",
            "… {}",
        ),
        (advice::HAMMING, "ON overlap(a.bits, b.bits) >= 64 - 6", "… {}"),
        (
            advice::HAMMING,
            "2 * i + ((x >> i) & 1)",
            "SELECT array_agg({}) FROM (SELECT id, id AS x, unnest(range(0, 64)) AS i FROM t) GROUP BY id",
        ),
        (advice::BITS, "ON overlap(a.bits, b.bits) >= 64 - 6", "… {}"),
        (advice::BITS, "ON jaccard(a.bits, b.bits) >= 0.7", "… {}"),
        (
            advice::BITS,
            "(x >> i) & 1",
            "SELECT array_agg(i) FROM (SELECT id, id AS x, unnest(range(0, 64)) AS i FROM t) WHERE {} = 1 \
             GROUP BY id",
        ),
        (advice::TANIMOTO, "ON jaccard(a.bits, b.bits) >= 0.7", "… {}"),
        (advice::JARO, "ON jaro_winkler_similarity(a.s, b.s) >= 0.9", "… {}"),
        (advice::SETS, "ON jaccard(a.toks, b.toks) >= 0.8", "… {}"),
        (advice::SETS, "overlap_coefficient(a, b)", "SELECT {} FROM l"),
        (advice::SETS, "qgrams(text, 3)", "SELECT {} FROM x"),
        (advice::SET_DISTANCE, "ON jaccard(a.toks, b.toks) >= 0.8", "… {}"),
        (
            advice::SET_DISTANCE,
            "1 - jaccard(a.toks, b.toks)",
            "SELECT {} FROM t a SIMJOIN t b ON jaccard(a.toks, b.toks) >= 0.8",
        ),
        (advice::COMMON, "ON overlap(a.toks, b.toks) >= 2", "… {}"),
        (advice::COMMON, "array_except(a, b)", "SELECT {} FROM l"),
        (
            advice::TRIGRAMS,
            "jaccard(qgrams(lower(a), 3), qgrams(lower(b), 3))",
            "SELECT 1 FROM x SIMJOIN (SELECT b AS c FROM x) y ON \
             jaccard(qgrams(lower(a), 3), qgrams(lower(c), 3)) >= 0.3 -- {}",
        ),
        (advice::NGRAMS, "dice(qgrams(a, 4), qgrams(b, 4))", "SELECT {} FROM x"),
        (advice::NGRAMS, "containment(qgrams(a, 4), qgrams(b, 4))", "SELECT {} FROM x"),
        (advice::TOKENS, "shingles(word_tokens(text), 2)", "SELECT {} FROM x"),
        (
            advice::SPLIT,
            "string_to_array(regexp_replace(text, pattern, ' ', 'g'), ' ')",
            "SELECT {} FROM (SELECT text, '-+' AS pattern FROM x)",
        ),
        (
            advice::NEAREST,
            "FROM a SIMJOIN b NEAREST 5 BY SIMILARITY jaccard(a.toks, b.toks) ON a.id <> b.id",
            "WITH a AS (SELECT * FROM t), b AS (SELECT * FROM t) SELECT a.id {}",
        ),
        (
            advice::NEAREST,
            "NEAREST 5 BY DISTANCE array_distance(a.v, b.v)",
            "SELECT 1 FROM t a LEFT SIMJOIN t b {} ON a.id <> b.id",
        ),
        (
            advice::NEAREST_BEFORE_ON,
            "FROM a SIMJOIN b NEAREST 5 BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id",
            "WITH a AS (SELECT * FROM t), b AS (SELECT * FROM t) SELECT a.id {}",
        ),
        (
            advice::BEST_ROW,
            "first_value(x ORDER BY y DESC)",
            "SELECT {} FROM (VALUES (1, 2)) p(x, y)",
        ),
        (
            advice::BEST_ROW,
            "FROM a SIMJOIN b NEAREST 1 BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id",
            "WITH a AS (SELECT * FROM t), b AS (SELECT * FROM t) SELECT a.id {}",
        ),
        (advice::COSINE, "ON cosine_similarity(a.v, b.v) >= 0.8", "… {}"),
        (advice::COSINE, "cosine_similarity(a, b)", "SELECT {} FROM p"),
        (advice::VECTORS, "ON array_distance(a.v, b.v) <= 0.5", "… {}"),
        (advice::VECTORS, "inner_product(a, b)", "SELECT {} FROM p"),
        (advice::EUCLIDEAN, "ON array_distance(a.v, b.v) <= 0.5", "… {}"),
        (advice::SQUARED, "ON array_distance(a.v, b.v) <= sqrt(0.25)", "… {}"),
        (advice::SQUARED, "power(array_distance(a, b), 2)", "SELECT {} FROM p"),
        (advice::MANHATTAN, "ON array_distance(a.v, b.v) <= 0.5", "… {}"),
        (advice::CHEBYSHEV, "ON array_distance(a.v, b.v) <= 0.5 * sqrt(2)", "… {}"),
        (advice::INNER_PRODUCT, "ON inner_product(a.v, b.v) >= 0.9", "… {}"),
        (advice::INNER_PRODUCT, "-inner_product(a, b)", "SELECT {} FROM p"),
        (
            advice::SPHERE,
            "[6371000 * cos(radians(lat)) * cos(radians(lon)), 6371000 * cos(radians(lat)) * \
             sin(radians(lon)), 6371000 * sin(radians(lat))] AS p",
            "WITH g AS (SELECT {} FROM (VALUES (52.5, 13.4)) q(lat, lon)) \
             SELECT 1 FROM g a SIMJOIN g b ON array_distance(a.p, b.p) <= 50",
        ),
        (advice::HASHES, "jaccard(a.toks, b.toks) >= 0.8", "… ON {}"),
        (advice::SOUNDS, "ON jaro_winkler_similarity(a.s, b.s) >= 0.9", "… {}"),
        (advice::SOUNDS, "levenshtein(a.s, b.s) <= 2", "… ON {}"),
        (advice::RATIOS, "jaccard(word_tokens(a), word_tokens(b))", "SELECT {} FROM x"),
        (advice::RATIOS, "indel_similarity(a, b)", "SELECT {} FROM x"),
        (advice::RARITY, "tfidf(word_tokens(x)) OVER ()", "SELECT {} FROM (SELECT s AS x FROM t)"),
        (advice::RARITY, "idf(word_tokens(x)) OVER ()", "SELECT {} FROM (SELECT s AS x FROM t)"),
        (advice::RARITY, "ON weighted_cosine(a.w, b.w) >= 0.8", "… {}"),
        (
            advice::BM25,
            "bm25_weights(word_tokens(x)) OVER ()",
            "SELECT {} FROM (SELECT s AS x FROM t)",
        ),
        (advice::BM25, "token_counts(word_tokens(q))", "SELECT {} FROM (SELECT s AS q FROM t)"),
        (
            advice::BM25,
            "FROM a SIMJOIN b NEAREST 5 BY SIMILARITY weighted_overlap(a.w, b.w)",
            "WITH a AS (SELECT * FROM t), b AS (SELECT * FROM t) SELECT a.id {}",
        ),
        (advice::WEIGHTS, "ON weighted_jaccard(a.w, b.w) >= 0.8", "… {}"),
        (advice::WEIGHTS, "token_counts(list)", "SELECT {} FROM (SELECT toks AS list FROM t)"),
        (
            advice::WEIGHTS,
            "weigh(list, weights)",
            "SELECT {} FROM (SELECT toks AS list, bits AS weights FROM t)",
        ),
        (advice::WEIGHTS, "tfidf(list) OVER ()", "SELECT {} FROM (SELECT toks AS list FROM t)"),
        (
            advice::ACCENTS,
            "ON levenshtein(unaccent(casefold(a.s)), unaccent(casefold(b.s))) <= 1",
            "… {}",
        ),
        (advice::ACCENTS, "normalize(text, 'NFC')", "SELECT {} FROM x"),
        (advice::CASES, "casefold(text)", "SELECT {} FROM x"),
        (advice::FORMS, "x = normalize(x, 'NFC')", "SELECT {} FROM (SELECT text AS x FROM x)"),
        (advice::DAYS, "a.d - b.d", "SELECT {} FROM t a, t b"),
        (advice::DAYS, "ON abs(a.d - b.d) <= 3", "SELECT 1 FROM t a JOIN t b {}"),
    ];

    async fn context() -> SessionContext {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS id, 'name' AS s, ['x', 'y'] AS toks, [1, 2] AS bits, \
             [0.5, 0.25] AS v, DATE '2026-11-28' AS d, token_counts(['x', 'y']) AS w",
            "CREATE TABLE x AS SELECT 'some' AS a, 'text' AS b, 'some text' AS text",
            "CREATE TABLE l AS SELECT [1, 2] AS a, [2, 3] AS b",
            "CREATE TABLE p AS SELECT [1.0, 2.0] AS a, [2.0, 3.0] AS b",
        ] {
            ctx.sql(sql).await.unwrap().collect().await.unwrap();
        }
        ctx
    }

    #[tokio::test]
    async fn the_statements_of_every_advice_run() {
        let ctx = context().await;
        for (_, advice) in FUNCTIONS.iter().chain(&OPERATORS.map(|(_, a)| (&[][..], a))) {
            let is_long = STATEMENTS.iter().any(|(of, ..)| of == advice);
            let is_short = !advice.contains("ON ") && advice.len() < 120;
            assert!(is_long || is_short, "no statement of: {advice}");
        }
        for (advice, part, template) in STATEMENTS {
            assert!(advice.contains(part), "{part} is not in: {advice}");
            let sql = template.replace('…', "SELECT 1 FROM t a SIMJOIN t b").replace("{}", part);
            let ran = async { ctx.simjoin_sql(&sql).await?.collect().await };
            ran.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// The calls in each advice are those of functions that there are.
    #[tokio::test]
    async fn advice_names_functions_that_there_are() {
        let state = context().await.state();
        let advices = FUNCTIONS.iter().map(|(_, advice)| *advice);
        for advice in advices.chain(OPERATORS.map(|(_, advice)| advice)) {
            for (at, _) in advice.match_indices('(') {
                let name = advice[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
                let name = name.unwrap_or_default();
                // A parenthesis of its own, and a keyword before one.
                if name.is_empty() || name.chars().all(|c| c.is_uppercase()) {
                    continue;
                }
                let is_known = state.scalar_functions().contains_key(name)
                    || state.aggregate_functions().contains_key(name)
                    || state.window_functions().contains_key(name);
                assert!(is_known, "{name} in: {advice}");
            }
        }
    }

    #[test]
    fn the_limit_of_each_row_is_known() {
        let is_told = |sql| of_clause(sql) == Some(NEAREST);
        assert!(is_told("SELECT * FROM t a, t b ORDER BY d LIMIT 3 BY a.id"));
        assert!(!is_told("SELECT * FROM t ORDER BY d LIMIT 3"));
        assert!(!is_told("SELECT 'LIMIT 3 BY' -- LIMIT 3 BY x"));
    }

    #[test]
    fn operators_are_told_from_texts() {
        for (sql, expected) in [
            ("SELECT 1 FROM t a, t b WHERE a.v <=> b.v < 0.1", Some("cosine_distance")),
            ("SELECT 1 FROM t ORDER BY v <-> [1]", Some("array_distance")),
            ("SELECT a <#> b", Some("inner_product")),
            ("SELECT a <+> b", Some("taxicab")),
            ("SELECT a <% b", Some("pg_trgm")),
            ("SELECT a <%> b", Some("1 - jaccard")),
            ("SELECT a <~> b", Some("hamming(a, b)")),
            ("SELECT a <<-> b", Some("pg_trgm")),
            ("SELECT a.h # b.h", Some("a ^ b")),
            ("SELECT '<=>', \"<->\" -- <#>\n", None),
            ("SELECT a < -b, a % b, a <= b", None),
        ] {
            let advice = of_operator(sql);
            assert_eq!(advice.is_some(), expected.is_some(), "{sql}");
            assert!(expected.is_none_or(|e| advice.unwrap().contains(e)), "{sql}: {advice:?}");
        }
    }
}
