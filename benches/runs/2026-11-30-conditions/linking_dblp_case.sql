-- dblp, case, threshold 4
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
  SELECT a.id AS id_a, b.id AS id_b, CASE WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.9 THEN 8 WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.6 THEN 5
          WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.3 THEN 2 ELSE -6 END
     + CASE WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.8 THEN 6 WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.4 THEN 3
            WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.1 THEN 0 ELSE -4 END
     + CASE WHEN a.year = b.year THEN 2 WHEN a.year <> b.year THEN -3 ELSE 0 END + CASE WHEN a.venue = b.venue THEN 2 WHEN a.venue <> b.venue THEN -3 ELSE 0 END AS score
  FROM da a SIMJOIN db b ON CASE WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.9 THEN 8 WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.6 THEN 5
          WHEN jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.3 THEN 2 ELSE -6 END
     + CASE WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.8 THEN 6 WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.4 THEN 3
            WHEN jaccard(word_tokens(a.authors), word_tokens(b.authors)) >= 0.1 THEN 0 ELSE -4 END
     + CASE WHEN a.year = b.year THEN 2 WHEN a.year <> b.year THEN -3 ELSE 0 END + CASE WHEN a.venue = b.venue THEN 2 WHEN a.venue <> b.venue THEN -3 ELSE 0 END >= 4));
