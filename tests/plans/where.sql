# cheap conditions are part of the candidates, and the call of SELECT waits for that of WHERE
SELECT sq(x) FROM t WHERE big(x) AND x < 6;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t WHERE x < 6
  out_0 = big(a0)
  out_1 = sq(a0) if (out_0)
  accept (out_0)
final: SELECT m1[x] AS "sq(x)" FROM t WHERE m0[x] AND x < 6

# the same call in several clauses is one step
SELECT x, sq(x) AS f FROM t WHERE sq(x) > 3 ORDER BY sq(x);
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept (out_0 > 3)
final: SELECT x, m0[x] AS f FROM t WHERE m0[x] > 3 ORDER BY m0[x]

# equal arguments written otherwise share their answers
SELECT sq(x), SQ(X), sq(t.x) FROM t;
s0 SELECT: SELECT DISTINCT x AS a0, t.x AS a1 FROM t
  out_0 = sq(a0)
  out_1 = sq(a1)
final: SELECT m0[x] AS "sq(x)", m0[X] AS "sq(X)", m0[t.x] AS "sq(t.x)" FROM t

# what the guard of OR leaves
SELECT x FROM t WHERE x < 2 OR sq(x) > 20;
s0 WHERE: SELECT DISTINCT TRY(x < 2) AS x0, x AS a1 FROM t
  out_0 = sq(a1) if (NOT (x0) IS TRUE)
  accept (x0 OR out_0 > 20)
final: SELECT x FROM t WHERE x < 2 OR m0[x] > 20

# two models under OR
SELECT x FROM t WHERE big(x) OR sq(x) = 1;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  out_1 = sq(a0) if (NOT (out_0) IS TRUE)
  accept (out_0 OR out_1 = 1)
final: SELECT x FROM t WHERE m0[x] OR m1[x] = 1

# a branch of CASE is wanted only where it is taken
SELECT CASE WHEN x < 2 THEN sq(x) WHEN big(x) THEN -sq(x) ELSE 0 END FROM t;
s0 SELECT: SELECT DISTINCT TRY((x < 2) IS TRUE) AS x0, x AS a1, TRY(NOT (x < 2) IS TRUE) AS x2 FROM t
  out_0 = sq(a1)
  out_1 = big(a1) if (x2)
final: SELECT CASE WHEN x < 2 THEN m0[x] WHEN m1[x] THEN -m0[x] ELSE 0 END AS "CASE  WHEN ((x < 2)) THEN (sq(x)) WHEN (big(x)) THEN ((-(sq(x)))) ELSE 0 END" FROM t

# COALESCE asks only where the parts before it are NULL
SELECT coalesce(nullif(y, 0), sq(x)) FROM t;
s0 SELECT: SELECT DISTINCT TRY((NULLIF(y, 0)) IS NULL) AS x0, x AS a1 FROM t
  out_0 = sq(a1) if (x0)
final: SELECT COALESCE(NULLIF(y, 0), m0[x]) AS "COALESCE(""nullif""(y, 0), sq(x))" FROM t

# nested calls, the inner one first
SELECT sq(sq(x)) FROM t WHERE big(sq(x));
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
s1 WHERE: SELECT DISTINCT m0[x] AS a0 FROM t
  out_0 = big(a0)
  accept (out_0)
s2 SELECT: SELECT DISTINCT x AS a0 FROM t WHERE m1[m0[x]]
  out_0 = sq(a0)
s3 SELECT: SELECT DISTINCT m0[x] AS a0 FROM t WHERE m1[m0[x]]
  out_0 = sq(a0)
final: SELECT m0[m0[x]] AS "sq(sq(x))" FROM t WHERE m1[m0[x]]

# a volatile condition is left to the final statement
SELECT x FROM t WHERE big(x) AND random() < 2;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  accept (out_0)
final: SELECT x FROM t WHERE m0[x] AND RANDOM() < 2

# a constant argument
SELECT x FROM t WHERE sq(2) = 4 AND x < 3;
s0 WHERE: SELECT DISTINCT TRY(CAST(2 AS BIGINT)) AS a0 FROM t WHERE x < 3
  out_0 = sq(a0)
  accept (out_0 = 4)
final: SELECT x FROM t WHERE (CASE WHEN NOT (CAST(2 AS BIGINT)) IS NULL THEN m0[TRY(CAST(2 AS BIGINT))] END) = 4 AND x < 3

# an argument that may fail is tried
SELECT sq(y::VARCHAR::INTEGER) FROM t WHERE x > 2;
s0 SELECT: SELECT DISTINCT TRY(CAST(CAST(CAST(y AS TEXT) AS INT) AS BIGINT)) AS a0 FROM t WHERE x > 2
  out_0 = sq(a0)
final: SELECT (CASE WHEN NOT (CAST(CAST(CAST(y AS TEXT) AS INT) AS BIGINT)) IS NULL THEN m0[TRY(CAST(CAST(CAST(y AS TEXT) AS INT) AS BIGINT))] END) AS "sq(CAST(CAST(y AS VARCHAR) AS INTEGER))" FROM t WHERE x > 2

# NOT and IN over outputs
SELECT x FROM t WHERE NOT big(x) AND sq(x) IN (0, 4);
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  out_1 = sq(a0) if (NOT out_0)
  accept (NOT out_0 AND out_1 IN (0, 4))
final: SELECT x FROM t WHERE NOT m0[x] AND m1[x] IN (0, 4)
