-- A prepared statement: the threshold and the text to look for are parameters.
--
-- The threshold is a constant again when the statement is executed, so the operator runs it.

PREPARE look_for(TEXT, DOUBLE) AS
WITH refs AS (
  SELECT id, title, qgrams(lower(title), 3) AS grams
  FROM 'sql-examples/data/references.parquet'
)
SELECT round(jaccard(refs.grams, wanted.grams), 3) AS score, refs.id, refs.title
FROM refs
SIMJOIN (SELECT qgrams(lower($1), 3) AS grams) wanted
  ON jaccard(refs.grams, wanted.grams) >= $2
ORDER BY jaccard(refs.grams, wanted.grams) DESC, refs.id;

EXECUTE look_for('A grammar of Dolakha Newari', 0.7);

EXECUTE look_for('Languages of the Andes', 0.5);

DEALLOCATE look_for;
