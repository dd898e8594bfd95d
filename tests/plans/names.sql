# an alias in WHERE hides a call
SELECT x, sq(x) AS f FROM t WHERE f > 3 AND f < 30;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept ((out_0) > 3 AND (out_0) < 30)
final: SELECT x, m0[x] AS f FROM t WHERE (m0[x]) > 3 AND (m0[x]) < 30

# WHERE takes the column before an alias of its name
SELECT sq(x) AS x FROM t WHERE x > 5;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t WHERE x > 5
  out_0 = sq(a0)
final: SELECT m0[x] AS x FROM t WHERE x > 5

# ORDER BY takes the alias alone, and the column within an expression
SELECT sq(x) AS x FROM t ORDER BY x;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT m0[x] AS x FROM t ORDER BY x

# an alias of an alias
SELECT sq(x) AS a, a + 1 AS b FROM t WHERE b > 10;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept (((out_0) + 1) > 10)
final: SELECT m0[x] AS a, (m0[x]) + 1 AS b FROM t WHERE ((m0[x]) + 1) > 10

# the heading of a call without an alias can be named
SELECT "sq(x)" + 1 AS g FROM (SELECT sq(x) FROM t);
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT "sq(x)" + 1 AS g FROM (SELECT m0[x] AS "sq(x)" FROM t)

# quoted names keep their case
SELECT sq("X y") AS "F" FROM (SELECT x AS "X y" FROM t) WHERE "F" > 3;
s0 WHERE: SELECT DISTINCT "X y" AS a0 FROM (SELECT x AS "X y" FROM t)
  out_0 = sq(a0)
  accept ((out_0) > 3)
final: SELECT m0["X y"] AS "F" FROM (SELECT x AS "X y" FROM t) WHERE (m0["X y"]) > 3

# a star that hides a call
SELECT * FROM (SELECT *, big(x) AS b FROM t) WHERE b;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  accept ((((out_0))))
final: SELECT * FROM (SELECT *, m0[x] AS b FROM t) WHERE b
