-- What every measurement reads and where it puts its results; :rows is the number of rows.
CREATE TABLE source (id bigint NOT NULL, name text, amount int, at timestamptz);
INSERT INTO source
SELECT id, 'event ' || id, id % 1000, timestamptz '2024-01-01 00:00+00' + id * interval '1 second'
FROM generate_series(1, :rows) AS id;
VACUUM (FREEZE, ANALYZE) source;

CREATE TABLE result (work text, candidate text, round int, rows bigint, ms numeric);
