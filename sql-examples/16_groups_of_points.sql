-- Groups of points: those that a chain of short steps connects, as in DBSCAN.
--
-- A point is a core point where at least three points, itself among them, lie within the distance. Core
-- points within the distance of each other are of one group; a point near one belongs to its group too.

CREATE TABLE points AS
SELECT value AS id,
       CASE value % 3 WHEN 0 THEN [cos(value), sin(value)]
                      WHEN 1 THEN [5 + 0.5 * cos(value), 0.5 * sin(value)]
                      ELSE [20.0 * value, 7.0] END AS v
FROM generate_series(1, 300);

CREATE TABLE cores AS
SELECT a.id FROM points a SIMJOIN points b ON array_distance(a.v, b.v) <= 0.2
GROUP BY a.id HAVING count(*) >= 3;

CREATE TABLE groups AS
SELECT * FROM connected_components((
  SELECT a.id, b.id
  FROM (SELECT * FROM points WHERE id IN (SELECT id FROM cores)) a
  LEFT SIMJOIN (SELECT * FROM points WHERE id IN (SELECT id FROM cores)) b
  ON array_distance(a.v, b.v) <= 0.2 AND a.id < b.id));

SELECT component, count(*) AS core_points FROM groups GROUP BY component ORDER BY component;

-- Points near a core point, and those near none: noise.
SELECT count(DISTINCT p.id) FILTER (WHERE near.component IS NOT NULL) AS grouped,
       count(DISTINCT p.id) FILTER (WHERE near.component IS NULL) AS noise
FROM points p LEFT JOIN (
  SELECT a.id, g.component
  FROM points a SIMJOIN points b ON array_distance(a.v, b.v) <= 0.2
  JOIN groups g ON g.node = b.id) near ON near.id = p.id;
