-- The measures and the tokenizers.
--
-- A list is read as a set: repeated elements count once, NULL elements are ignored.

SELECT jaccard([1, 2, 3, 4], [3, 4, 5]) AS jaccard,
       dice([1, 2, 3, 4], [3, 4, 5]) AS dice,
       round(set_cosine([1, 2, 3, 4], [3, 4, 5]), 4) AS set_cosine,
       overlap([1, 2, 3, 4], [3, 4, 5]) AS overlap,
       overlap_coefficient([1, 2, 3, 4], [3, 4, 5]) AS overlap_coefficient,
       containment([1, 2, 3, 4], [3, 4, 5]) AS containment;

SELECT qgrams('night', 3) AS qgrams,
       word_tokens('The Night Watch') AS word_tokens,
       shingles(word_tokens('The Night Watch'), 2) AS shingles;

-- Titles of at least 5 words that all occur in a longer title. Containment is not symmetric: it
-- is the share of the first set that the second contains.
WITH titles AS (
  SELECT id, title, word_tokens(title) AS words
  FROM 'sql-examples/data/references.parquet'
)
SELECT a.id, a.title, b.id AS longer_id, b.title AS longer_title
FROM titles a SIMJOIN titles b
  ON containment(a.words, b.words) >= 1 AND overlap(a.words, b.words) >= 5
 AND length(b.title) >= length(a.title) + 12
ORDER BY a.id, b.id
LIMIT 10;

-- Lists that are in the data already need no tokenizer: here the years per bibliography.
WITH years AS (
  SELECT bibliography, array_agg(year) AS years
  FROM 'sql-examples/data/references.parquet' GROUP BY bibliography
)
SELECT round(jaccard(a.years, b.years), 3) AS score, a.bibliography, b.bibliography AS other
FROM years a SIMJOIN years b
  ON jaccard(a.years, b.years) >= 0.6 AND a.bibliography < b.bibliography
ORDER BY jaccard(a.years, b.years) DESC, a.bibliography, b.bibliography;
