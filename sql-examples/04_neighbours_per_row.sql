-- How many near-duplicates each reference has.
--
-- A LEFT SIMJOIN keeps the references without any.

CREATE VIEW refs AS
SELECT id, title,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

-- The references with the most neighbours. Each would be its own neighbour, but for
-- `b.id <> a.id`.
SELECT a.id, left(a.title, 60) AS title, count(b.id) AS neighbours
FROM refs a LEFT SIMJOIN refs b
  ON jaccard(a.grams, b.grams) >= 0.8 AND b.id <> a.id
GROUP BY a.id, a.title
ORDER BY neighbours DESC, a.id
LIMIT 10;

-- How many references have how many. Neither join makes the pairs that it counts:
-- `yields=counts per row` in its plan.
SELECT neighbours, count(*) AS refs
FROM (
  SELECT a.id, count(b.id) AS neighbours
  FROM refs a LEFT SIMJOIN refs b
    ON jaccard(a.grams, b.grams) >= 0.8 AND b.id <> a.id
  GROUP BY a.id
)
GROUP BY neighbours
ORDER BY neighbours;
