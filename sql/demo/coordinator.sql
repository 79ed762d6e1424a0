CREATE EXTENSION shard_fdw;

CREATE SERVER shard1 FOREIGN DATA WRAPPER shard_fdw
    OPTIONS (host :'shard1_host', port :'shard1_port', dbname 'postgres');
CREATE SERVER shard2 FOREIGN DATA WRAPPER shard_fdw
    OPTIONS (host :'shard2_host', port :'shard2_port', dbname 'postgres');

CREATE USER MAPPING FOR CURRENT_USER SERVER shard1 OPTIONS (user 'loader', password 'secret');
CREATE USER MAPPING FOR CURRENT_USER SERVER shard2 OPTIONS (user 'loader', password 'secret');

CREATE TABLE events (id bigint NOT NULL, name text, amount int, at timestamptz) PARTITION BY HASH (id);
CREATE FOREIGN TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 4, REMAINDER 0) SERVER shard1;
CREATE FOREIGN TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 4, REMAINDER 1) SERVER shard1;
CREATE FOREIGN TABLE events_2 PARTITION OF events FOR VALUES WITH (MODULUS 4, REMAINDER 2) SERVER shard2;
CREATE FOREIGN TABLE events_3 PARTITION OF events FOR VALUES WITH (MODULUS 4, REMAINDER 3) SERVER shard2;
