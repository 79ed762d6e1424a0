-- :repeats statements of :size rows each, once the connection is there.
SELECT count(*) FROM :"parent".rows;
SELECT clock_timestamp() AS begin \gset
SELECT format('INSERT INTO %I.rows SELECT * FROM source WHERE id <= %s', :'parent', :size)
FROM generate_series(1, :repeats) AS i \gexec
SELECT format('Time: %s ms', extract(epoch FROM clock_timestamp() - :'begin') * 1000);
