-- Every box of a few frames as a row of its own, the surest first.
-- Wants bikes.mp4 in the current folder, see moments.sql.
SELECT frame_id, d.label, round(d.score, 2) AS score,
       round(d.x2 - d.x1)::INT AS width, round(d.y2 - d.y1)::INT AS height
FROM (SELECT frame_id, unnest(DETECT(frame, min_score => 0.4)) AS d
      FROM 'bikes.mp4' WHERE frame_id IN (110, 120, 190))
ORDER BY d.score DESC
LIMIT 10;
