-- fz, sum, threshold 0.55
SET datafusion.execution.target_partitions = 1;
CREATE VIEW fa AS SELECT id, lower(name) AS name, lower(addr) AS addr, lower(city) AS city, regexp_replace(phone, '[^0-9]', '', 'g') AS phone
FROM 'data/fodors_zagats_a.parquet';
CREATE VIEW fb AS SELECT id, lower(name) AS name, lower(addr) AS addr, lower(city) AS city, regexp_replace(phone, '[^0-9]', '', 'g') AS phone
FROM 'data/fodors_zagats_b.parquet';
SELECT * FROM one_to_one((
  SELECT a.id AS id_a, b.id AS id_b, 0.4 * jaccard(qgrams(a.name, 2), qgrams(b.name, 2)) + 0.3 * coalesce(jaccard(word_tokens(a.addr), word_tokens(b.addr)), 0)
     + 0.1 * coalesce(jaro_winkler_similarity(a.city, b.city), 0) + 0.2 * coalesce(levenshtein_similarity(a.phone, b.phone), 0) AS score
  FROM fa a SIMJOIN fb b ON 0.4 * jaccard(qgrams(a.name, 2), qgrams(b.name, 2)) + 0.3 * coalesce(jaccard(word_tokens(a.addr), word_tokens(b.addr)), 0)
     + 0.1 * coalesce(jaro_winkler_similarity(a.city, b.city), 0) + 0.2 * coalesce(levenshtein_similarity(a.phone, b.phone), 0) >= 0.55));
