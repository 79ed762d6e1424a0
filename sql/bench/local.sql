-- The reference: local partitions below :parent.
CREATE SCHEMA :"parent";
CREATE TABLE :"parent".rows (:shape) PARTITION BY HASH (id);
SELECT format('CREATE TABLE %1$I.rows_%2$s PARTITION OF %1$I.rows FOR VALUES WITH (MODULUS %3$s, REMAINDER %2$s)',
    :'parent', i, :partitions)
FROM generate_series(0, :partitions - 1) AS i \gexec
