-- The tables that hold a candidate's rows. A server that has fewer of the partitions leaves the others empty.
CREATE SCHEMA :"schema";
SELECT format('CREATE TABLE %I.rows_%s (%s)', :'schema', i, :'shape') FROM generate_series(0, :partitions - 1) AS i \gexec
