-- name: schemas
-- In: names. Out: those of them that are there.
SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname = ANY (%(names)s) ORDER BY 1

-- name: relations
-- In: names of schemas.
-- Out: schema, name and kind of every table, view and sequence there whose rights this role may give away; the
-- migrations' record and the sync's own tables are told apart by name.
SELECT n.nspname, c.relname, c.relkind::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(names)s) AND n.nspname <> 'vibey_actions'
  AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
  AND pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE')
ORDER BY n.nspname, c.relname

-- name: may_make_roles
-- Out: whether this role may make others.
SELECT rolcreaterole OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user
