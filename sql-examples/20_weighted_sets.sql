-- Weighted sets: words by their rarity, words by their number, and search by BM25.

SELECT token_counts(word_tokens('to be or not to be')) AS counts,
       weigh(['to', 'be', 'to'], [1, 3, 1]) AS weights;

-- Of two titles: a word that one of them has weighs more than those that both have.
SELECT title, tfidf(word_tokens(title)) OVER () AS words
FROM (VALUES ('Grammar of Warlpiri'), ('Grammar of Kiowa')) AS t(title)
ORDER BY title;

CREATE TABLE refs AS
SELECT id, title, bibliography, word_tokens(title) AS words, tfidf(word_tokens(title)) OVER () AS rare
FROM 'sql-examples/data/references.parquet';

-- Titles that share their rare words, though half of all their words differ.
SELECT left(a.title, 40) AS title, left(b.title, 40) AS other,
       round(weighted_cosine(a.rare, b.rare), 3) AS score, round(jaccard(a.words, b.words), 3) AS jaccard
FROM refs a SIMJOIN refs b ON weighted_cosine(a.rare, b.rare) >= 0.8 AND a.id < b.id
WHERE jaccard(a.words, b.words) <= 0.5
ORDER BY weighted_cosine(a.rare, b.rare) DESC, a.id, b.id
LIMIT 8;

-- The reverse: most words are the same, and the rare ones differ.
SELECT left(a.title, 40) AS title, left(b.title, 40) AS other,
       round(weighted_cosine(a.rare, b.rare), 3) AS score, round(jaccard(a.words, b.words), 3) AS jaccard
FROM refs a SIMJOIN refs b ON jaccard(a.words, b.words) >= 0.6 AND a.id < b.id
WHERE weighted_cosine(a.rare, b.rare) < 0.5
ORDER BY weighted_cosine(a.rare, b.rare), a.id, b.id
LIMIT 8;

-- Titles of one bibliography for which no other bibliography has a title of similar rare words.
SELECT count(*) AS new
FROM (SELECT * FROM refs WHERE bibliography = 'evobib') a
LEFT ANTI SIMJOIN (SELECT * FROM refs WHERE bibliography <> 'evobib') b
  ON weighted_cosine(a.rare, b.rare) >= 0.6;

-- Bags of words: a repeated word counts as often as both titles have it.
SELECT left(a.title, 40) AS title, left(b.title, 40) AS other,
       round(weighted_jaccard(token_counts(a.words), token_counts(b.words)), 3) AS score,
       round(jaccard(a.words, b.words), 3) AS jaccard
FROM refs a SIMJOIN refs b
  ON weighted_jaccard(token_counts(a.words), token_counts(b.words)) >= 0.7 AND a.id < b.id
ORDER BY weighted_jaccard(token_counts(a.words), token_counts(b.words)) - jaccard(a.words, b.words) DESC, a.id, b.id
LIMIT 5;

-- Search: the weights of BM25 for documents, counts for queries.
CREATE VIEW documents AS
SELECT id, title, bm25_weights(words) OVER () AS words FROM refs;

SELECT q.query, d.id, left(d.title, 60) AS title,
       round(weighted_overlap(q.words, d.words) / 65536, 3) AS score
FROM (SELECT query, token_counts(word_tokens(query)) AS words
      FROM (VALUES ('warlpiri grammar'), ('numeral systems of Japan')) AS t(query)) q
SIMJOIN documents d NEAREST 3 WITH TIES BY SIMILARITY weighted_overlap(q.words, d.words)
ORDER BY q.query, score DESC, d.id;
