-- name: unique
-- In: oids. Out: every unique index and exclusion constraint of the tables, and of their partitions by themselves: the
-- table (a partition's under its root), its name, whether it is the primary key's, whether it is checked row by row, the text of what it is over, the plain columns among that, the
-- collations to compare in, the operators that make two rows clash, its predicate (in a partition with what bounds that) or
-- null, whether nulls count as alike
-- (from PostgreSQL 15 on), how it is dropped and (a constraint) made again, and whether that restores all that is set on it.
SELECT part.root,
       i.indexrelid::oid AS oid,
       c.relname AS name,
       i.indisprimary AS is_key,
       i.indimmediate AS immediate,
       ARRAY(
           SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) AS n ORDER BY n
       ) AS expressions,
       ARRAY(
           SELECT coalesce(a.attname::text, '')
           FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS part (attnum, place)
           LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum
           WHERE part.place <= i.indnkeyatts
           ORDER BY part.place
       ) AS columns,
       ARRAY(
           SELECT coalesce(quote_ident(n.nspname) || '.' || quote_ident(o.collname), '')
           FROM unnest(i.indcollation::oid[]) WITH ORDINALITY AS part (oid, place)
           LEFT JOIN pg_collation o ON o.oid = part.oid
           LEFT JOIN pg_namespace n ON n.oid = o.collnamespace
           ORDER BY part.place
       ) AS collations,
       ARRAY(
           SELECT 'OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ')'
           FROM (
               SELECT part.oid, part.place
               FROM unnest(k.conexclop) WITH ORDINALITY AS part (oid, place)
               UNION ALL
               SELECT m.amopopr, part.place
               FROM unnest(i.indclass::oid[]) WITH ORDINALITY AS part (oid, place)
               JOIN pg_opclass x ON x.oid = part.oid
               JOIN pg_amop m ON m.amopfamily = x.opcfamily AND m.amopstrategy = 3 AND m.amoppurpose = 's'
                   AND m.amoplefttype = x.opcintype AND m.amoprighttype = x.opcintype
               WHERE k.conexclop IS NULL
           ) AS part
           JOIN pg_operator o ON o.oid = part.oid
           JOIN pg_namespace n ON n.oid = o.oprnamespace
           ORDER BY part.place
       ) AS operators,
       nullif(concat_ws(
           ' AND ',
           CASE WHEN part.oid <> part.root THEN '(' || pg_get_partition_constraintdef(part.oid) || ')' END,
           '(' || pg_get_expr(i.indpred, i.indrelid, true) || ')'
       ), '') AS predicate,
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false) AS nulls_alike,
       CASE
           WHEN k.oid IS NULL THEN format('DROP INDEX %%s', i.indexrelid::regclass)
           ELSE format('ALTER TABLE %%s DROP CONSTRAINT %%I', i.indrelid::regclass, k.conname)
       END AS removal,
       CASE
           WHEN k.oid IS NOT NULL
           THEN format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', i.indrelid::regclass, k.conname,
                       pg_get_constraintdef(k.oid))
       END AS restoration,
       i.indisvalid AND NOT i.indisprimary AND NOT i.indisreplident AND NOT i.indisclustered
       AND c.relkind = 'i' AND NOT c.relispartition AND c.reltablespace = 0
       AND coalesce(k.conislocal AND k.coninhcount = 0, true)
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_constraint'::regclass AND d.refobjid = k.oid
                       AND d.objid <> c.oid)
       AND NOT EXISTS (SELECT FROM pg_depend d
                       WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('e', 'x'))
       AND NOT EXISTS (SELECT FROM pg_description d WHERE d.objoid IN (c.oid, k.oid)
                       AND d.classoid IN ('pg_class'::regclass, 'pg_constraint'::regclass))
       AND NOT EXISTS (SELECT FROM pg_seclabel s WHERE s.classoid = 'pg_class'::regclass AND s.objoid = c.oid)
       AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attstattarget >= 0) AS whole
FROM unnest(%(oids)s::oid[]) AS given (oid)
CROSS JOIN LATERAL (
    SELECT given.oid AS root, given.oid
    UNION
    SELECT given.oid, relid::oid FROM pg_partition_tree(given.oid)
) AS part
JOIN pg_index i ON i.indrelid = part.oid
JOIN pg_class c ON c.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
WHERE (part.oid = part.root OR NOT c.relispartition) AND (i.indisunique OR i.indisexclusion) AND i.indislive
ORDER BY c.relname COLLATE "C", c.oid

-- name: index_definition
-- In: an index. Out: the command that makes it. Runs in any search_path.
SELECT pg_catalog.pg_get_indexdef(%s::pg_catalog.oid)

-- name: checks
-- In: oids. Out: every check constraint that is enforced: the table, its name, its condition.
SELECT k.conrelid, k.conname, pg_get_expr(k.conbin, k.conrelid, true) AS condition
FROM pg_constraint k
WHERE k.contype = 'c' AND k.conrelid = ANY (%(oids)s::oid[])
  AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
ORDER BY k.conname COLLATE "C"

-- name: generated
-- In: oids. Out: every generated column: the table, its name, what it is computed from.
SELECT a.attrelid, a.attname, pg_get_expr(f.adbin, f.adrelid, true) AS expression
FROM pg_attribute a
JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND a.attgenerated <> '' AND NOT a.attisdropped

-- name: links
-- In: oids. Out: every foreign key that points from or to one of the tables: its name; for either end the table (a
-- partition's under its root), its SQL name, whether it is itself such a root or no partition at all, whether rows are
-- to be read through it and not only from it, its columns, and the primary key of the one that points; the operators
-- that find the referenced row; the actions; how it is dropped and made again, and whether that restores all that is set
-- on it and on the copies that partitions have.
SELECT k.oid::bigint AS oid,
       k.conname AS name,
       coalesce(pg_partition_root(k.conrelid), k.conrelid)::oid AS child,
       format('%%I.%%I', cn.nspname, c.relname) AS child_sql, cn.nspname AS child_schema, c.relname AS child_relname,
       NOT c.relispartition AS child_whole,
       c.relkind = 'p' AS child_partitioned,
       ARRAY(
           SELECT a.attname::text
           FROM unnest(k.conkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = part.attnum
           ORDER BY part.place
       ) AS columns,
       ARRAY(
           SELECT a.attname::text
           FROM pg_constraint own
           CROSS JOIN unnest(own.conkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_attribute a ON a.attrelid = own.conrelid AND a.attnum = part.attnum
           WHERE own.conrelid = k.conrelid AND own.contype = 'p'
           ORDER BY part.place
       ) AS child_key,
       coalesce(pg_partition_root(k.confrelid), k.confrelid)::oid AS parent,
       format('%%I.%%I', pn.nspname, p.relname) AS parent_sql, pn.nspname AS parent_schema, p.relname AS parent_relname,
       NOT p.relispartition AS parent_whole,
       p.relkind = 'p' AS parent_partitioned,
       ARRAY(
           SELECT a.attname::text
           FROM unnest(k.confkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = part.attnum
           ORDER BY part.place
       ) AS referenced,
       ARRAY(
           SELECT 'OPERATOR(' || quote_ident(n.nspname) || '.' || o.oprname || ')'
           FROM unnest(k.conpfeqop) WITH ORDINALITY AS part (oid, place)
           JOIN pg_operator o ON o.oid = part.oid
           JOIN pg_namespace n ON n.oid = o.oprnamespace
           ORDER BY part.place
       ) AS operators,
       k.confupdtype::text AS on_update,
       k.confdeltype::text AS on_delete,
       format('ALTER TABLE %%s DROP CONSTRAINT %%I', k.conrelid::regclass, k.conname) AS removal,
       format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid))
           AS restoration,
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
JOIN pg_class c ON c.oid = k.conrelid
JOIN pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_class p ON p.oid = k.confrelid
JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0
  AND (coalesce(pg_partition_root(k.conrelid), k.conrelid)::oid = ANY (%(oids)s::oid[])
       OR coalesce(pg_partition_root(k.confrelid), k.confrelid)::oid = ANY (%(oids)s::oid[]))
  AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
  AND NOT coalesce((to_jsonb(k) ->> 'conperiod')::boolean, false)
ORDER BY k.conname COLLATE "C", k.oid
