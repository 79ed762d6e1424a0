-- What every measurement reads and where it puts its results; :rows is the number of rows.
CREATE TABLE source (id bigint NOT NULL, name text, amount int, at timestamptz);
INSERT INTO source
SELECT id, 'event ' || id, id % 1000, timestamptz '2024-01-01 00:00+00' + id * interval '1 second'
FROM generate_series(1, :rows) AS id;
VACUUM (FREEZE, ANALYZE) source;

-- A run: so many rows in so many milliseconds.
CREATE TABLE result (work text, candidate text, round int, rows bigint, ms numeric);
-- Other things that a run has shown.
CREATE TABLE seen (work text, candidate text, round int, name text, value numeric);

-- "median (smallest–largest)", or a dash if nothing was measured; :digits behind the point.
CREATE FUNCTION bench.spread(numbers numeric[], digits int) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT format('%s (%s–%s)', round(percentile_cont(0.5) WITHIN GROUP (ORDER BY n)::numeric, digits),
            round(min(n), digits), round(max(n), digits))
        FROM unnest(numbers) AS n HAVING count(n) > 0), '–')
$$;

-- Time per row, as multiples of another candidate's: round by round, since both sides of a round met the same machine.
CREATE FUNCTION bench.times(work_a text, a text, work_b text, b text) RETURNS numeric[] LANGUAGE sql AS $$
    SELECT array_agg((ra.ms / ra.rows) / (rb.ms / rb.rows))
    FROM result ra JOIN result rb USING (round)
    WHERE (ra.work, ra.candidate) = (work_a, a) AND (rb.work, rb.candidate) = (work_b, b)
$$;

-- Seconds for so many rows.
CREATE FUNCTION bench.seconds(work text, candidate text, rows bigint) RETURNS numeric[] LANGUAGE sql AS $$
    SELECT array_agg(r.ms / r.rows * $3 / 1000) FROM result r WHERE (r.work, r.candidate) = ($1, $2)
$$;

-- What was seen under a name.
CREATE FUNCTION bench.seen(work text, candidate text, name text) RETURNS numeric[] LANGUAGE sql AS $$
    SELECT array_agg(s.value) FROM seen s WHERE (s.work, s.candidate, s.name) = ($1, $2, $3)
$$;
