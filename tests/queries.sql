-- Queries whose rows are those that DuckDB gives with macros in the place of the models, one a
-- line: sq(x) is x * x, big(x) is x > 2, up(x) is upper(x). Without a final ORDER BY, in any order.

SELECT sq(x) FROM range(4) t(x)
SELECT x, sq(x) AS f FROM range(6) t(x) WHERE f > 3 ORDER BY f DESC
SELECT x, sq(x) AS x FROM range(6) t(x) WHERE x > 3 ORDER BY x
SELECT sq(x) AS f, count(*) AS n FROM (VALUES (1), (-1), (2)) t(x) GROUP BY f HAVING f > 0 ORDER BY f
SELECT sq(x), count(*) FROM (VALUES (1), (-1), (2)) t(x) GROUP BY 1 ORDER BY 1
SELECT sq(x) % 3, up(x::VARCHAR), count(*) FROM range(9) t(x) GROUP BY ALL ORDER BY ALL
SELECT x % 2, sum(sq(x)) FROM range(9) t(x) GROUP BY 1 HAVING sum(sq(x)) > 84 ORDER BY 1
SELECT x % 2, sum(x) FROM range(9) t(x) GROUP BY 1 HAVING sq(sum(x)) > 300 ORDER BY 1
SELECT count(*) FROM range(9) t(x) HAVING sq(count(*)) > 80
SELECT big(x), count(*) FROM range(9) t(x) GROUP BY ROLLUP (big(x)) ORDER BY 2
SELECT sq(sum(x)), sq(count(*)), sum(sq(x)) FROM range(5) t(x)
SELECT string_agg(up(y), ',' ORDER BY sq(x) DESC) FROM (VALUES (1, 'a'), (-2, 'b')) t(x, y)
SELECT max(x) FILTER (big(x)), min(sq(x)) FILTER (WHERE x > 1) FROM range(5) t(x)
SELECT x, row_number() OVER (ORDER BY sq(x - 3), x) FROM range(7) t(x) ORDER BY x
SELECT x, sum(sq(x)) OVER (PARTITION BY big(x) ORDER BY x ROWS 1 PRECEDING) FROM range(7) t(x) ORDER BY x
SELECT x, lag(sq(x), 1, sq(9)) OVER w FROM range(4) t(x) WINDOW w AS (ORDER BY sq(x)) ORDER BY x
SELECT x FROM range(9) t(x) QUALIFY row_number() OVER (PARTITION BY big(x) ORDER BY sq(x)) = 1 ORDER BY x
SELECT x FROM range(9) t(x) QUALIFY sq(row_number() OVER (ORDER BY x)) > 50 ORDER BY x
SELECT a.x, b.x FROM range(5) a(x) JOIN range(20) b(x) ON sq(a.x) = b.x ORDER BY 1
SELECT a.x, b.x FROM range(5) a(x) LEFT JOIN range(9) b(x) ON sq(a.x) = b.x AND big(b.x) ORDER BY 1
SELECT a.x, b.x FROM range(3) a(x) RIGHT JOIN range(5) b(x) ON sq(a.x) = b.x ORDER BY 2
SELECT a.x, b.x FROM range(3) a(x) FULL JOIN range(5) b(x) ON sq(a.x) = b.x ORDER BY ALL
SELECT a.x FROM range(5) a(x) SEMI JOIN range(5) b(x) ON sq(a.x) = b.x ORDER BY 1
SELECT a.x FROM range(5) a(x) ANTI JOIN range(5) b(x) ON sq(a.x) = b.x ORDER BY 1
SELECT * FROM range(5) a(x) JOIN range(9) b(x) USING (x) WHERE sq(x) > 4 ORDER BY 1
SELECT * FROM range(5) a(x) NATURAL JOIN range(9) b(x) WHERE sq(b.x) > 4 ORDER BY 1
SELECT x, b.y FROM range(3) a(x), LATERAL (SELECT sq(a.x) AS y) b ORDER BY 1
SELECT x, y FROM range(3) a(x) CROSS JOIN UNNEST([sq(x), sq(x + 1)]) b(y) ORDER BY 1, 2
SELECT a.x, b.x FROM range(6) a(x) ASOF JOIN (SELECT sq(x) AS x FROM range(3) t(x)) b ON a.x >= b.x ORDER BY 1
SELECT x FROM range(9) t(x) WHERE x IN (SELECT sq(y) FROM range(3) u(y)) ORDER BY 1
SELECT x FROM range(9) t(x) WHERE x NOT IN (SELECT sq(y) FROM range(3) u(y)) ORDER BY 1
SELECT x FROM range(5) t(x) WHERE sq(x) IN (SELECT sq(y) FROM range(3) u(y)) ORDER BY 1
SELECT x FROM range(5) t(x) WHERE sq(x) > ALL (SELECT y FROM range(5) u(y)) ORDER BY 1
SELECT x FROM range(9) t(x) WHERE EXISTS (SELECT 1 FROM range(4) u(y) WHERE sq(y) = t.x) ORDER BY 1
SELECT x FROM range(5) t(x) WHERE EXISTS (SELECT 1 FROM range(4) u(y) WHERE sq(y + t.x) = 16) ORDER BY 1
SELECT x FROM range(5) t(x) WHERE NOT EXISTS (FROM range(4) u(y) WHERE sq(t.x) = y) ORDER BY 1
SELECT x, (SELECT max(sq(y + x)) FROM range(3) u(y)) FROM range(3) t(x) ORDER BY 1
SELECT x, (SELECT count(*) FROM range(9) u(y) WHERE sq(y) < x) AS n FROM range(5) t(x) WHERE n > 1 ORDER BY 1
SELECT (SELECT sq(3)), (SELECT sum(sq(x)) FROM range(3) t(x))
WITH a AS (SELECT sq(x) AS v FROM range(5) t(x)), b AS (SELECT v FROM a WHERE v > 1) SELECT sq(v), (SELECT count(*) FROM a) FROM b ORDER BY 1
WITH RECURSIVE r(n) AS (SELECT 2 UNION ALL SELECT sq(n) FROM r WHERE n < 1000) FROM r ORDER BY n
SELECT sq(x) FROM range(4) t(x) UNION SELECT sq(-x) FROM range(5) t(x) ORDER BY 1
SELECT sq(x) FROM range(4) t(x) EXCEPT SELECT sq(x) FROM range(2) t(x) ORDER BY 1
SELECT sq(x) FROM range(4) t(x) INTERSECT SELECT y FROM range(5) t(y) ORDER BY 1
(SELECT x FROM range(9) t(x) WHERE big(x) ORDER BY sq(x) LIMIT 2) UNION ALL SELECT sq(7) ORDER BY 1
SELECT sq(sq(x)) FROM range(4) t(x) WHERE big(sq(x)) ORDER BY sq(sq(x)) DESC
SELECT CASE WHEN big(x) THEN sq(x) WHEN x = 1 THEN sq(-9) ELSE -x END FROM range(5) t(x)
SELECT CASE sq(x) WHEN 4 THEN 'four' WHEN sq(1) THEN 'one' END FROM range(4) t(x)
SELECT x FROM range(9) t(x) WHERE x < 2 OR (sq(x) > 20 AND NOT big(x - 4)) ORDER BY 1
SELECT x FROM range(9) t(x) WHERE NOT (big(x) AND sq(x) < 30) ORDER BY 1
SELECT coalesce(nullif(sq(x), 1), sq(x + 10)), ifnull(x, sq(5)) FROM range(4) t(x)
SELECT x FROM range(6) t(x) WHERE sq(x) BETWEEN 2 AND 17 AND x::VARCHAR LIKE '%' ORDER BY 1
SELECT list_transform([1, 2, 3], lambda v: sq(v)), [sq(v) FOR v IN [4, 5] IF big(v)]
SELECT list_filter(list(x), lambda v: big(v)) FROM range(5) t(x)
SELECT DISTINCT sq(x) FROM (VALUES (1), (-1), (2)) t(x) ORDER BY 1
SELECT DISTINCT ON (sq(x)) x FROM (VALUES (1), (-1), (2)) t(x) ORDER BY sq(x), x
SELECT * FROM (SELECT sq(x) AS f, x FROM range(9) t(x)) WHERE f > 10 AND x < 6 ORDER BY 1
SELECT f, count(*) FROM (SELECT DISTINCT sq(x) % 5 AS f FROM range(9) t(x)) GROUP BY f ORDER BY f
SELECT sum(f) FROM (SELECT sq(x) AS f FROM range(9) t(x) ORDER BY x LIMIT 3 OFFSET 2)
PIVOT (SELECT x % 2 AS k, sq(x) AS v FROM range(5) t(x)) ON k USING sum(v)
SELECT * FROM (VALUES (sq(2), up('a')), (3, 'b')) t(a, b) ORDER BY 1
SELECT sq(x.a) FROM (SELECT {'a': 3} AS x)
SELECT t.x.a FROM (SELECT {'a': sq(3)} AS x) t
SELECT up(x) || '!' FROM (VALUES ('a'), ('ö'), ('')) t(x)
FROM (SELECT sq(3) AS v)
SELECT sq(x) FROM (VALUES (1.4), (1.6), (-1.5)) t(x)
SELECT sq(max(x) OVER ()) FROM range(3) t(x)
SELECT sq(x) IS NULL FROM (VALUES (NULL)) t(x)
SELECT COLUMNS(lambda c: c <> 'y'), sq(x) FROM (SELECT 1 AS x, 2 AS y)
SELECT x FROM range(3) t(x) ORDER BY sq(x - 1), x DESC
SELECT x AS y FROM range(3) t(x) ORDER BY sq(y - 1) DESC, y
SELECT 1 WHERE big(sq(2))
SELECT sq(x) AS a, a + 1 AS b, sq(a) AS c FROM range(3) t(x) ORDER BY c
SELECT unnest([sq(1), sq(2)])
SELECT x FROM range(9) t(x) WHERE try_cast('a' AS INT) IS NULL AND big(x) ORDER BY x LIMIT 2
SELECT -sq(2) ^ 2, sq(2)::DOUBLE / 3, NOT big(3)
pivot (select x%2 k, x from range(4) t(x)) on sq(k) using sum(x)
select try(sq(1))
select sum(x) over (order by sq(x) rows between 1 preceding and current row) from range(4) t(x)
select x from range(4) t(x) group by x having max(sq(x))>1 order by max(sq(x)) desc
select x, count(*) c from range(4) t(x) group by x order by sq(x) desc
select max(x) m from range(4) t(x) having sq(m)>3
select x%2 as k, max(sq(x)) m from range(6) t(x) group by k having m>10 order by m
select x%2 as k, list(sq(x) order by x) l from range(6) t(x) group by k having len(l)>2 order by k
select x from range(6) t(x) where sq(x) = (select max(sq(y)) from range(4) u(y))
select x from range(6) t(x) where sq(x) = any (select sq(y) from range(4) u(y)) order by x
select x from range(6) t(x) where (x, sq(x)) in (select y, sq(y) from range(3) u(y)) order by x
select x from range(6) t(x) where (x, sq(x)) in ((1,1),(2,4)) order by x
select (select sq(x) from range(1) u(y)) from range(3) t(x)
select (select sum(sq(y)) from range(3) u(y) where y<t.x) from range(4) t(x)
select x from range(4) t(x) where (select count(*) from range(3) u(y) where sq(y)=sq(t.x))>0 order by x
select (select (select sq(t.x+u.y) from range(1) w(z)) from range(1) u(y)) from range(3) t(x)
with a as (select x from range(3) t(x) where sq(x)>0) select (select count(*) from a where a.x<=t.x) from range(4) t(x)
with a(v) as (select sq(x) from range(3) t(x)), b as (select max(v) m from a) select v from a, b where v=m
with recursive r as (select 1 n, sq(1) s union all select n+1, sq(n+1) from r where n<4) select * from r
with recursive r as (select 1 n union all select n+1 from r where n<4) select sq(n) from r order by 1
with recursive r as (select 1 n union all select n+1 from r where sq(n)<10) select n from r order by 1
select * from range(3) t(x) left join lateral (select sq(t.x) y where t.x>0) l on true order by 1
select * from range(3) t(x) left join lateral (select sq(t.x) y where big(t.x+1)) l on true order by 1
select * from range(3) t(x), (select sq(y) from range(2) u(y)) v(z) where x=z
select t.x, u.y from range(3) t(x) left join (select y, sq(y) q from range(5) u(y)) u on t.x=u.q where u.y is null or u.q>=0 order by all
select count(*) from range(4) a(x) full join range(6) b(x) on sq(a.x)=b.x and big(b.x) where a.x is null or sq(a.x)>2
select a.x from range(4) a(x) join range(4) b(x) on a.x=b.x left join range(9) c(x) on sq(b.x)=c.x where c.x is null or sq(c.x)>=0 order by 1
select a.x from range(4) a(x) left join range(4) b(x) on a.x=b.x and sq(a.x)>3 join range(4) c(x) on c.x=b.x order by 1
select count(*) from range(4) a(x) where exists (select 1 from range(4) b(x) left join range(3) c(x) on sq(b.x)=c.x where c.x=a.x)
select x from range(5) t(x) where case when x<3 then sq(x)>1 else big(x) end order by x
select x from range(5) t(x) where if(x<3, sq(x)>1, big(x)) order by x
select x from range(5) t(x) where x=2 is not distinct from big(x) order by x
select x from range(5) t(x) where big(x) is distinct from (sq(x)>3) order by x
select x from range(5) t(x) where big(nullif(x,4)) is null
select x from range(5) t(x) where not(x>3 or big(x) or sq(x)=1) order by x
select x from range(5) t(x) where big(x) is true and sq(x) is not null order by x
select x from range(5) t(x) where (sq(x)>3)::int + big(x)::int = 1
select x from range(5) t(x) where [big(x)] = [true]
select x from range(5) t(x) where sq(x) in (select unnest([4,9]))
select distinct sq(x)%2, big(x) from range(5) t(x) order by all
select distinct on (big(x)) x, sq(x) from range(5) t(x) order by big(x), sq(x) desc
select sq(x) from range(5) t(x) order by all desc limit 2
select x from range(5) t(x) order by big(x), sq(x) desc
select x from range(5) t(x) order by (select sq(x)) desc limit 1
select x from range(20) t(x) where sq(x)%3=1 order by x desc limit 2 offset 2
select * from (select x from range(20) t(x) where sq(x)%3=1 limit 5) where big(x)
select x from (select x from range(20) t(x) order by x desc limit 5) where sq(x)>300 order by x limit 1
select sum(c) from (select count(*) c from range(20) t(x) where sq(x)>10 group by x%3)
select x from range(5) t(x) union select sq(x) from range(5) t(x) order by 1 limit 3
select x from range(5) t(x) where big(x) intersect select sq(x) from range(3) t(x)
(select sq(x) from range(3) t(x)) union all by name (select x as "sq(x)" from range(2) t(x)) order by all
select sq(x) from range(2) t(x) union all by name select 5 as z order by all
select a.*, b.* from (select sq(x) v from range(2) t(x)) a, (select sq(x) v from range(2) t(x)) b order by all
select * exclude v from (select x, sq(x) v from range(2) t(x))
select * replace (sq(x) as x) from range(3) t(x)
select * rename (x as y) from (select x, sq(x) z from range(2) t(x))
select columns(*)+1 from (select x, sq(x) z from range(2) t(x))
select columns('z') from (select x, sq(x) z from range(2) t(x)) where columns('z')>0
select sq(columns(*)) from (select 2 as a, 3 as b)
select min(columns(*)) from (select sq(x) from range(3) t(x))
from (select sq(x) as v from range(3) t(x)) where v>0 order by v
select sq(x) from (from range(3) t(x))
select list(v) from (select sq(x) v from range(3) t(x))
select histogram(sq(x)) from range(3) t(x)
select sq(x)::float/2 from range(2) t(x)
select sq(x)%2=0 and x>1, x from range(4) t(x)
select * from range(4) t(x) where x between sq(1) and sq(2)
select * from range(sq(2)) t(x)
select * from range(4) t(x) limit sq(1)
select sq(x) from range(4) t(x) tablesample 100%
select #1, sq(x) from range(2) t(x)
select sq(#1) from range(2) t(x)
SELECT sum(x) OVER (ORDER BY sq(x) RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) FROM range(4) t(x) ORDER BY 1
SELECT x.sq(), x.sq().sq() FROM (SELECT 2 AS x)
SELECT (2).sq(), 'a'.up()
SELECT current_date = current_date, sq(1)
SELECT now() IS NOT NULL, sq(1)
SELECT [sq(x)] AS f FROM (VALUES (1), (NULL)) t(x)
SELECT count(*) AS n, up('ba') AS f FROM range(0) t(x) GROUP BY ALL
SELECT count(*) AS n, up('ba') AS f FROM range(3) t(x) GROUP BY ALL
SELECT x FROM range(5) t(x) WHERE EXISTS (SELECT 1 FROM (SELECT sq(x) AS z, x FROM range(4) u(x)) d WHERE d.x <> t.x AND d.z > 3) ORDER BY x
SELECT x, (SELECT max(z) FROM (SELECT sq(x) AS z, x FROM range(4) u(x)) d WHERE d.x <> t.x) FROM range(5) t(x) ORDER BY x
SELECT x FROM range(5) t(x) WHERE EXISTS (SELECT 1 FROM (SELECT x FROM range(4) u(x) WHERE big(x)) d WHERE d.x > t.x) ORDER BY x
SELECT up(up('a')) AS a, max(sq(2)) AS b FROM (SELECT up(up(x::VARCHAR)) AS f FROM range(3) t(x)) AS d(k) GROUP BY ALL
SELECT 1 - x AS f, sq(x) AS g FROM range(4) t(x) GROUP BY 1 - x, sq(x) HAVING sq(x) = ANY (SELECT 4 FROM (VALUES (1), (7)) v(g) WHERE big(sq(x) + 5)) ORDER BY 1
SELECT x % 2 AS f, (big(4) IS NOT TRUE) AS g, 4 AS h FROM range(3) t(x) GROUP BY f, h ORDER BY 1
SELECT max(sq(max(x))) OVER (PARTITION BY bool_and(big(x)) ORDER BY first(sq(x) ORDER BY sq(x))) AS f FROM range(3) t(x)
SELECT (sq(x) + 1)::INTEGER AS f FROM range(4) t(x) GROUP BY f HAVING NOT big((sq(x) + 1)::INTEGER) ORDER BY 1
