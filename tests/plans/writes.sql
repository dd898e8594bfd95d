# INSERT … SELECT
INSERT INTO t SELECT sq(x), y FROM t WHERE big(x);
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  out_1 = sq(a0) if (out_0)
  accept (out_0)
final: INSERT INTO t SELECT m1[x] AS "sq(x)", y FROM t WHERE m0[x]

# INSERT … VALUES
INSERT INTO t VALUES (sq(3), 1);
f0: looks up sq in m0
final: INSERT INTO t VALUES (F0(CAST(3 AS BIGINT)), 1)

# UPDATE
UPDATE t SET y = sq(x) WHERE big(x);
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = big(a0)
  out_1 = sq(a0) if (out_0)
  accept (out_0)
final: UPDATE t SET y = m1[x] WHERE m0[x]

# DELETE
DELETE FROM t WHERE sq(x) > 9;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept (out_0 > 9)
final: DELETE FROM t WHERE m0[x] > 9

# CREATE TABLE AS
CREATE TABLE made AS SELECT x, sq(x) AS f FROM t WHERE f > 3;
s0 WHERE: SELECT DISTINCT x AS a0 FROM t
  out_0 = sq(a0)
  accept ((out_0) > 3)
final: CREATE TABLE made AS SELECT x, m0[x] AS f FROM t WHERE (m0[x]) > 3
