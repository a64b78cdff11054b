-- name: unsteady_defaults
-- In: table. Out: its columns whose default calls a function that is not immutable, or the likes of CURRENT_DATE.
SELECT a.attname
FROM pg_attrdef d
JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE d.adrelid = %(table)s
  AND (d.adbin::text LIKE '%%{SQLVALUEFUNCTION %%'
       OR EXISTS (SELECT FROM regexp_matches(d.adbin::text, ':(?:opfuncid|funcid) (\d+)', 'g') AS called(parts)
                  JOIN pg_proc p ON p.oid = called.parts[1]::oid WHERE p.provolatile <> 'i'))
ORDER BY a.attname COLLATE "C"
