-- What is asked of a session before it is used.

-- name: process
-- Out: the server process behind this session.
SELECT pg_catalog.pg_backend_pid()
