-- The four tables that hold a candidate's rows on the shards. A shard that has fewer partitions leaves the others empty.
CREATE SCHEMA :"schema";
CREATE TABLE :"schema".rows_0 (id bigint NOT NULL, name text, amount int, at timestamptz);
CREATE TABLE :"schema".rows_1 (id bigint NOT NULL, name text, amount int, at timestamptz);
CREATE TABLE :"schema".rows_2 (id bigint NOT NULL, name text, amount int, at timestamptz);
CREATE TABLE :"schema".rows_3 (id bigint NOT NULL, name text, amount int, at timestamptz);
