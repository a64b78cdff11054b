-- name: written
-- In: oids of tables. Out: each with the rows that this transaction inserted, updated and deleted so far, in partitions
-- too, and the names of the files that hold them, which are others after TRUNCATE, a truncated row being counted
-- nowhere. What was taken back to a savepoint is counted as well.
SELECT root.oid::bigint,
       sum(pg_stat_get_xact_tuples_inserted(part.oid)),
       sum(pg_stat_get_xact_tuples_updated(part.oid)),
       sum(pg_stat_get_xact_tuples_deleted(part.oid)),
       coalesce(string_agg(pg_relation_filenode(part.oid)::text, ' ' ORDER BY part.oid), '')
FROM unnest(%(oids)s::oid[]) AS root (oid)
CROSS JOIN LATERAL (SELECT root.oid UNION SELECT relid::oid FROM pg_partition_tree(root.oid)) AS part (oid)
GROUP BY root.oid

-- name: rules
-- In: oids of tables. Out: the table and name of every rule that does something else or more when rows are written.
SELECT ev_class::bigint, rulename
FROM pg_rewrite
WHERE ev_class = ANY (%(oids)s::oid[]) AND ev_type <> '1' AND ev_enabled IN ('O', 'A')
ORDER BY ev_class, rulename COLLATE "C"
