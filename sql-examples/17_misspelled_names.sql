-- Find misspelled names in a register, by edits and by Jaro-Winkler.
--
-- The register holds the authors that occur at least twice; the others are looked up in it. A blocking
-- key, the first letter, keeps names of other letters apart.

CREATE VIEW authors AS
SELECT author, count(*) AS titles FROM 'sql-examples/data/references.parquet'
WHERE author <> '' GROUP BY author;

CREATE VIEW register AS SELECT author FROM authors WHERE titles > 1;
CREATE VIEW others AS SELECT author FROM authors WHERE titles = 1;

SELECT o.author, r.author AS known, levenshtein(o.author, r.author) AS edits
FROM others o SIMJOIN register r
  ON levenshtein(o.author, r.author) <= 2 AND left(o.author, 1) = left(r.author, 1)
ORDER BY edits, o.author, known LIMIT 10;

-- The best match of each name, or none: names written otherwise begin alike. Several names may mean one
-- entry, so this is the nearest entry of each, and not a matching one to one.
SELECT o.author, r.author AS known,
       round(jaro_winkler_similarity(o.author, r.author), 3) AS score
FROM others o LEFT SIMJOIN register r
  NEAREST 1 BY SIMILARITY jaro_winkler_similarity(o.author, r.author)
  ON jaro_winkler_similarity(o.author, r.author) >= 0.93
ORDER BY score DESC NULLS LAST, o.author, known LIMIT 10;

-- How many names have no entry within one edit for each four characters.
SELECT count(*) AS unknown FROM others o LEFT ANTI SIMJOIN register r
  ON levenshtein_similarity(o.author, r.author) >= 0.75;
