-- name: triggers
-- In: oids. Out: every trigger of the database's own on the tables and their partitions, from the root down: the
-- table's oid, the SQL name of what it is on, its name, when it fires (O, A, R or D). Before PostgreSQL 15 the copies on
-- partitions count as internal.
SELECT root.oid AS root, format('%%I.%%I', n.nspname, c.relname) AS relation, t.tgname AS name, t.tgenabled::text AS fires
FROM unnest(%(oids)s::oid[]) AS root (oid)
CROSS JOIN LATERAL (
    SELECT root.oid AS oid, 0 AS level
    UNION
    SELECT relid::oid, level FROM pg_partition_tree(root.oid)
) AS part
JOIN pg_trigger t ON t.tgrelid = part.oid
JOIN pg_class c ON c.oid = part.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal OR (t.tgparentid <> 0 AND t.tgconstraint = 0)
ORDER BY part.level, part.oid, t.tgname COLLATE "C"
