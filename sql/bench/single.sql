-- :rows statements of one row each in a transaction that has sent one already.
BEGIN;
INSERT INTO :"parent".rows_0 VALUES (0, 'event 0', 0, now());
SELECT clock_timestamp() AS begin \gset
SELECT format('INSERT INTO %I.rows_0 VALUES (%s, ''event %s'', %s, now())', :'parent', i, i, i % 1000)
FROM generate_series(1, :rows) AS i \gexec
SELECT format('Time: %s ms', extract(epoch FROM clock_timestamp() - :'begin') * 1000);
COMMIT;
