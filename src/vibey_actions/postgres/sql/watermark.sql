-- name: exists
-- Whether the watermark's table is there.
SELECT pg_catalog.to_regclass('public.state_sync') IS NOT NULL

-- name: read
-- In: remote. Out: the commit last agreed with.
SELECT base_commit FROM public.state_sync WHERE remote = %(remote)s

-- name: any
-- Whether this database has agreed with any branch.
SELECT EXISTS (SELECT FROM public.state_sync)

-- name: first
-- In: remote, commit. Records a first commit; no row where one is recorded already.
INSERT INTO public.state_sync (remote, base_commit) VALUES (%(remote)s, %(commit)s)
ON CONFLICT (remote) DO NOTHING

-- name: move
-- In: remote, commit, expected. Moves from exactly the expected commit; no row where another is recorded.
UPDATE public.state_sync SET base_commit = %(commit)s, synced_at = pg_catalog.now()
WHERE remote = %(remote)s AND base_commit = %(expected)s

-- name: forget
-- In: remote. Out: the commit that was forgotten.
DELETE FROM public.state_sync WHERE remote = %(remote)s RETURNING base_commit

-- name: try_lock
-- In: key. Whether this session now holds the advisory lock.
SELECT pg_catalog.pg_try_advisory_lock(%(key)s)

-- name: unlock
-- In: key.
SELECT pg_catalog.pg_advisory_unlock(%(key)s)
