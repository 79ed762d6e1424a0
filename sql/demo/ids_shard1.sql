CREATE SEQUENCE order_ids;
GRANT USAGE ON SEQUENCE order_ids TO loader;
CREATE TABLE orders_0 (id bigint PRIMARY KEY, item text);
GRANT SELECT, INSERT ON orders_0 TO loader;
