-- name: this
-- Out: the row of this database in pg_database as JSON (its columns differ from version to version).
SELECT pg_catalog.to_jsonb(d) FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()

-- name: now
-- Out: the server's time as whole seconds since 1970.
SELECT pg_catalog.floor(EXTRACT(epoch FROM pg_catalog.clock_timestamp()))::bigint

-- name: idle
-- Out: databases of this server that nobody is connected to and whose names look like a scratch database's.
SELECT d.datname
FROM pg_catalog.pg_database d
WHERE pg_catalog.starts_with(d.datname::text, 'vibey_scratch_')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid)
ORDER BY d.datname

-- name: search_path
-- Out: where this session looks for names.
SELECT pg_catalog.current_setting('search_path')
