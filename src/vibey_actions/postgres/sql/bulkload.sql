-- name: droppable
-- In: tables, keep_unique. Secondary indexes, primary keys and unique constraints that a definition restores whole: nothing
-- else hangs on them by now (a foreign key hangs on the index), nothing is set on them, and pg_get_constraintdef leaves none
-- of a key's index settings out. Out, in the order they were made in: the index, its SQL name, and for a key the SQL name
-- of its table, its name and its definition.
SELECT i.indexrelid::oid, i.indexrelid::regclass::text, k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
WHERE i.indrelid = ANY(%(tables)s)
  AND NOT (i.indisunique AND %(keep_unique)s)
  AND i.indisvalid AND i.indisready AND NOT i.indisreplident AND NOT i.indisclustered
  AND c.relkind = 'i' AND c.reltablespace = 0 AND NOT c.relispartition
  AND (k.oid IS NULL
       OR k.contype IN ('p', 'u') AND k.conparentid = 0 AND k.conislocal AND k.coninhcount = 0 AND c.reloptions IS NULL)
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
                         OR (d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid))
                    AND NOT (k.oid IS NOT NULL
                             AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i'))
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE ((d.classid = 'pg_class'::regclass AND d.objid = c.oid)
                         OR (d.classid = 'pg_constraint'::regclass AND d.objid = k.oid)) AND d.deptype IN ('e', 'x'))
  AND NOT EXISTS (SELECT FROM pg_description d
                  WHERE (d.classoid = 'pg_class'::regclass AND d.objoid = c.oid)
                     OR (d.classoid = 'pg_constraint'::regclass AND d.objoid = k.oid))
  AND NOT EXISTS (SELECT FROM pg_seclabel s WHERE s.classoid = 'pg_class'::regclass AND s.objoid = c.oid)
  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attstattarget >= 0)
ORDER BY i.indexrelid

-- name: foreign_keys
-- Foreign keys among the tables, those of and to a partition by itself too, in the order they were made in; whole says
-- whether the definition restores the constraint with all that is set on it and on the copies that partitions have.
SELECT k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid),
       k.convalidated AND k.conislocal AND k.coninhcount = 0
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid
                       AND d.deptype = 'n')
       AND NOT EXISTS (
           SELECT FROM pg_constraint own
           WHERE (own.oid = k.oid OR own.conparentid = k.oid)
             AND (EXISTS (SELECT FROM pg_description d
                          WHERE d.classoid = 'pg_constraint'::regclass AND d.objoid = own.oid)
                  OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgconstraint = own.oid AND t.tgenabled <> 'O')
                  OR own.conrelid <> k.conrelid AND (own.conislocal OR own.conname <> k.conname))
       ) AS whole
FROM pg_constraint k
WHERE k.contype = 'f' AND k.conparentid = 0
  AND coalesce(pg_partition_root(k.conrelid), k.conrelid)::oid = ANY(%(tables)s)
  AND coalesce(pg_partition_root(k.confrelid), k.confrelid)::oid = ANY(%(tables)s)
ORDER BY k.oid

-- name: shape
-- In: tables. All that is set on the tables, on what inherits from them, and on their indexes and constraints, as texts
-- that are the same for as long as nobody changes it, whatever the oids.
WITH RECURSIVE rel AS (
    SELECT given.oid FROM unnest(%(tables)s::oid[]) AS given (oid)
    UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN rel ON rel.oid = i.inhparent
), con AS (
    SELECT k.* FROM pg_constraint k WHERE k.conrelid IN (SELECT oid FROM rel) OR k.confrelid IN (SELECT oid FROM rel)
), part AS (
    SELECT 'pg_class'::regclass::oid AS class, oid, oid::regclass::text AS name FROM rel
    UNION ALL
    SELECT 'pg_class'::regclass, indexrelid, indexrelid::regclass::text FROM pg_index WHERE indrelid IN (SELECT oid FROM rel)
    UNION ALL
    SELECT 'pg_constraint'::regclass, oid, format('%%s.%%s', conrelid::regclass, conname) FROM con
)
SELECT jsonb_build_array('relation', p.name, to_jsonb(c) - '{oid,relfilenode,relpages,reltuples,relallvisible,
           relallfrozen,relfrozenxid,relminmxid}'::text[])::text AS said
FROM part p
JOIN pg_class c ON c.oid = p.oid AND p.class = 'pg_class'::regclass
UNION ALL
SELECT jsonb_build_array('column', p.name, CASE WHEN i.indexrelid IS NULL THEN to_jsonb(a) - 'attrelid'
           ELSE to_jsonb(a) - '{attrelid,attname}'::text[] END)::text
FROM part p
JOIN pg_attribute a ON a.attrelid = p.oid AND p.class = 'pg_class'::regclass AND a.attnum > 0
LEFT JOIN pg_index i ON i.indexrelid = p.oid
UNION ALL
SELECT jsonb_build_array('index', p.name, pg_get_indexdef(i.indexrelid),
           to_jsonb(i) - '{indexrelid,indexprs,indpred,indcheckxmin}'::text[])::text
FROM part p
JOIN pg_index i ON i.indexrelid = p.oid AND p.class = 'pg_class'::regclass
UNION ALL
SELECT jsonb_build_array('constraint', p.name, pg_get_constraintdef(k.oid), k.conindid::regclass, parent.conname,
           to_jsonb(k) - '{oid,conindid,conparentid,conbin}'::text[])::text
FROM part p
JOIN con k ON k.oid = p.oid AND p.class = 'pg_constraint'::regclass
LEFT JOIN pg_constraint parent ON parent.oid = k.conparentid
UNION ALL
SELECT jsonb_build_array('trigger', t.tgrelid::regclass, k.conname, CASE WHEN NOT t.tgisinternal THEN t.tgname END,
           t.tgconstrrelid::regclass, t.tgconstrindid::regclass, t.tgfoid::regprocedure, t.tgparentid <> 0,
           to_jsonb(t) - '{oid,tgname,tgconstraint,tgconstrindid,tgparentid,tgqual}'::text[])::text
FROM pg_trigger t
LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
WHERE t.tgrelid IN (SELECT oid FROM rel) OR t.tgconstrrelid IN (SELECT oid FROM rel)
UNION ALL
SELECT jsonb_build_array('comment', p.name, d.objsubid, d.description)::text
FROM part p
JOIN pg_description d ON d.classoid = p.class AND d.objoid = p.oid
UNION ALL
SELECT jsonb_build_array('label', p.name, s.objsubid, s.provider, s.label)::text
FROM part p
JOIN pg_seclabel s ON s.classoid = p.class AND s.objoid = p.oid
UNION ALL
SELECT jsonb_build_array('leans on', p.name, d.refclassid::regclass, d.deptype, count(*))::text
FROM part p
JOIN pg_depend d ON d.classid = p.class AND d.objid = p.oid
GROUP BY p.class, p.name, d.refclassid, d.deptype
UNION ALL
SELECT jsonb_build_array('holds up', p.name, d.classid::regclass, d.deptype, count(*))::text
FROM part p
JOIN pg_depend d ON d.refclassid = p.class AND d.refobjid = p.oid
GROUP BY p.class, p.name, d.classid, d.deptype
ORDER BY said

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
