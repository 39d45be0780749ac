-- Plans: what EXPLAIN and EXPLAIN ANALYZE say of a similarity join.
--
-- docs/explain.md explains the counters. One partition, so that the plan is the same everywhere.

SET datafusion.execution.target_partitions = 1;

CREATE TABLE refs AS
SELECT id, year, bibliography, qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

-- A self-join: one input, each pair decided once.
EXPLAIN
SELECT a.id, b.id, jaccard(a.grams, b.grams) AS score
FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;

-- Two inputs with a blocking key. A plain JOIN is recognised as well, and the plan says why the
-- operator was preferred to a hash join.
EXPLAIN
SELECT a.id, b.id
FROM refs a JOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.year = b.year
WHERE a.bibliography = 'bowern' AND b.bibliography = 'ozbib';

-- Pairs that are only counted are not made.
EXPLAIN
SELECT count(*) FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;

-- A plain JOIN that the operator cannot run stays what it was, and says why. SIMJOIN in place of
-- JOIN would be an error here.
EXPLAIN
SELECT a.id, b.id FROM refs a JOIN refs b ON jaccard(a.grams, b.grams) >= 0 AND a.id < b.id;

-- What happened.
EXPLAIN ANALYZE
SELECT a.id, b.id, jaccard(a.grams, b.grams) AS score
FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;
