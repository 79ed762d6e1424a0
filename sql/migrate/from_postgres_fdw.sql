-- Prints the statements that move a database's servers and foreign tables from postgres_fdw to shard_fdw.
--
--     psql -X -d DATABASE -f from_postgres_fdw.sql > migrate.sql          everything of postgres_fdw
--     psql -X -d DATABASE -v servers='shard%' -f … > migrate.sql          the servers whose names are LIKE this
--     psql -X -d DATABASE -v suffix=_before -f … > migrate.sql            how the old objects are renamed (default _old)
--
-- Nothing is changed by this script: read what it prints, fill in the passwords, and run that with
--
--     psql -X -v ON_ERROR_STOP=1 -d DATABASE -f migrate.sql
--
-- A server cannot change its wrapper, nor a foreign table its server. So the old ones are renamed, new ones take their
-- names and their places in partition and inheritance trees, and nothing is dropped. Only definitions are moved, no rows.
-- Run it as a superuser: others cannot read the options of user mappings.

\set QUIET on
\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on
\pset pager off
\if :{?servers} \else \set servers '%' \endif
\if :{?suffix} \else \set suffix '_old' \endif

BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- Everything outside pg_catalog is printed with its schema.
SET LOCAL search_path = pg_catalog;
SET LOCAL quote_all_identifiers = off;
SET LOCAL standard_conforming_strings = on;

SELECT current_setting('is_superuser') <> 'on' AS not_superuser \gset
\if :not_superuser
    \warn 'from_postgres_fdw.sql: only a superuser can read the options of user mappings'
    SELECT 1 / 0 AS stop \g /dev/null
\endif

SELECT format('-- From postgres_fdw to shard_fdw: database %I, written %s.', current_database(), now()::timestamptz(0));
SELECT line FROM (VALUES
    (1, '-- Option names are the same. What differs without being set: batch_size is 1000, parallel_commit and'),
    (2, '-- parallel_abort are on. To keep postgres_fdw''s behaviour, add batch_size ''1'' to a server.'),
    (3, 'BEGIN;'),
    (4, 'CREATE EXTENSION IF NOT EXISTS shard_fdw;'),
    (5, '-- All names below carry their schema.'),
    (6, 'SET LOCAL search_path = pg_catalog, pg_temp;')) AS head (n, line) ORDER BY n;

\echo
\echo '-- Who may create servers.'
SELECT format('GRANT USAGE ON FOREIGN DATA WRAPPER shard_fdw TO %s%s;',
              CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
              CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
  FROM pg_foreign_data_wrapper w, aclexplode(w.fdwacl) a
 WHERE w.fdwname = 'postgres_fdw' AND a.grantee <> w.fdwowner
 ORDER BY 1;

\echo
\echo '-- Servers.'
SELECT concat_ws(E'\n',
    format('ALTER SERVER %I RENAME TO %I;', s.srvname, left(s.srvname, 63 - length(:'suffix')) || :'suffix'),
    format('CREATE SERVER %I%s%s FOREIGN DATA WRAPPER shard_fdw%s;', s.srvname,
           ' TYPE ' || quote_literal(s.srvtype), ' VERSION ' || quote_literal(s.srvversion),
           E'\n    OPTIONS (' || o.list || ')'),
    CASE WHEN o.scram THEN '-- use_scram_passthrough was left out: shard_fdw does not support it. The user mappings need a password.' END,
    format('ALTER SERVER %I OWNER TO %I;', s.srvname, pg_get_userbyid(s.srvowner)),
    'COMMENT ON SERVER ' || quote_ident(s.srvname) || ' IS ' || quote_literal(d.description) || ';',
    g.list, '')
  FROM pg_foreign_server s
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  LEFT JOIN pg_description d
    ON d.objoid = s.oid AND d.classoid = 'pg_foreign_server'::regclass AND d.objsubid = 0
  CROSS JOIN LATERAL (
      SELECT string_agg(format('%I %L', e.option_name, e.option_value), ', ' ORDER BY e.n)
                 FILTER (WHERE e.option_name <> 'use_scram_passthrough') AS list,
             bool_or(e.option_name = 'use_scram_passthrough') AS scram
        FROM pg_options_to_table(s.srvoptions) WITH ORDINALITY AS e (option_name, option_value, n)) o
  CROSS JOIN LATERAL (
      SELECT string_agg(format('GRANT USAGE ON FOREIGN SERVER %I TO %s%s;', s.srvname,
                               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
                               CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END),
                        E'\n' ORDER BY a.grantee) AS list
        FROM aclexplode(s.srvacl) a
       WHERE a.grantee <> s.srvowner) g
 WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
 ORDER BY s.srvname;

\echo '-- User mappings, without their secrets.'
SELECT concat_ws(E'\n',
    '-- Left out here, to be added by hand: ' || o.secrets || '.',
    CASE WHEN o.scram THEN '-- use_scram_passthrough was left out: shard_fdw does not support it. A password is needed.' END,
    format('CREATE USER MAPPING FOR %s SERVER %I%s;',
           CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(u.umuser)) END,
           s.srvname, ' OPTIONS (' || o.list || ')'))
  FROM pg_user_mapping u
  JOIN pg_foreign_server s ON s.oid = u.umserver
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  CROSS JOIN LATERAL (
      SELECT string_agg(format('%I %L', e.option_name, e.option_value), ', ' ORDER BY e.n)
                 FILTER (WHERE NOT e.secret AND e.option_name <> 'use_scram_passthrough') AS list,
             string_agg(quote_ident(e.option_name), ', ' ORDER BY e.n) FILTER (WHERE e.secret) AS secrets,
             bool_or(e.option_name = 'use_scram_passthrough') AS scram
        FROM (SELECT *, option_name ~ '(password|secret|scram_.*_key)$' AS secret
                FROM pg_options_to_table(u.umoptions) WITH ORDINALITY AS e (option_name, option_value, n)) e) o
 WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
 ORDER BY s.srvname, u.umuser;

\echo
\echo '-- Foreign tables leave their places, all of them before the first gets a new name.'
SELECT CASE WHEN c.relispartition
            THEN format('ALTER TABLE %s DETACH PARTITION %s;', i.inhparent::regclass, c.oid::regclass)
            ELSE format('ALTER FOREIGN TABLE %s NO INHERIT %s;', c.oid::regclass, i.inhparent::regclass) END
  FROM pg_foreign_table f
  JOIN pg_class c ON c.oid = f.ftrelid
  JOIN pg_inherits i ON i.inhrelid = c.oid
  JOIN pg_foreign_server s ON s.oid = f.ftserver
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
 ORDER BY c.oid::regclass::text, i.inhseqno;

\echo
\echo '-- Foreign tables.'
WITH tables AS (
    SELECT c.oid, c.relowner, c.relacl, c.relname, c.relpartbound, c.relispartition, n.nspname, s.srvname, f.ftoptions,
           quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name,
           left(c.relname, 63 - length(:'suffix')) || :'suffix' AS old_relname
      FROM pg_foreign_table f
      JOIN pg_class c ON c.oid = f.ftrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_foreign_server s ON s.oid = f.ftserver
      JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
     WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
), columns AS (
    SELECT a.attrelid, string_agg(
        format('    %I %s', a.attname, format_type(a.atttypid, a.atttypmod))
        || coalesce((SELECT ' OPTIONS (' || string_agg(format('%I %L', e.option_name, e.option_value), ', ' ORDER BY e.n) || ')'
                       FROM pg_options_to_table(a.attfdwoptions) WITH ORDINALITY AS e (option_name, option_value, n)), '')
        || coalesce((SELECT format(' COLLATE %I.%I', n.nspname, l.collname)
                       FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
                      WHERE l.oid = a.attcollation AND a.attcollation <> y.typcollation), '')
        || CASE a.attgenerated
               WHEN 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
               WHEN 'v' THEN format(' GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid))
               ELSE coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
           END
        || CASE a.attidentity
               WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
               WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY'
               ELSE '' END
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
        E',\n' ORDER BY a.attnum) AS list
      FROM pg_attribute a
      JOIN pg_type y ON y.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attnum > 0 AND NOT a.attisdropped
     GROUP BY a.attrelid
), lines AS (
    SELECT t.name, 1 AS part, 0::bigint AS n, '-- ' || t.name AS line FROM tables t
    UNION ALL
    SELECT t.name, 2, 0, '-- Identity: the new sequence begins anew; set it with setval() if it counts.'
      FROM tables t
     WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attidentity <> '' AND NOT a.attisdropped)
    UNION ALL
    -- What still belongs to the old table afterwards and is not moved below.
    SELECT DISTINCT t.name, 2, 1, '-- Still uses the old table, change it by hand: '
           || CASE WHEN d.classid = 'pg_rewrite'::regclass AND r.ev_class <> t.oid
                   THEN pg_describe_object('pg_class'::regclass, r.ev_class, 0)
                   ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END
      FROM tables t
      JOIN pg_class c ON c.oid = t.oid
      JOIN pg_depend d ON (d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
                           OR d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype)
      LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
      LEFT JOIN pg_class v ON v.oid = r.ev_class
     WHERE d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass, 'pg_statistic_ext'::regclass, 'pg_policy'::regclass)
       AND v.relkind IS DISTINCT FROM 'v'
    UNION ALL
    SELECT t.name, 4, 0, format('ALTER FOREIGN TABLE %s RENAME TO %I;', t.name, t.old_relname) FROM tables t
    UNION ALL
    SELECT t.name, 5, 0, format(E'CREATE FOREIGN TABLE %s (%s) SERVER %I%s;', t.name,
               E'\n' || concat_ws(E',\n', k.list, (
                   SELECT string_agg(format('    CONSTRAINT %I %s', x.conname, pg_get_constraintdef(x.oid)), E',\n' ORDER BY x.conname)
                     FROM pg_constraint x WHERE x.conrelid = t.oid AND x.contype = 'c')) || E'\n',
               t.srvname,
               (SELECT E'\n    OPTIONS (' || string_agg(format('%I %L', e.option_name, e.option_value), ', ' ORDER BY e.n) || ')'
                  FROM pg_options_to_table(t.ftoptions) WITH ORDINALITY AS e (option_name, option_value, n)))
      FROM tables t LEFT JOIN columns k ON k.attrelid = t.oid
    UNION ALL
    SELECT t.name, 6, a.attnum, concat_ws(E'\n',
               format('ALTER FOREIGN TABLE %s ALTER COLUMN %I', t.name, a.attname) || ' SET STATISTICS ' || nullif(a.attstattarget, -1) || ';',
               format('ALTER FOREIGN TABLE %s ALTER COLUMN %I', t.name, a.attname) || ' SET (' || o.list || ');')
      FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
      CROSS JOIN LATERAL (
          -- pg_attver is the server's own mark in some minor versions, not an option.
          SELECT string_agg(e, ', ') AS list FROM unnest(a.attoptions) e WHERE e !~ '^pg_attver=') o
     WHERE coalesce(a.attstattarget, -1) <> -1 OR o.list IS NOT NULL
    UNION ALL
    SELECT t.name, 7, 0, format('ALTER FOREIGN TABLE %s OWNER TO %I;', t.name, pg_get_userbyid(t.relowner)) FROM tables t
    UNION ALL
    -- The sequence has to belong to the owner of the table.
    SELECT t.name, 8, a.attnum, format('ALTER SEQUENCE %s OWNED BY %s.%I;', q.oid::regclass, t.name, a.attname)
      FROM tables t
      JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
      JOIN pg_class q ON q.oid = d.objid AND q.relkind = 'S'
      JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
    UNION ALL
    SELECT t.name, 9, 0, format('REVOKE ALL ON TABLE %s FROM %I;', t.name, pg_get_userbyid(t.relowner))
      FROM tables t WHERE t.relacl IS NOT NULL
    UNION ALL
    SELECT t.name, 10, row_number() OVER (PARTITION BY t.oid ORDER BY p.attnum, p.grantee, p.is_grantable, p.privileges),
           format('GRANT %s ON TABLE %s TO %s%s;', p.privileges, t.name,
                  CASE p.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(p.grantee)) END,
                  CASE WHEN p.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM tables t
      CROSS JOIN LATERAL (
          SELECT 0 AS attnum, a.grantee, a.is_grantable, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS privileges
            FROM aclexplode(t.relacl) a GROUP BY a.grantee, a.is_grantable
          UNION ALL
          SELECT c.attnum, a.grantee, a.is_grantable, string_agg(format('%s (%I)', a.privilege_type, c.attname), ', ' ORDER BY a.privilege_type)
            FROM pg_attribute c, aclexplode(c.attacl) a
           WHERE c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped
           GROUP BY c.attnum, a.grantee, a.is_grantable) p
    UNION ALL
    SELECT t.name, 11, d.objsubid, CASE d.objsubid
               WHEN 0 THEN format('COMMENT ON FOREIGN TABLE %s IS %L;', t.name, d.description)
               ELSE format('COMMENT ON COLUMN %s.%I IS %L;', t.name, a.attname, d.description) END
      FROM tables t
      JOIN pg_description d ON d.objoid = t.oid AND d.classoid = 'pg_class'::regclass
      LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.objsubid
    UNION ALL
    SELECT t.name, 12, 0, format('COMMENT ON CONSTRAINT %I ON %s IS %L;', x.conname, t.name, d.description)
      FROM tables t
      JOIN pg_constraint x ON x.conrelid = t.oid AND x.contype = 'c'
      JOIN pg_description d ON d.objoid = x.oid AND d.classoid = 'pg_constraint'::regclass
    UNION ALL
    -- Triggers that a partition has from its parent come back with ATTACH.
    SELECT t.name, 13, row_number() OVER (PARTITION BY t.oid ORDER BY g.tgname), concat_ws(E'\n', pg_get_triggerdef(g.oid) || ';',
               CASE g.tgenabled
                   WHEN 'D' THEN format('ALTER FOREIGN TABLE %s DISABLE TRIGGER %I;', t.name, g.tgname)
                   WHEN 'A' THEN format('ALTER FOREIGN TABLE %s ENABLE ALWAYS TRIGGER %I;', t.name, g.tgname)
                   WHEN 'R' THEN format('ALTER FOREIGN TABLE %s ENABLE REPLICA TRIGGER %I;', t.name, g.tgname) END)
      FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgparentid = 0
    UNION ALL
    SELECT t.name, 14, i.inhseqno, CASE
               WHEN t.relispartition THEN format('ALTER TABLE %s ATTACH PARTITION %s %s;', i.inhparent::regclass, t.name,
                                                 pg_get_expr(t.relpartbound, t.oid))
               ELSE format('ALTER FOREIGN TABLE %s INHERIT %s;', t.name,
                           coalesce(p.name, i.inhparent::regclass::text)) END
      FROM tables t JOIN pg_inherits i ON i.inhrelid = t.oid LEFT JOIN tables p ON p.oid = i.inhparent
    UNION ALL
    -- Children that are not moved themselves.
    SELECT t.name, 15, i.inhrelid::bigint, format(
               E'ALTER TABLE %1$s NO INHERIT %2$I.%3$I;\nALTER TABLE %1$s INHERIT %4$s;',
               i.inhrelid::regclass, t.nspname, t.old_relname, t.name)
      FROM tables t JOIN pg_inherits i ON i.inhparent = t.oid
     WHERE i.inhrelid NOT IN (SELECT oid FROM tables)
    UNION ALL
    SELECT t.name, 16, 0, '' FROM tables t
), ranked AS (
    -- A table that others inherit from has to be there before them.
    WITH RECURSIVE depth AS (
        SELECT t.oid, t.name, 0 AS level FROM tables t
        UNION ALL
        SELECT t.oid, t.name, d.level + 1
          FROM depth d JOIN pg_inherits i ON i.inhparent = d.oid JOIN tables t ON t.oid = i.inhrelid
    )
    SELECT name, max(level) AS level FROM depth GROUP BY name
)
SELECT l.line FROM lines l JOIN ranked r USING (name) ORDER BY r.level, l.name, l.part, l.n, l.line;

\echo '-- Views that read these tables, bound to the new ones. Their definitions do not change.'
SELECT format(E'CREATE OR REPLACE VIEW %s%s AS\n%s', v.oid::regclass,
              ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid))
  FROM pg_class v
 WHERE v.relkind = 'v'
   AND EXISTS (SELECT FROM pg_rewrite r
                 JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                 JOIN pg_foreign_table f ON f.ftrelid = d.refobjid
                 JOIN pg_foreign_server s ON s.oid = f.ftserver
                 JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
                WHERE r.ev_class = v.oid AND w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers')
 ORDER BY v.oid::regclass::text;

\echo
\echo 'COMMIT;'
\echo
\echo '-- When all is well. An error here names what still uses the old tables.'
SELECT format('-- DROP FOREIGN TABLE %I.%I;', n.nspname, left(c.relname, 63 - length(:'suffix')) || :'suffix')
  FROM pg_foreign_table f
  JOIN pg_class c ON c.oid = f.ftrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_foreign_server s ON s.oid = f.ftserver
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
 ORDER BY n.nspname, c.relname;
SELECT concat_ws(E'\n',
    (SELECT string_agg(format('-- DROP USER MAPPING FOR %s SERVER %I;',
                              CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(u.umuser)) END,
                              left(s.srvname, 63 - length(:'suffix')) || :'suffix'), E'\n' ORDER BY u.umuser)
       FROM pg_user_mapping u WHERE u.umserver = s.oid),
    format('-- DROP SERVER %I;', left(s.srvname, 63 - length(:'suffix')) || :'suffix'))
  FROM pg_foreign_server s
  JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname = 'postgres_fdw' AND s.srvname LIKE :'servers'
 ORDER BY s.srvname;
COMMIT;
