-- Statements over the tables and models of reference.py that were once answered wrong, refused, or
-- asked too much, one a line; their rows in any order.

SELECT t(x).v, l(x), q(x) + 1, -q(x), q(x)::VARCHAR, NOT p(x) FROM a
SELECT a.x FROM a LEFT JOIN b ON p(b.x)
SELECT a.x FROM a LEFT JOIN b ON p(b.x) AND p(b.x)
SELECT 1 AS f FROM b WHERE p(x) AND p(id)
SELECT q(x), q(y) FROM a
SELECT "Odd Case" AS f FROM c WHERE p(f)
SELECT x + 1 AS f FROM a WHERE p(f)
SELECT id AS f, f AS g FROM b WHERE p(g)
SELECT t(x) AS f, id AS g FROM a GROUP BY f, g HAVING t(x)['u'] > 1
SELECT q(x) AS f FROM a LEFT JOIN (VALUES (1)) AS v(g) ON x > 2 AND p(v.g) AND p(v.g)
SELECT p(1) FROM c ORDER BY 1 LIMIT 5
SELECT v FROM b JOIN UNNEST(l(k)) AS u(v) ON TRUE WHERE p(id)
SELECT r(x) FROM b JOIN UNNEST(l(b.x)) AS u(v) ON TRUE
SELECT w('BA') FROM a ORDER BY ALL LIMIT 6
SELECT 6 AS f FROM a GROUP BY ALL HAVING p(3)
SELECT p(y) AS f, f FROM a
SELECT p(y) AS f, f AND TRUE AS g, q(y) AS h, h + 1 AS i, i + h AS j FROM a
SELECT q(x) AS f, f + 1 FROM a WHERE f > 3 ORDER BY f, x
SELECT 1 AS f FROM a AS z WHERE (SELECT max(n.id) FROM b LEFT JOIN b AS n ON n.k <> z.y AND p(b.k)) > 1
SELECT d.id FROM (SELECT * FROM a) AS d, LATERAL (SELECT 1 AS g FROM b RIGHT JOIN a AS n ON d.id >= 1 AND p(n.id)) AS i
SELECT 'C' AS f FROM e HAVING p(3)
SELECT count(*), max(q(x)) FROM e HAVING p(3)
SELECT p(6) AS f, f FROM c
SELECT id, x, id FROM a WHERE p(x)
SELECT * FROM a JOIN b ON p(a.x) AND a.id = b.id
SELECT q(z.x) AS f, a.id AS g FROM a LEFT JOIN (SELECT 3 AS k) AS d ON p(d.k) CROSS JOIN a AS z GROUP BY 1, 2
WITH n(i, k) AS (SELECT id, l(y) FROM c) SELECT 'BA' AS f, n.k FROM n
WITH n(i, k) AS (SELECT id, q(y) FROM c) SELECT * FROM n AS m(u, v) WHERE v > 2
SELECT w(s) AS f, row_number() OVER (ORDER BY f, id) AS g FROM a
SELECT bool_or(TRUE) OVER (PARTITION BY (SELECT 0 FROM b HAVING p(0))) AS f FROM b
SELECT r(9) AS f FROM b WHERE EXISTS (SELECT f FROM a)
SELECT x AS f FROM a WHERE EXISTS (SELECT s FROM c WHERE f > 3) AND p(x)
SELECT EXISTS (SELECT q(x) + 1 AS h FROM c) AS f, q(x) AS g FROM a GROUP BY 2
SELECT EXISTS (SELECT q(x) + 1 AS h FROM c) AS f, count(*) AS n FROM a GROUP BY q(x)
SELECT [q(x)] AS f FROM a
SELECT len(array_append([q(x)], 1)) AS f, [q(x), 2] AS g FROM a
SELECT count(*) AS n, w('BA') AS f FROM e GROUP BY ALL
SELECT count(*) AS n FROM e GROUP BY w('BA')
SELECT id, unnest(t(x)) FROM a
SELECT id, unnest(l(x)) AS f, unnest([q(y), 2]) AS g FROM a
SELECT b.id, v, n.id FROM b, UNNEST(l(q(b.x))) AS u(v) FULL JOIN a AS n ON p(9)
SELECT b.id, v, n.id FROM b, UNNEST(l(q(b.x))) AS u(v) LEFT JOIN a AS n ON p(n.id) AND v = n.id
SELECT b.id, m.id, n.id FROM b, a AS m LEFT JOIN c AS n ON p(n.id) AND q(m.x) > 2
SELECT p(2) AS f FROM (VALUES (w('ab'))) AS v(g)
SELECT g FROM (VALUES (2, w('ab')), (q(3), 'dog')) AS v(g, h) WHERE p(g)
SELECT 5 AS f FROM a AS z GROUP BY q(z.id % 5) HAVING EXISTS (SELECT 1 FROM c WHERE q(z.id % 5) > c.id)
SELECT z.y FROM a AS z ASOF LEFT JOIN a AS n ON p(z.y) AND z.y < n.id
SELECT n.x FROM b AS z LEFT JOIN b AS m ON p(z.id) LEFT JOIN b AS n ON n.k >= m.x
SELECT c.id FROM c ANTI JOIN b ON b.k > 0 AND p(c.id) ASOF LEFT JOIN a ON q(c.y) > 2 AND c.y >= a.id
SELECT v FROM a, UNNEST(l(t(x).u)) AS u(v) WHERE r(v) > 1
SELECT min(s) OVER (PARTITION BY q(q(3))) AS f FROM a
SELECT q(COLUMNS('x|y')) FROM a
SELECT id FROM a WHERE list_max([q(v) FOR v IN l(x)]) IS NULL
SELECT (SELECT count(*) FROM b WHERE q(b.x) = q(a.x)) AS f FROM a
SELECT DISTINCT ON (p(x)) p(x) AS f, id FROM a ORDER BY p(x) DESC NULLS LAST, id DESC
SELECT CASE WHEN s = '3' THEN q(s::INTEGER) END AS f FROM a
SELECT id FROM a WHERE id < 3 AND s ~ '^[0-9]+$' AND q(s::INTEGER) > 1
SELECT list_reduce([1, 2, 3], lambda u, v: u + q(v)) AS f
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY q(x)) AS f FROM a
SELECT p(x) AS f, grouping(p(x)) AS g, count(*) AS n FROM a GROUP BY CUBE (p(x))
PIVOT (SELECT s, q(x) AS f, id FROM a) ON f USING count(*) GROUP BY s
SELECT q(x) AS f FROM a USING SAMPLE 100 PERCENT (bernoulli)
WITH n AS MATERIALIZED (SELECT random() AS u, id FROM a) SELECT count(*) FROM n AS m JOIN n AS o ON m.u = o.u WHERE p(m.id)
SELECT a.id, i.f FROM a LEFT JOIN LATERAL (SELECT q(b.x) AS f FROM b WHERE b.id = a.id AND p(a.y)) AS i ON TRUE
SELECT p(c1.y) AS f FROM c AS c1, UNNEST(l(len(list_filter([c1.y], lambda v: p(v)))::INTEGER)) AS u3(v)
SELECT count(*) AS n FROM a AS a3 FULL JOIN a AS a4 USING (x), UNNEST(l(a4.id)) AS u5(v)
SELECT len(l(id))::INTEGER AS f FROM b GROUP BY f HAVING NOT p(len(l(id))::INTEGER)
SELECT len(l(x))::INTEGER AS f FROM a WHERE p(x) GROUP BY len(l(x))::INTEGER HAVING r(len(l(x))::INTEGER) > 0
SELECT p(id) IS NOT TRUE AS f, (SELECT max(g) FROM (SELECT b.x AS y FROM b WHERE f) AS h(g)) AS g FROM c
SELECT w(b4.s) AS f FROM b AS b1 JOIN a AS a2 ON p(7), UNNEST(l(a2.id)) AS u3(v) JOIN b AS b4 ON 0.0 < a2.d AND p(u3.v) WHERE p(3)
SELECT (SELECT count(*) FROM b AS b2 LEFT JOIN a AS a2 ON a2.x > a1.x WHERE p(b2.x)) AS f FROM a AS a1
SELECT len(l(j.k))::INTEGER AS f FROM b AS b6 LEFT JOIN LATERAL (SELECT b6.k FROM a WHERE a.x > 2) AS j(k) ON TRUE JOIN b AS b9 ON p(j.k)
SELECT p(id) IS NOT TRUE AS f, (SELECT max(b.x) FROM b WHERE f) AS g FROM c
SELECT p(id) IS NOT TRUE AS f, (SELECT max(c.id) FROM c WHERE f) AS g FROM c
SELECT q(x) AS f, EXISTS (SELECT 1 FROM b WHERE b.x > f) AS g FROM a
SELECT CASE WHEN s = '3' THEN q(s::INTEGER) END AS f FROM (VALUES ('3'), ('c')) t(s)
SELECT CASE WHEN s = '3' THEN q(q(s::INTEGER)::VARCHAR::INTEGER) END AS f FROM (VALUES ('3'), ('c')) t(s)
SELECT CASE WHEN s <> 'c' THEN q(w(s)::INTEGER) END AS f FROM (VALUES ('c')) t(s)
SELECT s FROM (VALUES ('c'), ('3')) t(s) WHERE s = '3' AND p(q(s::INTEGER) + 1)
SELECT coalesce(q(1), q(s::INTEGER)) AS f FROM (VALUES ('c')) t(s)
