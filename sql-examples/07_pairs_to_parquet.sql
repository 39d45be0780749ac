-- All pairs to a Parquet file, and back.
--
-- The file goes to the build folder `target`, which is not under version control.

COPY (
  WITH refs AS (
    SELECT id, qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
    FROM 'sql-examples/data/references.parquet'
  )
  SELECT a.id AS a, b.id AS b, jaccard(a.grams, b.grams) AS score
  FROM refs a SIMJOIN refs b
    ON jaccard(a.grams, b.grams) >= 0.5 AND a.id < b.id
) TO 'target/pairs.parquet';

DESCRIBE 'target/pairs.parquet';

SELECT floor(score * 10) / 10 AS from_score, count(*) AS pairs
FROM 'target/pairs.parquet'
GROUP BY from_score
ORDER BY from_score;
