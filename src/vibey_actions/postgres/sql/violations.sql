-- name: unique_indexes
-- In: table, keys. Out: every unique index of it, with keys the primary key's too: name, the text of what it is over, its predicate or
-- null, whether nulls count as alike (from PostgreSQL 15 on).
SELECT c.relname,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) AS n ORDER BY n),
       pg_get_expr(i.indpred, i.indrelid, true),
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %(table)s AND i.indisunique AND (%(keys)s OR NOT i.indisprimary)
ORDER BY c.relname COLLATE "C"
