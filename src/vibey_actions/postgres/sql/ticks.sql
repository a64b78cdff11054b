-- name: exists
-- Whether the table of ticks can be read.
SELECT to_regclass('vibey_actions.tick') IS NOT NULL

-- name: create
-- One row per tick of a machine, newest last. Never synced: it is what this database's runs did.
CREATE TABLE vibey_actions.tick (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine text NOT NULL,
    began   timestamptz NOT NULL DEFAULT clock_timestamp(),
    due     text NOT NULL,
    ended   timestamptz,
    did     text
);
CREATE INDEX tick_machine ON vibey_actions.tick (machine, number)

-- name: began
-- In: machine, due. Out: the tick's number.
INSERT INTO vibey_actions.tick (machine, due) VALUES (%(machine)s, %(due)s) RETURNING number

-- name: ended
-- In: number, did.
UPDATE vibey_actions.tick SET ended = clock_timestamp(), did = %(did)s WHERE number = %(number)s

-- name: prune
-- In: machine, keep. Leaves the newest so many.
DELETE FROM vibey_actions.tick
WHERE machine = %(machine)s AND number <= (
    SELECT number FROM vibey_actions.tick WHERE machine = %(machine)s ORDER BY number DESC OFFSET %(keep)s LIMIT 1
)

-- name: last
-- In: machine (null: any). Out: the newest tick's machine, beginning and end in milliseconds since 1970, due and did.
SELECT machine, (extract(epoch FROM began) * 1000)::bigint, (extract(epoch FROM ended) * 1000)::bigint, due, did
FROM vibey_actions.tick
WHERE machine = %(machine)s OR %(machine)s::text IS NULL
ORDER BY number DESC LIMIT 1
