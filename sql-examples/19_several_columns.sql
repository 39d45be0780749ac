-- Link two tables by several columns in one score, without a hand-written rule of which rows to compare.
--
-- The planner derives from the sum what its parts must reach: EXPLAIN shows the bound that drives the join.

CREATE VIEW refs AS
SELECT id, title, author, try_cast(year AS BIGINT) AS year, bibliography, word_tokens(title) AS words
FROM 'sql-examples/data/references.parquet';

-- A weighted sum: a missing author or year counts as 0, and a year may be off by one.
CREATE VIEW scored AS
SELECT a.id AS bowern, b.id AS ozbib,
       0.6 * jaccard(a.words, b.words)
         + 0.3 * coalesce(levenshtein_similarity(a.author, b.author), 0)
         + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END AS score
FROM (SELECT * FROM refs WHERE bibliography = 'bowern') a
SIMJOIN (SELECT * FROM refs WHERE bibliography = 'ozbib') b
  ON 0.6 * jaccard(a.words, b.words)
       + 0.3 * coalesce(levenshtein_similarity(a.author, b.author), 0)
       + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END >= 0.75;

SELECT count(*) AS pairs, count(DISTINCT bowern) AS bowern, round(min(score), 2) AS least FROM scored;

-- The best partner of each.
SELECT count(*) AS links FROM one_to_one((SELECT bowern, ozbib, score FROM scored));

-- The best partner of each without a threshold, and how many of them are poor.
SELECT count(*) AS nearest, sum(CASE WHEN score < 0.75 THEN 1 ELSE 0 END) AS poor
FROM (
  SELECT a.id,
         0.6 * jaccard(a.words, b.words)
           + 0.3 * coalesce(levenshtein_similarity(a.author, b.author), 0)
           + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END AS score
  FROM (SELECT * FROM refs WHERE bibliography = 'bowern') a
  SIMJOIN (SELECT * FROM refs WHERE bibliography = 'ozbib') b
    NEAREST 1 BY SIMILARITY 0.6 * jaccard(a.words, b.words)
                              + 0.3 * coalesce(levenshtein_similarity(a.author, b.author), 0)
                              + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END
);

-- Alternatives: nearly the same title, or the same author in nearly the same year under a similar title.
SELECT count(*) AS pairs
FROM refs a SIMJOIN refs b
  ON (levenshtein(a.title, b.title) <= 3
      OR a.author = b.author AND jaccard(a.words, b.words) >= 0.6)
 AND a.year BETWEEN b.year - 1 AND b.year + 1 AND a.id < b.id;
