CREATE ROLE loader LOGIN PASSWORD 'secret';
CREATE TABLE events_0 (id bigint NOT NULL, name text, amount int, at timestamptz);
CREATE TABLE events_1 (id bigint NOT NULL, name text, amount int, at timestamptz);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON events_0, events_1 TO loader;
