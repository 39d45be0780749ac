-- A self-join, and clusters from its pairs.
--
-- A join of a table with itself reads and indexes it once. References that a chain of
-- near-duplicates connects form a cluster, named after its least id.

CREATE VIEW refs AS
SELECT id, title, year, bibliography,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

-- Both directions of each pair, and each reference with itself.
CREATE TABLE similar AS
SELECT a.id AS x, b.id AS y
FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8;

-- Everything that can be reached from each reference over any number of pairs: UNION drops what is
-- known already, so that the recursion ends once nothing new is reached.
CREATE TABLE clusters AS
WITH RECURSIVE reach AS (
  SELECT x AS id, y AS seen FROM similar
  UNION
  SELECT reach.id, similar.y
  FROM reach JOIN similar ON similar.x = reach.seen
)
SELECT id, min(seen) AS cluster FROM reach GROUP BY id;

SELECT count(DISTINCT cluster) AS clusters, count(*) AS refs FROM clusters;

-- One cluster of the largest.
SELECT c.cluster, r.id, r.year, r.bibliography, left(r.title, 60) AS title
FROM clusters c JOIN refs r ON r.id = c.id
WHERE c.cluster = (
  SELECT cluster FROM clusters GROUP BY cluster ORDER BY count(*) DESC, cluster LIMIT 1
)
ORDER BY r.id;
