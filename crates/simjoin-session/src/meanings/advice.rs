//! Counterparts of this system for functions, operators and clauses of others. The statements in
//! these texts run: the tests execute them.

/// The advice on edit distance joins.
pub(crate) const EDIT_DISTANCE: &str = "of two texts there are levenshtein(a, b), \
     damerau_levenshtein(a, b) and, of texts of one length, hamming(a, b), joined by ON levenshtein(a.s, b.s) \
     <= 2; relative to the lengths, levenshtein_similarity(a, b) and indel_similarity(a, b), joined by >= 0.8";

pub(crate) const HAMMING: &str = "of texts of one length it is hamming(a, b), joined by ON hamming(a.s, b.s) <= \
     2 AND character_length(a.s) = character_length(b.s); the bits of integers are not compared yet: join lists \
     of 2 * i + ((x >> i) & 1) for the bits i from 0 to 63 by ON overlap(a.bits, b.bits) >= 64 - 6";

pub(crate) const BITS: &str = "the bits of integers are not counted or compared yet; (x >> i) & 1 is one of them, \
     (array_agg(i) … GROUP BY id) makes a list, lists of 2 * i + ((x >> i) & 1) for i from 0 to 63 are joined by \
     ON overlap(a.bits, b.bits) >= 64 - 6, lists of the bits that are set by ON jaccard(a.bits, b.bits) >= 0.7";

pub(crate) const TANIMOTO: &str = "Tanimoto's coefficient of fingerprints is jaccard(a, b) of the lists of their \
     bits that are set (their places, not zeros and ones), joined by ON jaccard(a.bits, b.bits) >= 0.7";

pub(crate) const JARO: &str = "they are jaro_similarity(a, b) and jaro_winkler_similarity(a, b), joined by ON \
     jaro_winkler_similarity(a.s, b.s) >= 0.9";

pub(crate) const SETS: &str = "lists have jaccard(a, b), dice(a, b), set_cosine(a, b), overlap(a, b), \
     overlap_coefficient(a, b) and containment(a, b), joined by ON jaccard(a.toks, b.toks) >= 0.8; texts become \
     lists by word_tokens(text) or qgrams(text, 3)";

pub(crate) const SET_DISTANCE: &str = "distances of sets are 1 minus a similarity: a Jaccard distance of at most \
     0.2 is ON jaccard(a.toks, b.toks) >= 0.8, with 1 - jaccard(a.toks, b.toks) in the select list";

pub(crate) const COMMON: &str = "overlap(a, b) is the number of common elements, joined by ON overlap(a.toks, \
     b.toks) >= 2; array_intersect(a, b) has the elements, array_except(a, b) those of a alone";

pub(crate) const TRIGRAMS: &str = "as pg_trgm's similarity, without its padding by blanks: \
     jaccard(qgrams(lower(a), 3), qgrams(lower(b), 3)), with SIMJOIN … ON … >= 0.3";

pub(crate) const NGRAMS: &str = "of the 4-grams of two texts there are dice(qgrams(a, 4), qgrams(b, 4)) and \
     containment(qgrams(a, 4), qgrams(b, 4)), joined by >= 0.6; a distance is 1 minus one of them";

pub(crate) const TOKENS: &str = "word_tokens(text) gives the words of a text in lower case, qgrams(text, 3) its \
     runs of 3 characters, shingles(word_tokens(text), 2) its pairs of words";

pub(crate) const SPLIT: &str = "string_to_array(text, delimiter) splits a text into a list, \
     string_to_array(regexp_replace(text, pattern, ' ', 'g'), ' ') does so by a pattern; \
     word_tokens(text) gives the words";

/// The advice on the k nearest rows.
pub(crate) const NEAREST: &str = "the 5 best of each row: FROM a SIMJOIN b NEAREST 5 BY SIMILARITY \
     jaccard(a.toks, b.toks) ON a.id <> b.id; of vectors, NEAREST 5 BY DISTANCE array_distance(a.v, b.v); a \
     condition behind ON says who is compared; LEFT SIMJOIN keeps rows without a neighbour";

/// Advice for a NEAREST clause behind ON.
pub(crate) const NEAREST_BEFORE_ON: &str = "NEAREST stands before ON: FROM a SIMJOIN b NEAREST 5 BY DISTANCE \
     levenshtein(a.s, b.s) ON a.id <> b.id";

pub(crate) const BEST_ROW: &str = "the value in the row with the least y is first_value(x ORDER BY y), with the \
     greatest first_value(x ORDER BY y DESC); the nearest row of each row is FROM a SIMJOIN b NEAREST 1 BY \
     DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id";

pub(crate) const COSINE: &str = "the cosine similarity of two vectors is cosine_similarity(a, b), 1 - \
     cosine_distance(a, b), and vectors are joined by ON cosine_similarity(a.v, b.v) >= 0.8; of sets of \
     tokens it is set_cosine(a, b)";

pub(crate) const VECTORS: &str = "vectors have array_distance(a, b) (Euclidean), cosine_distance(a, b) and \
     inner_product(a, b), joined by ON array_distance(a.v, b.v) <= 0.5";

pub(crate) const EUCLIDEAN: &str = "the Euclidean distance of two vectors is array_distance(a, b), joined by ON \
     array_distance(a.v, b.v) <= 0.5";

pub(crate) const SQUARED: &str = "the squared Euclidean distance is power(array_distance(a, b), 2); one of at most \
     0.25 is ON array_distance(a.v, b.v) <= sqrt(0.25)";

pub(crate) const MANHATTAN: &str = "there is no Manhattan (L1, taxicab) distance; pairs within 0.5 by it are among \
     those ON array_distance(a.v, b.v) <= 0.5, as the Euclidean distance is never greater";

pub(crate) const CHEBYSHEV: &str = "there is no Chebyshev (maximum) distance; pairs of 2 dimensions within 0.5 by \
     it are among those ON array_distance(a.v, b.v) <= 0.5 * sqrt(2)";

pub(crate) const INNER_PRODUCT: &str = "the inner product of two vectors is inner_product(a, b), which is great where \
     they are similar, joined by ON inner_product(a.v, b.v) >= 0.9; a negative one is -inner_product(a, b)";

pub(crate) const SPHERE: &str = "there are no distances on the sphere; points in metres, [6371000 * \
     cos(radians(lat)) * cos(radians(lon)), 6371000 * cos(radians(lat)) * sin(radians(lon)), 6371000 * \
     sin(radians(lat))] AS p, are joined by ON array_distance(a.p, b.p) <= 50, which is the length of the chord";

pub(crate) const HASHES: &str = "no hashes are needed, the join is exact and indexed: SIMJOIN … ON \
     jaccard(a.toks, b.toks) >= 0.8";

pub(crate) const SOUNDS: &str = "there are no phonetic codes; names are joined by ON jaro_winkler_similarity(a.s, b.s) >= \
     0.9 or levenshtein(a.s, b.s) <= 2";

pub(crate) const RATIOS: &str = "of words, jaccard(word_tokens(a), word_tokens(b)) or \
     containment(word_tokens(a), word_tokens(b)); of characters, jaccard(qgrams(a, 3), qgrams(b, 3)) or \
     indel_similarity(a, b), which is rapidfuzz's ratio in 0 … 1";

pub(crate) const RARITY: &str = "tfidf(word_tokens(x)) OVER () weighs words by their rarity among all rows; so does \
     idf(word_tokens(x)) OVER (), without their number. Rows of two tables are weighed together, after UNION ALL. \
     Weighted sets are compared by weighted_cosine: ON weighted_cosine(a.w, b.w) >= 0.8";

pub(crate) const BM25: &str = "bm25_weights(word_tokens(x)) OVER () are the weights of BM25 of each row's words, \
     token_counts(word_tokens(q)) the words of a query; the best rows are FROM a SIMJOIN b NEAREST 5 BY SIMILARITY \
     weighted_overlap(a.w, b.w)";

pub(crate) const WEIGHTS: &str = "weighted sets are compared by weighted_jaccard, weighted_dice, weighted_cosine and \
     weighted_containment: ON weighted_jaccard(a.w, b.w) >= 0.8; token_counts(list), weigh(list, weights) and \
     tfidf(list) OVER () make them";

pub(crate) const ACCENTS: &str = "unaccent(text) drops accents, casefold(text) folds case, normalize(text, 'NFC') gives \
     one form to letters with marks: ON levenshtein(unaccent(casefold(a.s)), unaccent(casefold(b.s))) <= 1";

pub(crate) const CASES: &str = "lower(text) and upper(text) change the case; for casefold(text) Straße and STRASSE \
     are the same";

pub(crate) const FORMS: &str = "the form is a text: normalize(text, 'NFC'), or 'NFD', 'NFKC', 'NFKD'; a text x is \
     in it where x = normalize(x, 'NFC')";

pub(crate) const DAYS: &str = "the days between two dates are a.d - b.d: within 3 of them are those ON \
     abs(a.d - b.d) <= 3";
