-- Images as vectors: 1,797 handwritten digits of 8 x 8 pixels, 64 integers each.

CREATE VIEW digits AS SELECT * FROM 'sql-examples/data/digits.parquet';

-- How often does an image show the same digit as those that are near it?
SELECT a.digit, count(*) AS near_by, count(*) FILTER (WHERE a.digit = b.digit) AS same_digit
FROM digits a SIMJOIN digits b ON array_distance(a.pixels, b.pixels) <= 20 AND a.id <> b.id
GROUP BY a.digit
ORDER BY a.digit;

-- Different digits that look alike. Equal distances are ordered by id.
SELECT a.id, b.id AS other, a.digit, b.digit AS other_digit,
       round(array_distance(a.pixels, b.pixels), 2) AS distance
FROM digits a
SIMJOIN digits b ON array_distance(a.pixels, b.pixels) <= 20 AND a.id < b.id AND a.digit <> b.digit
ORDER BY array_distance(a.pixels, b.pixels), a.id, b.id
LIMIT 5;

-- Images unlike all others of their digit: it is a blocking key, only images of one digit are compared.
SELECT a.id, a.digit
FROM digits a
LEFT ANTI SIMJOIN digits b
  ON array_distance(a.pixels, b.pixels) <= 30 AND a.digit = b.digit AND a.id <> b.id
ORDER BY a.id;

-- The number of images of each digit without a partner by angle, whatever their brightness.
SELECT a.digit, count(*) AS alone
FROM digits a
LEFT ANTI SIMJOIN digits b ON cosine_distance(a.pixels, b.pixels) <= 0.05 AND a.id <> b.id
GROUP BY a.digit
ORDER BY a.digit;
