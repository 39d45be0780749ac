-- Record linkage: two tables, R × S, with a blocking key.
--
-- Which references of one bibliography (Bowern's, on Australia) stand in another (ozbib) as well?
-- The titles must be similar and the years equal. The equality becomes a blocking key of the
-- similarity join: only references of the same year are compared at all.

CREATE VIEW bowern AS
SELECT id, title, year, qgrams(lower(title), 3) AS grams
FROM 'sql-examples/data/references.parquet' WHERE bibliography = 'bowern';

CREATE VIEW ozbib AS
SELECT id, title, year, qgrams(lower(title), 3) AS grams
FROM 'sql-examples/data/references.parquet' WHERE bibliography = 'ozbib';

SELECT round(jaccard(a.grams, b.grams), 3) AS score, a.year,
       left(a.title, 48) AS bowern, left(b.title, 48) AS ozbib
FROM bowern a SIMJOIN ozbib b
  ON jaccard(a.grams, b.grams) >= 0.7 AND a.year = b.year
ORDER BY jaccard(a.grams, b.grams), a.id, b.id
LIMIT 12;

-- An outer join keeps what has no partner.
SELECT count(*) FILTER (WHERE a.id IS NOT NULL AND b.id IS NOT NULL) AS pairs,
       count(*) FILTER (WHERE b.id IS NULL) AS only_in_bowern,
       count(*) FILTER (WHERE a.id IS NULL) AS only_in_ozbib
FROM bowern a FULL SIMJOIN ozbib b
  ON jaccard(a.grams, b.grams) >= 0.7 AND a.year = b.year;
