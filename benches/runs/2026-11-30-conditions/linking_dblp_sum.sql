-- dblp, sum, threshold 0.5
SET datafusion.execution.target_partitions = 1;
CREATE VIEW da AS SELECT id, lower(title) AS title, lower(authors) AS authors, year,
  CASE venue WHEN 'SIGMOD Conference' THEN 'sigmod' WHEN 'VLDB' THEN 'vldb' WHEN 'SIGMOD Record' THEN 'record'
    WHEN 'VLDB J.' THEN 'vldbj' WHEN 'ACM Trans. Database Syst.' THEN 'tods' END AS venue
FROM 'data/dblp_acm_a.parquet';
CREATE VIEW db AS SELECT id, lower(title) AS title, lower(authors) AS authors, year,
  CASE WHEN venue LIKE 'International Conf%' THEN 'sigmod' WHEN venue = 'Very Large Data Bases' THEN 'vldb'
    WHEN venue = 'ACM SIGMOD Record' THEN 'record' WHEN venue LIKE 'The VLDB J%' THEN 'vldbj' WHEN venue LIKE '%(TODS)' THEN 'tods' END AS venue
FROM 'data/dblp_acm_b.parquet';
SELECT * FROM one_to_one((
  SELECT a.id AS id_a, b.id AS id_b, 0.5 * jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) + 0.3 * coalesce(jaccard(word_tokens(a.authors), word_tokens(b.authors)), 0)
     + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END + CASE WHEN a.venue = b.venue THEN 0.1 ELSE 0 END AS score
  FROM da a SIMJOIN db b ON 0.5 * jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) + 0.3 * coalesce(jaccard(word_tokens(a.authors), word_tokens(b.authors)), 0)
     + CASE WHEN a.year = b.year THEN 0.1 ELSE 0 END + CASE WHEN a.venue = b.venue THEN 0.1 ELSE 0 END >= 0.5));
