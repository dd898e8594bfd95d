# LIMIT without ORDER BY ends early
SELECT x FROM t WHERE big(x) LIMIT 2;
s0 WHERE: SELECT a0, MIN(mlsql_n) AS mlsql_n FROM (SELECT x AS a0, ROW_NUMBER() OVER () AS mlsql_n FROM t) AS mlsql_r GROUP BY a0 ORDER BY mlsql_n NULLS FIRST
  out_0 = big(a0)
  accept (out_0)
  ends after 2 rows, evaluated ones in s0_e
final: SELECT x FROM t WHERE m0[x] AND NOT (SELECT s0_e.mlsql_n FROM s0_e WHERE s0_e.a0 IS NOT DISTINCT FROM x) IS NULL LIMIT 2

# LIMIT in a cheap order ends early, in that order
SELECT x, sq(x) AS f FROM t WHERE big(x) ORDER BY y DESC, x LIMIT 2 OFFSET 1;
s0 WHERE: SELECT a0, MIN(mlsql_n) AS mlsql_n FROM (SELECT x AS a0, ROW_NUMBER() OVER (ORDER BY y DESC, x) AS mlsql_n FROM t) AS mlsql_r GROUP BY a0 ORDER BY mlsql_n NULLS FIRST
  out_0 = big(a0)
  out_1 = sq(a0) if (out_0)
  accept (out_0)
  ends after 3 rows, evaluated ones in s0_e
final: SELECT x, m1[x] AS f FROM t WHERE m0[x] AND NOT (SELECT s0_e.mlsql_n FROM s0_e WHERE s0_e.a0 IS NOT DISTINCT FROM x) IS NULL ORDER BY y DESC, x LIMIT 2 OFFSET 1

# LIMIT without a model in WHERE takes only the rows wanted
SELECT sq(x) FROM t ORDER BY x DESC LIMIT 2;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t QUALIFY RANK() OVER (ORDER BY x DESC) <= 2
  out_0 = sq(a0)
final: SELECT m0[x] AS "sq(x)" FROM t ORDER BY x DESC LIMIT 2

# an order that a model decides needs all
SELECT x FROM t ORDER BY sq(x) DESC LIMIT 2;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT x FROM t ORDER BY m0[x] DESC LIMIT 2

# LIMIT n% counts all rows
SELECT x FROM t WHERE sq(x) > 3 ORDER BY x LIMIT 50%;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept (out_0 > 3)
final: SELECT x FROM t WHERE m0[x] > 3 ORDER BY x LIMIT 50 PERCENT

# LIMIT under an aggregate
SELECT count(*) FROM (SELECT x FROM t WHERE big(x) LIMIT 2);
s0 WHERE: SELECT a0, MIN(mlsql_n) AS mlsql_n FROM (SELECT x AS a0, ROW_NUMBER() OVER () AS mlsql_n FROM t) AS mlsql_r GROUP BY a0 ORDER BY mlsql_n NULLS FIRST
  out_0 = big(a0)
  accept (out_0)
  ends after 2 rows, evaluated ones in s0_e
final: SELECT COUNT(*) AS "count_star()" FROM (SELECT x FROM t WHERE m0[x] AND NOT (SELECT s0_e.mlsql_n FROM s0_e WHERE s0_e.a0 IS NOT DISTINCT FROM x) IS NULL LIMIT 2)

# LIMIT over DISTINCT cannot end early
SELECT DISTINCT sq(x) FROM t ORDER BY 1 LIMIT 2;
s0 SELECT: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
final: SELECT DISTINCT m0[x] AS "sq(x)" FROM t ORDER BY 1 LIMIT 2
