-- Vectors: pairs of references whose titles are near each other as vectors.
--
-- The vectors are made here by hashing the 2-grams of a title to 64 dimensions. Embeddings of a model
-- are joined in the same way: a column of lists of numbers.

CREATE VIEW refs AS SELECT * FROM 'sql-examples/data/references.parquet';

CREATE TABLE counts AS
SELECT id, (ascii(gram) * 31 + ascii(substr(gram, 2))) % 64 AS dimension, count(*) AS number
FROM (SELECT id, unnest(qgrams(lower(title), 2)) AS gram FROM refs)
GROUP BY id, dimension;

CREATE TABLE vectors AS
SELECT r.id, array_agg(CAST(coalesce(c.number, 0) AS FLOAT) ORDER BY d.value) AS v
FROM refs r
CROSS JOIN generate_series(0, 63) d
LEFT JOIN counts c ON c.id = r.id AND c.dimension = d.value
GROUP BY r.id;

SELECT count(*) AS pairs
FROM vectors a SIMJOIN vectors b ON cosine_distance(a.v, b.v) <= 0.05 AND a.id < b.id;

-- The distance is a column like any other.
SELECT round(cosine_distance(a.v, b.v), 3) AS distance, x.title, y.title AS other
FROM vectors a
SIMJOIN vectors b ON cosine_distance(a.v, b.v) <= 0.05 AND a.id < b.id
JOIN refs x ON x.id = a.id
JOIN refs y ON y.id = b.id
WHERE x.title <> y.title
ORDER BY cosine_distance(a.v, b.v) DESC, a.id, b.id
LIMIT 5;

-- References with many others near by, without making the pairs.
SELECT a.id, count(*) AS others
FROM vectors a SIMJOIN vectors b ON array_distance(a.v, b.v) <= 3 AND a.id <> b.id
GROUP BY a.id
ORDER BY others DESC, a.id
LIMIT 3;
