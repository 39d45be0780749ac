-- Few, large sets: whole documents by all their words. Here a bibliography is a document, the titles
-- of its references are its text, and every word has a number.

CREATE TABLE words AS
SELECT word, row_number() OVER (ORDER BY word) AS number
FROM (SELECT DISTINCT unnest(word_tokens(title)) AS word
      FROM 'sql-examples/data/references.parquet');

-- Sets in ascending order are compared where they lie, in a SELECT list too.
CREATE TABLE documents AS
SELECT bibliography, array_agg(DISTINCT number ORDER BY number) AS words
FROM (SELECT bibliography, unnest(word_tokens(title)) AS word
      FROM 'sql-examples/data/references.parquet') titles
JOIN words ON words.word = titles.word
GROUP BY bibliography;

SELECT count(*) AS documents, min(cardinality(words)) AS least, max(cardinality(words)) AS most
FROM documents;

-- What any two of them share, however little. A prefix of a set tells nothing here: every pair is an
-- answer. The strategy scancount adds up what all sets share without looking at pairs of sets; for
-- a thousand sets of a million elements, `auto` takes it by itself.
SET simjoin.strategy = 'scancount';

SELECT count(*) AS pairs, sum(overlap(a.words, b.words)) AS common
FROM documents a SIMJOIN documents b
  ON overlap(a.words, b.words) >= 1 AND a.bibliography < b.bibliography;

-- The pairs most alike for their size.
SELECT a.bibliography, b.bibliography AS other, overlap(a.words, b.words) AS common,
       round(jaccard(a.words, b.words), 3) AS score
FROM documents a SIMJOIN documents b
  ON jaccard(a.words, b.words) >= 0.1 AND a.bibliography < b.bibliography
ORDER BY jaccard(a.words, b.words) DESC, a.bibliography, b.bibliography
LIMIT 5;

-- Documents that hold more than half of the words of a smaller one.
SELECT a.bibliography AS smaller, b.bibliography AS larger,
       round(containment(a.words, b.words), 2) AS share
FROM documents a SIMJOIN documents b
  ON containment(a.words, b.words) > 0.5 AND a.bibliography <> b.bibliography
ORDER BY containment(a.words, b.words) DESC, a.bibliography, b.bibliography
LIMIT 5;

-- One set against all others, without a join: the set that is the same in every row is prepared once.
SELECT bibliography, overlap(words, (SELECT words FROM documents WHERE bibliography = 'sala')) AS common
FROM documents
ORDER BY common DESC, bibliography
LIMIT 3;
