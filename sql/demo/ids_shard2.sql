CREATE TABLE orders_1 (id bigint PRIMARY KEY, item text);
GRANT SELECT, INSERT ON orders_1 TO loader;
