-- What the seeds call, besides nextval.
CREATE SEQUENCE bench.s;
CREATE FUNCTION bench.draw() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN nextval('bench.s');
END
$$;
CREATE FUNCTION bench.inlined(i bigint) RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''bench.s'') + 0 * i';
