-- The reference: four local partitions below :parent.
CREATE SCHEMA :"parent";
CREATE TABLE :"parent".rows (id bigint NOT NULL, name text, amount int, at timestamptz) PARTITION BY HASH (id);
CREATE TABLE :"parent".rows_0 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE :"parent".rows_1 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE :"parent".rows_2 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE :"parent".rows_3 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 3);
