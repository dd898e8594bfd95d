-- When are a person and a bicycle in the picture? Moments at most half a second apart are one run.
-- Wants bikes.mp4 in the current folder; from the repository's:
--   cp "$(python -c 'from datasets import bikes; print(bikes.where())')" .
--   mlsql -f examples/moments.sql
WITH moments AS (
  SELECT frame_id, ts, SCORE(frame, 'bicycle') AS bicycle
  FROM 'bikes.mp4'
  WHERE frame_id BETWEEN 100 AND 139
    AND CONTAINS(frame, 'person') AND CONTAINS(frame, 'bicycle')
), marked AS (
  SELECT *, coalesce(ts - lag(ts) OVER (ORDER BY ts) > 0.5, true) AS starts FROM moments
), numbered AS (
  SELECT *, sum(starts::INT) OVER (ORDER BY ts) AS run FROM marked
)
SELECT run, min(ts) AS start_s, max(ts) AS end_s, count(*) AS frames, max(bicycle) AS surest
FROM numbered
GROUP BY run
ORDER BY run;
