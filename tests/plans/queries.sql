# IN over a query that asks
SELECT x FROM t WHERE x IN (SELECT sq(y) FROM u);
s0 SELECT: SELECT DISTINCT y AS a0 FROM u
  out_0 = sq(a0)
final: SELECT x FROM t WHERE x IN (SELECT m0[y] AS "sq(y)" FROM u)

# both sides of IN ask
SELECT x FROM t WHERE sq(x) IN (SELECT sq(y) FROM u);
s0 SELECT: SELECT DISTINCT y AS a0 FROM u
  out_0 = sq(a0)
s1 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT x FROM t WHERE m0[x] IN (SELECT m0[y] AS "sq(y)" FROM u)

# EXISTS whose query is correlated in a cheap condition
SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.y = t.y AND big(u.y + 2));
s0 WHERE: SELECT DISTINCT mlsql_l.* FROM t, LATERAL (SELECT DISTINCT TRY(u.y + 2) AS a0 FROM u WHERE u.y = t.y) AS mlsql_l
  out_0 = big(a0)
  accept (out_0)
final: SELECT x FROM t WHERE EXISTS(SELECT 1 FROM u WHERE u.y = t.y AND m0[u.y + 2])

# EXISTS whose call takes from both
SELECT x FROM t WHERE x > 2 AND EXISTS (SELECT 1 FROM u WHERE sq(u.y + t.x) = 16);
s0 WHERE: SELECT DISTINCT mlsql_l.* FROM t, LATERAL (SELECT DISTINCT TRY(u.y + t.x) AS a0 FROM u) AS mlsql_l WHERE x > 2
  out_0 = sq(a0)
  accept (out_0 = 16)
f0: looks up sq in m0
final: SELECT x FROM t WHERE x > 2 AND EXISTS(SELECT 1 FROM u WHERE F0(u.y + t.x) = 16)

# a scalar subquery in SELECT
SELECT x, (SELECT max(sq(y)) FROM u WHERE u.y <= t.y) FROM t;
s0 SELECT: SELECT DISTINCT mlsql_l.* FROM t, LATERAL (SELECT DISTINCT y AS a0 FROM u WHERE u.y <= t.y) AS mlsql_l
  out_0 = sq(a0)
final: SELECT x, (SELECT MAX(m0[y]) AS "max(sq(y))" FROM u WHERE u.y <= t.y) AS "(SELECT max(sq(y)) FROM u WHERE (u.y <= t.y))" FROM t

# a CTE that is filter and project only
WITH a AS (SELECT x, sq(x) AS f FROM t WHERE y = 1) SELECT big(x) FROM a WHERE f > 3;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t WHERE y = 1
  out_0 = sq(a0)
  accept ((out_0) > 3)
s1 SELECT: WITH a AS (SELECT x, m0[x] AS f FROM t WHERE y = 1) SELECT DISTINCT x AS a0 FROM a WHERE f > 3
  out_0 = big(a0)
final: WITH a AS (SELECT x, m0[x] AS f FROM t WHERE y = 1) SELECT m1[x] AS "big(x)" FROM a WHERE f > 3

# a CTE that aggregates is made once
WITH a AS (SELECT y, max(x) AS m FROM t GROUP BY y) SELECT y, sq(m) FROM a;
rows0: SELECT y, MAX(x) AS m FROM t GROUP BY y
s0 SELECT: WITH a AS (SELECT * FROM rows0) SELECT DISTINCT m AS a0 FROM a
  out_0 = sq(a0)
final: WITH a AS (SELECT * FROM rows0) SELECT y, m0[m] AS "sq(m)" FROM a

# a derived table with LIMIT is made once
SELECT sq(x) FROM (SELECT x FROM t ORDER BY x DESC LIMIT 3);
rows0: SELECT x FROM t ORDER BY x DESC LIMIT 3
s0 SELECT: SELECT DISTINCT x AS a0 FROM (SELECT * FROM rows0)
  out_0 = sq(a0)
final: SELECT m0[x] AS "sq(x)" FROM (SELECT * FROM rows0)

# an aggregate over a derived table that asks
SELECT sum(f) FROM (SELECT sq(x) AS f FROM t) WHERE f > 3;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept ((((out_0) > 3)))
final: SELECT SUM(f) AS "sum(f)" FROM (SELECT m0[x] AS f FROM t) WHERE f > 3

# UNION ALL, each part for itself
SELECT sq(x) AS f FROM t WHERE y = 0 UNION ALL SELECT sq(y) FROM u WHERE big(y);
s0 SELECT: SELECT DISTINCT x AS a0 FROM t WHERE y = 0
  out_0 = sq(a0)
s1 WHERE: SELECT DISTINCT y AS a0 FROM u
  out_0 = big(a0)
  out_1 = sq(a0) if (out_0)
  accept (out_0)
final: SELECT m0[x] AS f FROM t WHERE y = 0 UNION ALL SELECT m0[y] AS "sq(y)" FROM u WHERE m1[y]

# EXCEPT
SELECT sq(x) FROM t EXCEPT SELECT y FROM u;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT m0[x] AS "sq(x)" FROM t EXCEPT SELECT y FROM u

# a recursive CTE is recorded
WITH RECURSIVE r(n) AS (SELECT 2 UNION ALL SELECT sq(n) FROM r WHERE n < 100) SELECT n FROM r;
f0: looks up sq in m0
note: recorded, because of a recursive query
final: WITH RECURSIVE r(n) AS (SELECT 2 UNION ALL SELECT F0(CAST(n AS BIGINT)) AS "sq(n)" FROM r WHERE n < 100) SELECT n FROM r

# a sample is taken once
SELECT count(sq(x)) FROM t TABLESAMPLE 100%;
rows0: SELECT * FROM t TABLESAMPLE SYSTEM (100 PERCENT)
s0 SELECT: SELECT DISTINCT x AS a0 FROM (SELECT * FROM rows0) AS t
  out_0 = sq(a0)
final: SELECT COUNT(m0[x]) AS "count(sq(x))" FROM (SELECT * FROM rows0) AS t
