-- What is new, what is already known: semi and anti joins.
--
-- The references of one bibliography (evobib) arrive, all others are there. A reference that has
-- a near-duplicate there is known, one without is new. Each row comes out once at most, however
-- many partners it has.

CREATE VIEW arriving AS
SELECT id, title, author, qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet' WHERE bibliography = 'evobib';

CREATE VIEW present AS
SELECT id, qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet' WHERE bibliography <> 'evobib';

-- Known.
SELECT a.id, left(a.title, 60) AS title
FROM arriving a LEFT SEMI SIMJOIN present b ON jaccard(a.grams, b.grams) >= 0.8
ORDER BY a.id
LIMIT 8;

-- New.
SELECT a.id, left(a.title, 60) AS title
FROM arriving a LEFT ANTI SIMJOIN present b ON jaccard(a.grams, b.grams) >= 0.8
ORDER BY a.id
LIMIT 8;

-- The same in plain SQL: NOT EXISTS becomes an anti join, which the operator runs as well.
SELECT count(*) AS new
FROM arriving a
WHERE NOT EXISTS (SELECT 1 FROM present b WHERE jaccard(a.grams, b.grams) >= 0.8);
