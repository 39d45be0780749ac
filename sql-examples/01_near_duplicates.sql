-- Near-duplicate text.
--
-- The same work stands in several bibliographies, spelt differently. Each reference becomes the
-- set of the 3-character runs of its title and author; two references are near-duplicates when
-- these sets have a Jaccard similarity of at least 0.8. `a.id < b.id` gives each pair once.
--
--   cargo run --release -- -f sql-examples/01_near_duplicates.sql

CREATE VIEW refs AS
SELECT id, title, qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

-- How many pairs there are.
SELECT count(*) AS pairs
FROM refs a SIMJOIN refs b
  ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;

-- The pairs that are only just similar enough. The score is that of the join: it is not computed
-- a second time.
SELECT round(jaccard(a.grams, b.grams), 3) AS score,
       a.id, left(a.title, 50) AS title, b.id AS other_id, left(b.title, 50) AS other_title
FROM refs a SIMJOIN refs b
  ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id
ORDER BY jaccard(a.grams, b.grams), a.id, b.id
LIMIT 12;
