-- name: table_exists
-- Whether the agreements of earlier syncs, and what is on its way to the branch, can be read.
SELECT to_regclass('vibey_actions.agreement') IS NOT NULL AND to_regclass('vibey_actions.pending') IS NOT NULL

-- name: create
-- One row per remote and table: the chunks of the table as they were when it agreed with base_commit.
-- bounds cut the keys into chunks; states holds one entry per chunk: 8 bytes row count, 32 bytes XOR of salted row hashes,
-- NULL where the chunk is to be read again.
CREATE SCHEMA IF NOT EXISTS vibey_actions;
CREATE TABLE IF NOT EXISTS vibey_actions.agreement (
    remote      text NOT NULL,
    table_name  text NOT NULL,
    base_commit text NOT NULL,
    shape       text NOT NULL,
    key_check   bytea NOT NULL,
    salt        bytea NOT NULL,
    bounds      text[] NOT NULL,
    states      bytea[] NOT NULL,
    PRIMARY KEY (remote, table_name)
);
-- The commit that a sync set out to push, until it is known to have arrived: it holds what this database held then.
CREATE TABLE IF NOT EXISTS vibey_actions.pending (
    remote text PRIMARY KEY,
    commit text NOT NULL
)

-- name: load
-- The agreements with one remote at one commit, made under one key.
SELECT table_name, shape, salt, bounds, states
FROM vibey_actions.agreement
WHERE remote = %(remote)s AND base_commit = %(base)s AND key_check = %(key_check)s

-- name: carry
-- Tables that are as they were now agree with the next commit; what is not carried is replaced or dropped.
UPDATE vibey_actions.agreement SET base_commit = %(commit)s
WHERE remote = %(remote)s AND table_name = ANY(%(tables)s) AND base_commit <> %(commit)s

-- name: put
INSERT INTO vibey_actions.agreement AS old
    (remote, table_name, base_commit, shape, key_check, salt, bounds, states)
VALUES (%(remote)s, %(table)s, %(commit)s, %(shape)s, %(key_check)s, %(salt)s, %(bounds)s, %(states)s)
ON CONFLICT (remote, table_name) DO UPDATE SET
    base_commit = excluded.base_commit, shape = excluded.shape, key_check = excluded.key_check,
    salt = excluded.salt, bounds = excluded.bounds, states = excluded.states

-- name: forget
WITH pending AS (DELETE FROM vibey_actions.pending WHERE remote = %(remote)s)
DELETE FROM vibey_actions.agreement WHERE remote = %(remote)s

-- name: announce
INSERT INTO vibey_actions.pending (remote, commit) VALUES (%(remote)s, %(commit)s)
ON CONFLICT (remote) DO UPDATE SET commit = excluded.commit

-- name: pending
SELECT commit FROM vibey_actions.pending WHERE remote = %(remote)s

-- name: arrived
DELETE FROM vibey_actions.pending WHERE remote = %(remote)s
