-- Clusters: what hangs together over any number of pairs.
--
-- A join of a table with itself reads and indexes it once. References that a chain of near-duplicates
-- connects form a component, named after its least id. LEFT lists references without a near-duplicate too.

CREATE VIEW refs AS
SELECT id, title, year, bibliography,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

CREATE TABLE clusters AS
SELECT * FROM connected_components((
  SELECT a.id, b.id FROM refs a LEFT SIMJOIN refs b
  ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id));

SELECT count(DISTINCT component) AS clusters, count(*) AS refs FROM clusters;

-- One cluster of the largest.
SELECT c.component, r.id, r.year, r.bibliography, left(r.title, 60) AS title
FROM clusters c JOIN refs r ON r.id = c.node
WHERE c.component = (SELECT component FROM clusters ORDER BY size DESC, component LIMIT 1)
ORDER BY r.id;

-- Several thresholds in one pass: the stricter, the more clusters.
SELECT count(DISTINCT component_0_9) AS at_0_9, count(DISTINCT component_0_8) AS at_0_8,
       count(DISTINCT component_0_7) AS at_0_7
FROM connected_components((
  SELECT a.id, b.id, jaccard(a.grams, b.grams) FROM refs a LEFT SIMJOIN refs b
  ON jaccard(a.grams, b.grams) >= 0.7 AND a.id < b.id), [0.9, 0.8, 0.7]);
