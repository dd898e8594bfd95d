-- Cars a second, from two frames of each: how many at most, and how many on the whole.
-- Wants bikes.mp4 in the current folder, see moments.sql.
SELECT floor(ts)::INT AS second,
       max(COUNT_OBJECTS(frame, 'car')) AS cars,
       max(COUNT_OBJECTS(frame, 'vehicle')) AS vehicles
FROM read_video('bikes.mp4', fps => 2)
GROUP BY second
ORDER BY second;
