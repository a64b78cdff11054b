-- name: counts
-- In: db, field, kind. Out: each status of the kind's documents (null: none that is a text) and how many are in it.
SELECT CASE WHEN jsonb_typeof(doc -> 'status') = 'string' THEN doc ->> 'status' END AS status, count(*)
FROM {table}
WHERE db = %(db)s AND NOT deleted AND doc ->> %(field)s = %(kind)s
GROUP BY 1

-- name: but
-- In: db, field, kind, quiet. Out: id, revision and text of the kind's documents that are in none of these statuses, by id.
SELECT id, rev, doc::text
FROM {table}
WHERE db = %(db)s AND NOT deleted AND doc ->> %(field)s = %(kind)s
    AND (doc ->> 'status' = ANY (%(quiet)s::text[])) IS NOT TRUE
ORDER BY id
