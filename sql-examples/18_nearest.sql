-- Nearest rows: for each row the most similar ones, without a threshold.

CREATE VIEW refs AS
SELECT id, title, year, bibliography,
       qgrams(lower(title || ' ' || coalesce(author, '')), 3) AS grams
FROM 'sql-examples/data/references.parquet';

-- The two references that are most like each of some others, within the same year.
SELECT left(a.title, 40) AS title, left(b.title, 40) AS other, round(jaccard(a.grams, b.grams), 3) AS score
FROM refs a SIMJOIN refs b NEAREST 2 BY SIMILARITY jaccard(a.grams, b.grams)
  ON a.id <> b.id AND a.year = b.year
WHERE a.id < 8
ORDER BY a.id, score DESC, b.id;

-- What remains of the best match of each reference in another bibliography, by its similarity.
SELECT floor(10 * jaccard(a.grams, b.grams)) / 10 AS at_least, count(*) AS refs
FROM (SELECT * FROM refs WHERE bibliography = 'bowern') a
LEFT SIMJOIN (SELECT * FROM refs WHERE bibliography = 'ozbib') b
  NEAREST BY SIMILARITY jaccard(a.grams, b.grams)
GROUP BY at_least
ORDER BY at_least DESC;

-- A reader of handwritten digits: an image shows the digit that most of its three nearest others show.
CREATE VIEW digits AS SELECT * FROM 'sql-examples/data/digits.parquet';

SELECT count(*) AS images, count(*) FILTER (WHERE read = digit) AS read_right
FROM (
  SELECT id, digit, first_value(seen ORDER BY votes DESC, nearest) AS read
  FROM (
    SELECT a.id, a.digit, b.digit AS seen, count(*) AS votes,
           min(array_distance(a.pixels, b.pixels)) AS nearest
    FROM digits a JOIN digits b NEAREST 3 BY DISTANCE array_distance(a.pixels, b.pixels) ON a.id <> b.id
    GROUP BY a.id, a.digit, b.digit
  )
  GROUP BY id, digit
);
