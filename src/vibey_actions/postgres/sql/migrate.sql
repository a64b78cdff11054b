-- name: tables
-- Out: the columns of our two tables in schema public, as far as they are there.
SELECT c.relname, pg_catalog.array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = 'public' AND c.relname IN ('schema_migration', 'state_sync') AND c.relkind IN ('r', 'p', 'v')
GROUP BY c.relname

-- name: schema_exists
-- Whether our own schema is there.
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'vibey_actions')

-- name: create_schema
CREATE SCHEMA vibey_actions

-- name: create_schema_migration
CREATE TABLE public.schema_migration (
    version text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now(),
    checksum text
)

-- name: create_state_sync
CREATE TABLE public.state_sync (
    remote text PRIMARY KEY,
    base_commit text NOT NULL,
    synced_at timestamptz NOT NULL DEFAULT now()
)

-- name: versions
-- Out: the applied versions.
SELECT version::text FROM public.schema_migration

-- name: versions_with_checksums
-- Out: the applied versions, each with the checksum recorded for it or null.
SELECT version::text, checksum::text FROM public.schema_migration

-- name: record
-- In: version.
INSERT INTO public.schema_migration (version) VALUES (%(version)s)

-- name: record_with_checksum
-- In: version, checksum.
INSERT INTO public.schema_migration (version, checksum) VALUES (%(version)s, %(checksum)s)

-- name: transaction
-- Out: the id of the transaction that is open.
SELECT pg_catalog.pg_current_xact_id()::text
