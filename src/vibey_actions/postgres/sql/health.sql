-- name: session
-- Out: what this session is: its server process, whether it can only read (and because of a standby), its clock, its
-- role, and what the role may do in the database.
SELECT pg_catalog.pg_backend_pid(),
       pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('transaction_read_only') = 'on',
       pg_catalog.clock_timestamp(),
       current_user::text,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY'),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')

-- name: extensions
-- Out: the extensions of this database, but for the one that every database has.
SELECT extname::text, extversion::text FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY extname

-- name: tables
-- In: oids. Out: by table, what this role may do with it, whether policies hide rows from it, whether it owns it.
SELECT c.oid::bigint,
       pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'),
       pg_catalog.has_table_privilege(c.oid, 'SELECT'),
       pg_catalog.has_table_privilege(c.oid, 'INSERT'),
       pg_catalog.has_table_privilege(c.oid, 'UPDATE'),
       pg_catalog.has_table_privilege(c.oid, 'DELETE'),
       pg_catalog.row_security_active(c.oid),
       pg_catalog.pg_has_role(c.relowner, 'USAGE')
FROM pg_catalog.pg_class c
WHERE c.oid = ANY (%(oids)s::bigint[]::oid[])

-- name: sequences
-- In: sequences (qualified, quoted). Out: those whose last number this role may not read and move.
SELECT s FROM pg_catalog.unnest(%(sequences)s::text[]) s
WHERE NOT pg_catalog.has_sequence_privilege(s, 'SELECT') OR NOT pg_catalog.has_sequence_privilege(s, 'UPDATE')

-- name: own_schema
-- Out: whether our own schema is there, and whether this role may use it.
SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = 'vibey_actions'

-- name: synced
-- In: remote. Out: when it was last synced with, and how many seconds that is ago by the database's own clock.
SELECT synced_at, extract(epoch FROM pg_catalog.clock_timestamp() - synced_at)::float8
FROM public.state_sync WHERE remote = %(remote)s

-- name: watermark_rights
-- Out: whether this role may record a watermark.
SELECT pg_catalog.has_table_privilege('public.state_sync', 'SELECT')
   AND pg_catalog.has_table_privilege('public.state_sync', 'INSERT')
   AND pg_catalog.has_table_privilege('public.state_sync', 'UPDATE')
