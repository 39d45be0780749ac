-- wa, sum, threshold 0.55
SET datafusion.execution.target_partitions = 1;
CREATE VIEW wa AS SELECT id, lower(title) AS title, lower(brand) AS brand, regexp_replace(lower(modelno), '[^a-z0-9]', '', 'g') AS modelno, price::double AS price
FROM 'data/walmart_amazon_a.parquet';
CREATE VIEW wb AS SELECT id, lower(title) AS title, lower(brand) AS brand, regexp_replace(lower(modelno), '[^a-z0-9]', '', 'g') AS modelno, price::double AS price
FROM 'data/walmart_amazon_b.parquet';
SELECT * FROM one_to_one((
  SELECT a.id AS id_a, b.id AS id_b, 0.5 * jaccard(word_tokens(a.title), word_tokens(b.title)) + 0.1 * coalesce(jaro_winkler_similarity(a.brand, b.brand), 0)
     + 0.3 * coalesce(levenshtein_similarity(a.modelno, b.modelno), 0) + CASE WHEN least(a.price, b.price) / greatest(a.price, b.price) >= 0.8 THEN 0.1 ELSE 0 END AS score
  FROM wa a SIMJOIN wb b ON 0.5 * jaccard(word_tokens(a.title), word_tokens(b.title)) + 0.1 * coalesce(jaro_winkler_similarity(a.brand, b.brand), 0)
     + 0.3 * coalesce(levenshtein_similarity(a.modelno, b.modelno), 0) + CASE WHEN least(a.price, b.price) / greatest(a.price, b.price) >= 0.8 THEN 0.1 ELSE 0 END >= 0.55));
