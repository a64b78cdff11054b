-- name: count
-- In: table. Out: how many rows of it were ever written, as far as sessions have reported that.
SELECT pg_catalog.pg_stat_get_tuples_inserted(oid) + pg_catalog.pg_stat_get_tuples_updated(oid)
    + pg_catalog.pg_stat_get_tuples_deleted(oid)
FROM pg_catalog.to_regclass(%(table)s::text) AS oid
