-- Deduplicate: keep the longest reference of each group, and say what was dropped and for which one.
--
-- The order of the nodes decides who is kept: here, a rank by the length of the title. A dropped
-- reference is similar to the one that stands for it; chains of near-duplicates drop nothing more.

CREATE TABLE ranked AS
SELECT id, title, year, bibliography,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams,
       row_number() OVER (ORDER BY length(title) DESC, year DESC, id) AS rank
FROM 'sql-examples/data/references.parquet';

CREATE TABLE decided AS
SELECT * FROM representatives((
  SELECT a.rank, b.rank, jaccard(a.grams, b.grams) FROM ranked a LEFT SIMJOIN ranked b
  ON jaccard(a.grams, b.grams) >= 0.8 AND a.rank < b.rank));

SELECT count(*) FILTER (WHERE kept) AS kept, count(*) FILTER (WHERE NOT kept) AS dropped FROM decided;

-- The references that stay.
SELECT count(*) AS refs FROM ranked JOIN decided ON node = rank AND kept;

-- The audit: the least similar of those that were dropped.
SELECT round(score, 3) AS score, d.id, left(d.title, 45) AS dropped, k.id AS kept_id,
       left(k.title, 45) AS kept_title
FROM decided JOIN ranked d ON d.rank = node JOIN ranked k ON k.rank = representative
WHERE NOT kept
ORDER BY score, d.id
LIMIT 10;
