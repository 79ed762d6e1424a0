-- Types that have no binary form in common with a server's, because they belong to this database.
CREATE TYPE bench.mood AS ENUM ('calm', 'busy', 'lost');
CREATE DOMAIN bench.price AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE TYPE bench.pair AS (number int, name text);
