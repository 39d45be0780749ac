-- wa, case, threshold 8
SET datafusion.execution.target_partitions = 1;
CREATE VIEW wa AS SELECT id, lower(title) AS title, lower(brand) AS brand, regexp_replace(lower(modelno), '[^a-z0-9]', '', 'g') AS modelno, price::double AS price
FROM 'data/walmart_amazon_a.parquet';
CREATE VIEW wb AS SELECT id, lower(title) AS title, lower(brand) AS brand, regexp_replace(lower(modelno), '[^a-z0-9]', '', 'g') AS modelno, price::double AS price
FROM 'data/walmart_amazon_b.parquet';
SELECT * FROM one_to_one((
  SELECT a.id AS id_a, b.id AS id_b, 8 * coalesce(jaccard(qgrams(a.title, 3), qgrams(b.title, 3)), 0)
     + CASE WHEN jaro_winkler_similarity(a.brand, b.brand) >= 0.9 THEN 1 WHEN jaro_winkler_similarity(a.brand, b.brand) < 0.9 THEN -1 ELSE 0 END
     + CASE WHEN a.modelno = b.modelno THEN 6 WHEN levenshtein_similarity(a.modelno, b.modelno) >= 0.7 THEN 3 WHEN levenshtein_similarity(a.modelno, b.modelno) < 0.7 THEN -1 ELSE 0 END
     + CASE WHEN least(a.price, b.price) / greatest(a.price, b.price) >= 0.8 THEN 1 WHEN least(a.price, b.price) / greatest(a.price, b.price) < 0.5 THEN -1 ELSE 0 END AS score
  FROM wa a SIMJOIN wb b ON 8 * coalesce(jaccard(qgrams(a.title, 3), qgrams(b.title, 3)), 0)
     + CASE WHEN jaro_winkler_similarity(a.brand, b.brand) >= 0.9 THEN 1 WHEN jaro_winkler_similarity(a.brand, b.brand) < 0.9 THEN -1 ELSE 0 END
     + CASE WHEN a.modelno = b.modelno THEN 6 WHEN levenshtein_similarity(a.modelno, b.modelno) >= 0.7 THEN 3 WHEN levenshtein_similarity(a.modelno, b.modelno) < 0.7 THEN -1 ELSE 0 END
     + CASE WHEN least(a.price, b.price) / greatest(a.price, b.price) >= 0.8 THEN 1 WHEN least(a.price, b.price) / greatest(a.price, b.price) < 0.5 THEN -1 ELSE 0 END >= 8));
