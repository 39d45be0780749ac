-- The options of the join.
--
-- Options change speed and memory, never the answer. They can also be set from the environment:
-- SIMJOIN_STRATEGY=ppjoin simjoin …

SELECT name, value FROM information_schema.df_settings
WHERE name LIKE 'simjoin.%' ORDER BY name;

SET simjoin.strategy = 'ppjoin';

SHOW simjoin.strategy;

CREATE VIEW refs AS
SELECT id, qgrams(lower(title), 3) AS grams FROM 'sql-examples/data/references.parquet';

SELECT count(*) AS pairs
FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;

SET simjoin.strategy = 'allpairs';

SELECT count(*) AS pairs
FROM refs a SIMJOIN refs b ON jaccard(a.grams, b.grams) >= 0.8 AND a.id < b.id;
