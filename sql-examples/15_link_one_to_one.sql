-- Link two tables one to one, and measure how well a cheaper key finds the same links.
--
-- Each reference of one bibliography has at most one partner in the other: pairs are taken by falling
-- score, and a reference that is taken is taken.

CREATE VIEW refs AS
SELECT id, title, author, year, bibliography,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams,
       word_tokens(title) AS words
FROM 'sql-examples/data/references.parquet';

CREATE TABLE links AS
SELECT "left" AS bowern, "right" AS ozbib, score FROM one_to_one((
  SELECT a.id, b.id, jaccard(a.grams, b.grams)
  FROM (SELECT * FROM refs WHERE bibliography = 'bowern') a
  SIMJOIN (SELECT * FROM refs WHERE bibliography = 'ozbib') b
  ON jaccard(a.grams, b.grams) >= 0.6));

SELECT count(*) AS links, count(DISTINCT bowern) AS bowern, count(DISTINCT ozbib) AS ozbib FROM links;

-- Links by the words of the title alone, against those above as the known matches.
CREATE TABLE by_words AS
SELECT "left" AS bowern, "right" AS ozbib FROM one_to_one((
  SELECT a.id, b.id, jaccard(a.words, b.words)
  FROM (SELECT * FROM refs WHERE bibliography = 'bowern') a
  SIMJOIN (SELECT * FROM refs WHERE bibliography = 'ozbib') b
  ON jaccard(a.words, b.words) >= 0.8));

SELECT round(hits / found, 3) AS "precision", round(hits / known, 3) AS recall
FROM (SELECT count(*) AS found FROM by_words),
     (SELECT count(*) AS known FROM links),
     (SELECT CAST(count(*) AS DOUBLE) AS hits FROM links NATURAL JOIN by_words);
