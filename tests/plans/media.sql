# two labels of one detector are one step
SELECT frame_id FROM v WHERE CONTAINS(frame, 'cat', model => 'eye') AND CONTAINS(frame, 'dog', model => 'eye');
s0 WHERE: SELECT DISTINCT frame AS a0 FROM v
  out_0 = eye(a0)
  accept (LIST_TRANSFORM([(out_0)], LAMBDA mlsql_o : LENGTH(LIST_FILTER(LIST_FILTER(mlsql_o, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label))))[1] >= 1 AND LIST_TRANSFORM([(out_0)], LAMBDA mlsql_o : LENGTH(LIST_FILTER(LIST_FILTER(mlsql_o, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['dog'], mlsql_d.label))))[1] >= 1)
final: SELECT frame_id FROM v WHERE ((SELECT (LENGTH(LIST_FILTER(LIST_FILTER(m0.mlsql_out, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label)))) FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM frame) >= 1) AND ((SELECT (LENGTH(LIST_FILTER(LIST_FILTER(m0.mlsql_out, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['dog'], mlsql_d.label)))) FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM frame) >= 1)

# the detector first, the classifier for what it lets through, the score for what both do
SELECT frame_id, SCORE(frame, 'dog', model => 'eye') FROM v
WHERE ts < 0.7 AND CLASSIFY(frame, model => 'kind') = 'cat' AND CONTAINS(frame, 'cat', model => 'eye');
s0 WHERE: SELECT DISTINCT frame AS a0 FROM v WHERE ts < 0.7
  out_0 = kind(a0)
  out_1 = eye(a0) if (STRUCT_EXTRACT(out_0, 'label') = 'cat')
  accept (STRUCT_EXTRACT(out_0, 'label') = 'cat' AND LIST_TRANSFORM([(out_1)], LAMBDA mlsql_o : LENGTH(LIST_FILTER(LIST_FILTER(mlsql_o, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label))))[1] >= 1)
final: SELECT frame_id, (SELECT LIST_REDUCE(LIST_TRANSFORM(m1.mlsql_out, LAMBDA mlsql_d : CASE WHEN ARRAY_CONTAINS(['dog'], mlsql_d.label) THEN mlsql_d.score ELSE CAST(0.0 AS DOUBLE) END), LAMBDA mlsql_a, mlsql_b : GREATEST(mlsql_a, mlsql_b), CAST(0.0 AS DOUBLE)) FROM m1 WHERE m1.mlsql_arg IS NOT DISTINCT FROM frame) AS "score(frame, 'dog', model := 'eye')" FROM v WHERE ts < 0.7 AND (SELECT STRUCT_EXTRACT(m0.mlsql_out, 'label') FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM frame) = 'cat' AND ((SELECT (LENGTH(LIST_FILTER(LIST_FILTER(m1.mlsql_out, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label)))) FROM m1 WHERE m1.mlsql_arg IS NOT DISTINCT FROM frame) >= 1)

# detections as rows
SELECT frame_id, d.label FROM v, UNNEST(DETECT(frame, model => 'eye')) AS u(d);
s0 FROM: SELECT DISTINCT frame AS a0 FROM v
  out_0 = eye(a0)
f0: looks up eye in m0
final: SELECT frame_id, d.label FROM v, UNNEST(LIST_FILTER(F0(frame), LAMBDA mlsql_d : mlsql_d.score >= 0.5)) AS u(d)

# intervals of another table
SELECT i.name, count(*) FROM v JOIN (VALUES ('a', 0, 3), ('b', 6, 7)) i(name, lo, hi)
ON v.frame_id BETWEEN i.lo AND i.hi WHERE CONTAINS(v.frame, 'cat', model => 'eye') GROUP BY i.name;
s0 WHERE: SELECT DISTINCT v.frame AS a0 FROM v JOIN (VALUES ('a', 0, 3), ('b', 6, 7)) AS i(name, lo, hi) ON v.frame_id BETWEEN i.lo AND i.hi
  out_0 = eye(a0)
  accept ((LIST_TRANSFORM([(out_0)], LAMBDA mlsql_o : LENGTH(LIST_FILTER(LIST_FILTER(mlsql_o, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label))))[1] >= 1))
final: SELECT i.name, COUNT(*) AS "count_star()" FROM v JOIN (VALUES ('a', 0, 3), ('b', 6, 7)) AS i(name, lo, hi) ON v.frame_id BETWEEN i.lo AND i.hi WHERE ((SELECT (LENGTH(LIST_FILTER(LIST_FILTER(m0.mlsql_out, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(['cat'], mlsql_d.label)))) FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM v.frame) >= 1) GROUP BY i.name

# DuckDB's own contains asks nobody
SELECT frame_id FROM v WHERE contains([1, 2], frame_id);
final: SELECT frame_id FROM v WHERE CONTAINS([1, 2], frame_id)

# a label from a column
SELECT frame_id, l FROM v, (VALUES ('cat'), ('dog')) w(l) WHERE CONTAINS(frame, l, model => 'eye');
s0 WHERE: SELECT DISTINCT frame AS a0 FROM v WHERE EXISTS(SELECT 1 FROM (VALUES ('cat'), ('dog')) AS w(l))
  out_0 = eye(a0)
final: SELECT frame_id, l FROM v, (VALUES ('cat'), ('dog')) AS w(l) WHERE (CASE WHEN NOT l IS NULL THEN LIST_TRANSFORM([(m0[frame])], LAMBDA mlsql_o : LENGTH(LIST_FILTER(LIST_FILTER(mlsql_o, LAMBDA mlsql_d : mlsql_d.score >= 0.5), LAMBDA mlsql_d : ARRAY_CONTAINS(CASE WHEN NOT l IS NULL THEN COALESCE([…][LIST_POSITION([…], LOWER(TRIM(l)))], ERROR('unknown label ' || CHR(39) || l || CHR(39) || ' for eye (3 labels)')) END, mlsql_d.label))))[1] END >= 1)
