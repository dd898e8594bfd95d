-- What is on each photograph of a folder, and does an animal show?
-- Wants pictures in the folder photos; from the repository's:
--   mkdir photos && cp "$(python -c 'from datasets import skimage_pictures as s; print(s.where())')"/*.jpg photos
--   mlsql -f examples/pictures.sql
SELECT parse_filename(path) AS file, width, height,
       CLASSIFY(image) AS label,
       CONTAINS(image, 'animal') AS animal
FROM read_images('photos/*')
ORDER BY file;
