-- name: own
-- Out: the process of every session of this role but this one.
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE usename = current_user AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend'

-- name: end
-- In: kept, processes of sessions that go on. Out: whether each of the others was told to end.
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE usename = current_user AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend'
  AND pid <> ALL (%(kept)s)
