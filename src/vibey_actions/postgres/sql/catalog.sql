-- name: schemas
-- In: names. Out: those that there are.
SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = ANY (%(names)s)

-- name: tables
-- In: schemas. Every table of theirs that holds rows under its own name: ordinary ones, and the roots of partitioned ones.
-- Foreign tables hold none; as partitions they exclude a primary key, so that the root is refused for the lack of one.
-- Out: oid, schema, name, partitioned, whether an extension owns it, the primary key's columns in their declared order.
SELECT c.oid,
       n.nspname,
       c.relname,
       c.relkind = 'p' AS partitioned,
       EXISTS (
           SELECT FROM pg_catalog.pg_depend d
           WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e'
       ) AS of_extension,
       ARRAY(
           SELECT a.attname::text
           FROM pg_catalog.pg_constraint k
           CROSS JOIN LATERAL pg_catalog.unnest(k.conkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = part.attnum
           WHERE k.conrelid = c.oid AND k.contype = 'p'
           ORDER BY part.place
       ) AS key
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition

-- name: columns
-- In: oids. Out, in attribute order: the table's oid, name, type as written, type with domains resolved, how its JSON
-- image is carried, not null, generated, identity, and what collation it has, but for the database's own. A type outside the core that has a cast to json of its own is
-- printed by to_jsonb through that cast, which is why it is no plain text.
WITH RECURSIVE attribute AS (
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated, a.attidentity,
        a.attcollation
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = ANY (%(oids)s::pg_catalog.oid[]) AND a.attnum > 0 AND NOT a.attisdropped
), unfolded AS (
    SELECT attrelid, attnum, atttypid AS type, atttypmod AS modifier FROM attribute
    UNION ALL
    SELECT u.attrelid, u.attnum, t.typbasetype, t.typtypmod
    FROM unfolded u JOIN pg_catalog.pg_type t ON t.oid = u.type AND t.typtype = 'd'
)
SELECT a.attrelid,
       a.attname,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
       pg_catalog.format_type(base.oid, u.modifier) AS base_type,
       CASE
           WHEN base.oid IN ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype) THEN 'json'
           WHEN base.typtype = 'c' THEN 'compound'
           WHEN base.typelem <> 0
               AND base.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc THEN 'compound'
           WHEN base.oid >= 16384 AND EXISTS (
               SELECT FROM pg_catalog.pg_cast x
               WHERE x.castsource = base.oid
                   AND x.casttarget = 'pg_catalog.json'::pg_catalog.regtype
                   AND x.castmethod = 'f'
           ) THEN 'compound'
           ELSE 'text'
       END AS carriage,
       a.attnotnull,
       a.attgenerated <> '' AS generated,
       a.attidentity::text,
       x.collname,
       xn.nspname AS collation_schema,
       COALESCE(x.collisdeterministic, true) AS deterministic
FROM attribute a
JOIN unfolded u ON u.attrelid = a.attrelid AND u.attnum = a.attnum
JOIN pg_catalog.pg_type base ON base.oid = u.type AND base.typtype <> 'd'
LEFT JOIN pg_catalog.pg_collation x ON x.oid = a.attcollation AND x.oid <> 'pg_catalog."default"'::pg_catalog.regcollation
LEFT JOIN pg_catalog.pg_namespace xn ON xn.oid = x.collnamespace
ORDER BY a.attrelid, a.attnum

-- name: foreign_keys
-- In: oids. Out: name, table, columns, referenced table, referenced columns, actions on delete and update, deferrable. A key of a
-- partition counts as its root's; the copies that PostgreSQL keeps per partition (conparentid) are left out.
SELECT k.conname,
       COALESCE(pg_catalog.pg_partition_root(k.conrelid), k.conrelid)::pg_catalog.oid AS owner,
       ARRAY(
           SELECT a.attname::text
           FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = part.attnum
           ORDER BY part.place
       ) AS columns,
       COALESCE(pg_catalog.pg_partition_root(k.confrelid), k.confrelid)::pg_catalog.oid AS referenced,
       ARRAY(
           SELECT a.attname::text
           FROM pg_catalog.unnest(k.confkey) WITH ORDINALITY AS part (attnum, place)
           JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = part.attnum
           ORDER BY part.place
       ) AS referenced_columns,
       k.confdeltype::text,
       k.confupdtype::text,
       k.condeferrable
FROM pg_catalog.pg_constraint k
WHERE k.contype = 'f'
    AND k.conparentid = 0
    AND COALESCE(pg_catalog.pg_partition_root(k.conrelid), k.conrelid) = ANY (%(oids)s::pg_catalog.oid[])
ORDER BY k.conname COLLATE "C", k.oid

-- name: sequences
-- In: oids. Out: table, column, the sequence's schema and name. A sequence belongs to a column that owns it (serial,
-- identity, OWNED BY) or whose default draws from it.
SELECT a.attrelid, a.attname, n.nspname, s.relname
FROM (
    SELECT d.refobjid AS attrelid, d.refobjsubid AS attnum, d.objid AS sequence
    FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refobjid = ANY (%(oids)s::pg_catalog.oid[])
        AND d.refobjsubid > 0
        AND d.deptype IN ('a', 'i')
    UNION
    SELECT f.adrelid, f.adnum, d.refobjid
    FROM pg_catalog.pg_attrdef f
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid = f.oid
    WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND f.adrelid = ANY (%(oids)s::pg_catalog.oid[])
) AS drawn
JOIN pg_catalog.pg_class s ON s.oid = drawn.sequence AND s.relkind = 'S'
JOIN pg_catalog.pg_namespace n ON n.oid = s.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = drawn.attrelid AND a.attnum = drawn.attnum
ORDER BY a.attrelid, a.attnum, n.nspname COLLATE "C", s.relname COLLATE "C"

-- name: sequence_names
-- Out: every sequence of schema public.
SELECT s.relname
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_namespace n ON n.oid = s.relnamespace
WHERE n.nspname = 'public' AND s.relkind = 'S'

-- name: roots
-- In: schemas and names of relations, side by side. Out: the same, a partition under its root's schema and name.
SELECT DISTINCT rn.nspname, root.relname
FROM ROWS FROM (
    pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[])
) AS wanted (nspname, relname)
JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.nspname
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.relname
JOIN pg_catalog.pg_class root ON root.oid = COALESCE(pg_catalog.pg_partition_root(c.oid)::pg_catalog.oid, c.oid)
JOIN pg_catalog.pg_namespace rn ON rn.oid = root.relnamespace
