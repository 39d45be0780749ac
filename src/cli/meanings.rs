//! Functions and operators of other systems: what this one has in their place.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

/// Advice for those who look for edit distance joins.
pub(super) const EDIT_DISTANCE: &str = "of two texts there are levenshtein(a, b), \
     damerau_levenshtein(a, b) and, of texts of one length, hamming(a, b), joined by ON levenshtein(a.s, b.s) \
     <= 2; relative to the lengths, levenshtein_similarity(a, b) and indel_similarity(a, b), joined by >= 0.8";

const JARO: &str = "they are jaro_similarity(a, b) and jaro_winkler_similarity(a, b), joined by ON \
     jaro_winkler_similarity(a.s, b.s) >= 0.9";

const TRIGRAMS: &str = "as pg_trgm's similarity, without its padding by blanks: \
     jaccard(qgrams(lower(a), 3), qgrams(lower(b), 3)), with SIMJOIN … ON … >= 0.3";

const TOKENS: &str = "word_tokens(text) gives the words of a text in lower case, qgrams(text, 3) its \
     runs of 3 characters, shingles(word_tokens(text), 2) its pairs of words";

const SPLIT: &str = "string_to_array(text, delimiter) splits a text into a list, \
     string_to_array(regexp_replace(text, pattern, ' ', 'g'), ' ') does so by a pattern; \
     word_tokens(text) gives the words";

/// Advice for those who look for the k nearest rows.
pub(super) const NEAREST: &str = "the k best of each row: FROM a SIMJOIN b ON jaccard(a.t, b.t) >= 0.1 \
     QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY jaccard(a.t, b.t) DESC) <= 5; with \
     vectors, ON array_distance(a.v, b.v) <= 0.5 and the least distance first";

const COSINE: &str = "the cosine similarity of two vectors is 1 - cosine_distance(a, b), and vectors \
     are joined by ON cosine_distance(a.v, b.v) <= 0.2; of sets of tokens it is set_cosine(a, b)";

const VECTORS: &str = "vectors have array_distance(a, b) (Euclidean), cosine_distance(a, b) and \
     inner_product(a, b)";

const HASHES: &str = "no hashes are needed, the join is exact and indexed: SIMJOIN … ON \
     jaccard(a.tokens, b.tokens) >= 0.8";

const SOUNDS: &str = "there are no phonetic codes; names are joined by ON jaro_winkler_similarity(a.s, b.s) >= \
     0.9 or levenshtein(a.s, b.s) <= 2";

const RATIOS: &str = "of words, jaccard(word_tokens(a), word_tokens(b)) or \
     containment(word_tokens(a), word_tokens(b)); of characters, jaccard(qgrams(a, 3), qgrams(b, 3)) or \
     indel_similarity(a, b)";

const WEIGHTS: &str = "tokens have no weights: jaccard(word_tokens(a), word_tokens(b)) counts each of them \
     once";

/// Names, without underscores, and the advice for them.
const FUNCTIONS: [(&[&str], &str); 12] = [
    (
        &[
            "damerau",
            "dameraulevenshtein",
            "dameraulevenshteindistance",
            "editdist",
            "editdist3",
            "editdistance",
            "editdistancesimilarity",
            "hammingdistance",
            "levenshteindistance",
            "levenshteinlessequal",
            "mismatches",
            "osadistance",
        ],
        EDIT_DISTANCE,
    ),
    (
        &[
            "jaro",
            "jarodistance",
            "jarosimilarity",
            "jarowinkler",
            "jarowinklerdistance",
            "jarowinklersimilarity",
        ],
        JARO,
    ),
    (
        &[
            "setlimit",
            "showtrgm",
            "similarity",
            "strictwordsimilarity",
            "trigramsimilarity",
            "trgmsimilarity",
            "wordsimilarity",
        ],
        TRIGRAMS,
    ),
    (
        &[
            "bigrams",
            "charngrams",
            "ngram",
            "ngrams",
            "qgram",
            "shingle",
            "splitwords",
            "tokenise",
            "tokenize",
            "tokens",
            "totokens",
            "totsvector",
            "trigrams",
            "wordshingles",
            "wordtokenize",
            "words",
        ],
        TOKENS,
    ),
    (
        &[
            "regexpsplit",
            "regexpsplittoarray",
            "regexpsplittotable",
            "split",
            "splittoarray",
            "strsplit",
            "strsplitregex",
            "stringsplit",
            "stringsplitregex",
        ],
        SPLIT,
    ),
    (
        &["approxtopk", "arrayknn", "knn", "nearest", "nearestneighbors", "topk", "vectorsearch"],
        NEAREST,
    ),
    (
        &[
            "arraycosinesimilarity",
            "cosinesim",
            "cosinesimilarity",
            "listcosinesimilarity",
            "vectorcosinesimilarity",
        ],
        COSINE,
    ),
    (
        &[
            "arraycosinedistance",
            "arraydotproduct",
            "arrayinnerproduct",
            "arraynegativeinnerproduct",
            "dot",
            "euclideandistance",
            "l1distance",
            "l2distance",
            "listcosinedistance",
            "listdotproduct",
            "listinnerproduct",
            "listnegativeinnerproduct",
            "negativeinnerproduct",
            "vectordistance",
            "veccosinedistance",
            "vecl2distance",
        ],
        VECTORS,
    ),
    (&["lsh", "minhash", "minhashlsh", "minhashsignature", "simhash"], HASHES),
    (&["difference", "dmetaphone", "dmetaphonealt", "metaphone", "soundex"], SOUNDS),
    (
        &[
            "fuzzratio",
            "fuzzymatch",
            "partialratio",
            "ratio",
            "tokensetratio",
            "tokensortratio",
            "tversky",
        ],
        RATIOS,
    ),
    (&["bm25", "idf", "tfidf", "weightedjaccard"], WEIGHTS),
];

/// The means of this system in place of a function of that name.
pub(super) fn of_function(name: &str) -> Option<&'static str> {
    let plain = name.to_lowercase().replace('_', "");
    FUNCTIONS.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, advice)| *advice)
}

/// Operators on vectors and texts of PostgreSQL's extensions, longer ones first where one begins
/// another.
const OPERATORS: [(&str, &str); 8] = [
    ("<=>", "the cosine distance is cosine_distance(a, b); <=> is IS NOT DISTINCT FROM"),
    ("<->", "the Euclidean distance is array_distance(a, b)"),
    ("<#>", "the inner product is inner_product(a, b), which is great where vectors are similar"),
    ("<+>", "there is no taxicab distance; the Euclidean one is array_distance(a, b)"),
    ("<<%", TRIGRAMS),
    ("%>>", TRIGRAMS),
    ("<%", TRIGRAMS),
    ("%>", TRIGRAMS),
];

/// Advice on the first such operator of the statement, outside of its texts and comments.
pub(super) fn of_operator(sql: &str) -> Option<&'static str> {
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
pub(super) const PERCENT: &str = TRIGRAMS;

#[cfg(test)]
mod tests {
    use super::*;

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
            ("knn", "QUALIFY"),
            ("array_cosine_similarity", "1 - cosine_distance"),
            ("list_cosine_similarity", "1 - cosine_distance"),
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
    fn operators_are_told_from_texts() {
        for (sql, expected) in [
            ("SELECT 1 FROM t a, t b WHERE a.v <=> b.v < 0.1", Some("cosine_distance")),
            ("SELECT 1 FROM t ORDER BY v <-> [1]", Some("array_distance")),
            ("SELECT a <#> b", Some("inner_product")),
            ("SELECT a <+> b", Some("taxicab")),
            ("SELECT a <% b", Some("pg_trgm")),
            ("SELECT '<=>', \"<->\" -- <#>\n", None),
            ("SELECT a < -b, a % b, a <= b", None),
        ] {
            let advice = of_operator(sql);
            assert_eq!(advice.is_some(), expected.is_some(), "{sql}");
            assert!(expected.is_none_or(|e| advice.unwrap().contains(e)), "{sql}: {advice:?}");
        }
    }
}
