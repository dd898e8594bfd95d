# a condition of ON asks for one side
SELECT t.x, u.z FROM t JOIN u ON sq(t.y) = u.y;
s0 WHERE: SELECT DISTINCT t.y AS a0 FROM t WHERE EXISTS(SELECT 1 FROM u)
  out_0 = sq(a0)
f0: looks up sq in m0
final: SELECT t.x, u.z FROM t JOIN u ON F0(t.y) = u.y

# the cheap part of the join thins the candidates
SELECT t.x, u.z FROM t JOIN u ON t.y = u.y WHERE big(t.x) AND u.z <> 'z1';
s0 WHERE: SELECT DISTINCT t.x AS a0 FROM t JOIN u ON t.y = u.y WHERE u.z <> 'z1'
  out_0 = big(a0)
  accept (out_0)
final: SELECT t.x, u.z FROM t JOIN u ON t.y = u.y WHERE m0[t.x] AND u.z <> 'z1'

# sources that nothing cheap ties together are asked apart
SELECT t.x, u.y FROM t, u WHERE sq(t.x) = 4 AND big(u.y);
s0 WHERE: SELECT DISTINCT t.x AS a0 FROM t WHERE EXISTS(SELECT 1 FROM u)
  out_0 = sq(a0)
  accept (out_0 = 4)
s1 WHERE: SELECT DISTINCT u.y AS a0 FROM u WHERE EXISTS(SELECT 1 FROM t WHERE m0[t.x] = 4)
  out_0 = big(a0)
  accept (out_0)
final: SELECT t.x, u.y FROM t, u WHERE m0[t.x] = 4 AND m1[u.y]

# a left join's ON
SELECT t.x, u.z FROM t LEFT JOIN u ON t.y = u.y AND big(u.y + t.x);
s0 ON: SELECT DISTINCT TRY(u.y + t.x) AS a0 FROM t JOIN u ON TRUE WHERE t.y = u.y
  out_0 = big(a0)
  accept (out_0)
f0: looks up big in m0
final: SELECT t.x, u.z FROM t LEFT JOIN u ON t.y = u.y AND F0(u.y + t.x)

# WHERE above a left join waits for its ON
SELECT t.x, u.z FROM t LEFT JOIN u ON sq(t.y) = u.y WHERE sq(u.y) IS NULL OR big(t.x);
s0 ON: SELECT DISTINCT t.y AS a0 FROM t
  out_0 = sq(a0)
s1 WHERE: SELECT DISTINCT u.y AS a0, t.x AS a1 FROM t LEFT JOIN u ON F0(t.y) = u.y
  out_0 = sq(a0)
  out_1 = big(a1) if (NOT (out_0 IS NULL) IS TRUE)
  accept (out_0 IS NULL OR out_1)
f0: looks up sq in m0
final: SELECT t.x, u.z FROM t LEFT JOIN u ON F0(t.y) = u.y WHERE m0[u.y] IS NULL OR m1[t.x]

# a semi join
SELECT t.x FROM t SEMI JOIN u ON sq(t.y) = u.y;
s0 ON: SELECT DISTINCT t.y AS a0 FROM t
  out_0 = sq(a0)
f0: looks up sq in m0
final: SELECT t.x FROM t SEMI JOIN u ON F0(t.y) = u.y

# USING and a star stay as written
SELECT * FROM t JOIN u USING (y) WHERE sq(y) < 4;
s0 WHERE: SELECT DISTINCT y AS a0 FROM t JOIN u USING (y)
  out_0 = sq(a0)
  accept (out_0 < 4)
final: SELECT * FROM t JOIN u USING (y) WHERE m0[y] < 4

# a lateral source
SELECT t.x, l.f FROM t, LATERAL (SELECT sq(t.x) AS f) l;
f0: looks up sq in m0
note: recorded, because of a correlated query in FROM
final: SELECT t.x, l.f FROM t, LATERAL (SELECT F0(t.x) AS f) AS l

# a self join shares one store
SELECT a.x, b.x FROM t a JOIN t b ON a.x = b.x + 1 WHERE sq(a.x) > sq(b.x) + 5;
s0 WHERE: SELECT DISTINCT a.x AS a0, b.x AS a1 FROM t AS a JOIN t AS b ON a.x = b.x + 1
  out_0 = sq(a0)
  out_1 = sq(a1)
  accept (out_0 > out_1 + 5)
final: SELECT a.x, b.x FROM t AS a JOIN t AS b ON a.x = b.x + 1 WHERE m0[a.x] > m0[b.x] + 5
