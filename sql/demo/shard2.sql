CREATE ROLE loader LOGIN PASSWORD 'secret';
CREATE TABLE events_2 (id bigint NOT NULL, name text, amount int, at timestamptz);
CREATE TABLE events_3 (id bigint NOT NULL, name text, amount int, at timestamptz);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON events_2, events_3 TO loader;
