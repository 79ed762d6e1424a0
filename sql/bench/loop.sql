-- :rows statements of one row each, in a loop of PL/pgSQL; the first of them, not measured, opens the connections.
SET shard_fdw.flush_policy = :policy;
SELECT format($$
CREATE FUNCTION pg_temp.fill(first int, last int) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
    FOR i IN first..last LOOP
        INSERT INTO %I.rows VALUES (i, 'event ' || i, i %% 1000, now());
    END LOOP;
END $f$ $$, :'parent') \gexec
SELECT pg_temp.fill(1, :warm);
SELECT clock_timestamp() AS begin \gset
SELECT pg_temp.fill(1 + :warm, :warm + :rows);
SELECT format('Time: %s ms', extract(epoch FROM clock_timestamp() - :'begin') * 1000);
