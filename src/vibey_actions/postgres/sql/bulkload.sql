-- name: droppable_indexes
-- Secondary indexes that a definition restores whole: nothing else hangs on them and nothing is set on them.
SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(%(tables)s)
  AND NOT (i.indisunique AND %(keep_unique)s)
  AND NOT i.indisprimary AND i.indisvalid AND i.indisready AND NOT i.indisreplident AND NOT i.indisclustered
  AND c.relkind = 'i' AND c.reltablespace = 0 AND NOT c.relispartition
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indexrelid)
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.deptype IN ('e', 'x'))
  AND NOT EXISTS (SELECT FROM pg_description d WHERE d.classoid = 'pg_class'::regclass AND d.objoid = i.indexrelid)
  AND NOT EXISTS (SELECT FROM pg_seclabel s WHERE s.classoid = 'pg_class'::regclass AND s.objoid = i.indexrelid)
  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indexrelid AND a.attstattarget >= 0)
ORDER BY i.indexrelid

-- name: droppable_keys
-- Primary keys and unique constraints that a definition restores whole: nothing else hangs on them by now (a foreign key
-- hangs on the index), nothing is set on them, and pg_get_constraintdef leaves none of their index's settings out.
SELECT k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid)
FROM pg_constraint k
JOIN pg_index i ON i.indexrelid = k.conindid
JOIN pg_class c ON c.oid = i.indexrelid
WHERE k.conrelid = ANY(%(tables)s)
  AND k.contype IN ('p', 'u') AND k.conparentid = 0 AND k.conislocal AND k.coninhcount = 0
  AND i.indisvalid AND i.indisready AND NOT i.indisreplident AND NOT i.indisclustered
  AND c.relkind = 'i' AND c.reltablespace = 0 AND c.reloptions IS NULL AND NOT c.relispartition
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
                         OR (d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid))
                    AND NOT (d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i'))
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE ((d.classid = 'pg_class'::regclass AND d.objid = c.oid)
                         OR (d.classid = 'pg_constraint'::regclass AND d.objid = k.oid)) AND d.deptype IN ('e', 'x'))
  AND NOT EXISTS (SELECT FROM pg_description d
                  WHERE (d.classoid = 'pg_class'::regclass AND d.objoid = c.oid)
                     OR (d.classoid = 'pg_constraint'::regclass AND d.objoid = k.oid))
  AND NOT EXISTS (SELECT FROM pg_seclabel s WHERE s.classoid = 'pg_class'::regclass AND s.objoid = c.oid)
  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attstattarget >= 0)
ORDER BY k.conrelid, k.contype, k.conname

-- name: foreign_keys
-- Foreign keys among the tables; whole says whether the definition restores the constraint with all that is set on it.
SELECT k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid),
       k.convalidated AND k.conislocal AND k.coninhcount = 0
       AND NOT EXISTS (SELECT FROM pg_description d WHERE d.classoid = 'pg_constraint'::regclass AND d.objoid = k.oid)
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid
                       AND d.deptype = 'n')
       AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgconstraint = k.oid AND t.tgenabled <> 'O') AS whole
FROM pg_constraint k
WHERE k.contype = 'f' AND k.conparentid = 0
  AND k.conrelid = ANY(%(tables)s) AND k.confrelid = ANY(%(tables)s)
ORDER BY k.conrelid, k.conname

-- name: obstacles
-- What makes a streamed fill unsafe: tables of another owner, rules of the database on DDL, policies, inheritance.
SELECT count(*) FROM pg_class c
WHERE c.oid = ANY(%(tables)s)
  AND (NOT pg_has_role(c.relowner, 'USAGE') OR c.relrowsecurity
       OR EXISTS (SELECT FROM pg_event_trigger e WHERE e.evtenabled <> 'D'))

-- name: insert_triggers
-- Tables (partitions under their root) with a trigger that fires when a row is inserted.
SELECT DISTINCT coalesce(pg_partition_root(t.tgrelid), t.tgrelid)::oid
FROM pg_trigger t
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND (t.tgtype & 4) <> 0
  AND coalesce(pg_partition_root(t.tgrelid), t.tgrelid)::oid = ANY(%(tables)s)
