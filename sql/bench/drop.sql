-- A candidate with its servers.
SET client_min_messages = warning;
DROP SCHEMA :"parent" CASCADE;
SELECT format('DROP SERVER %I CASCADE', srvname) FROM pg_foreign_server WHERE srvname ~ format('^%s_\d+$', :'parent') \gexec
