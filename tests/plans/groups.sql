# a key that asks
SELECT sq(y), count(*) FROM t GROUP BY sq(y);
s0 SELECT: SELECT DISTINCT y AS a0 FROM t
  out_0 = sq(a0)
final: SELECT m0[y] AS "sq(y)", COUNT(*) AS "count_star()" FROM t GROUP BY m0[y]

# a key by number, by alias, and all of them
SELECT sq(y) AS f, count(*) FROM t GROUP BY 1 ORDER BY f;
s0 SELECT: SELECT DISTINCT y AS a0 FROM t
  out_0 = sq(a0)
final: SELECT m0[y] AS f, COUNT(*) AS "count_star()" FROM t GROUP BY 1 ORDER BY f

# GROUP BY ALL
SELECT big(x) AS b, sum(x) FROM t GROUP BY ALL;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
final: SELECT m0[x] AS b, SUM(x) AS "sum(x)" FROM t GROUP BY ALL

# arguments of aggregates, and FILTER
SELECT y, sum(sq(x)), max(x) FILTER (big(x)) FROM t GROUP BY y;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  out_1 = big(a0)
final: SELECT y, SUM(m0[x]) AS "sum(sq(x))", MAX(x) FILTER(WHERE m1[x]) AS "max(x) FILTER (WHERE big(x))" FROM t GROUP BY y

# HAVING asks about groups
SELECT y, sum(x) FROM t GROUP BY y HAVING big(y + 2) AND sum(sq(x)) > 20;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
s1 HAVING: SELECT DISTINCT TRY(y + 2) AS a0 FROM t GROUP BY y HAVING SUM(m0[x]) > 20
  out_0 = big(a0)
final: SELECT y, SUM(x) AS "sum(x)" FROM t GROUP BY y HAVING m1[y + 2] AND SUM(m0[x]) > 20

# HAVING with an alias of a key
SELECT sq(y) AS f, count(*) FROM t GROUP BY f HAVING f > 0;
s0 SELECT: SELECT DISTINCT y AS a0 FROM t
  out_0 = sq(a0)
final: SELECT m0[y] AS f, COUNT(*) AS "count_star()" FROM t GROUP BY f HAVING f > 0

# an argument that is an aggregate is looked up
SELECT y, sq(count(*)) FROM t GROUP BY y;
f0: looks up sq in m0
note: recorded, because of an argument that is known only above its clause
final: SELECT y, F0(COUNT(*)) AS "sq(count_star())" FROM t GROUP BY y

# windows over outputs
SELECT x, row_number() OVER (PARTITION BY big(x) ORDER BY sq(x) DESC) FROM t;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  out_1 = sq(a0)
final: SELECT x, ROW_NUMBER() OVER (PARTITION BY m0[x] ORDER BY m1[x] DESC) AS "row_number() OVER (PARTITION BY big(x) ORDER BY sq(x) DESC)" FROM t

# QUALIFY
SELECT x FROM t QUALIFY row_number() OVER (PARTITION BY y ORDER BY sq(x) DESC) = 1;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT x FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY y ORDER BY m0[x] DESC) = 1

# an argument that is a window is looked up
SELECT sq(row_number() OVER (ORDER BY x)) FROM t;
f0: looks up sq in m0
note: recorded, because of an argument that is known only above its clause
final: SELECT F0(ROW_NUMBER() OVER (ORDER BY x)) AS "sq(row_number() OVER (ORDER BY x))" FROM t
