-- name: columns
-- In: schema. Out: each column of its table document, in order: name, type, not null, place in the primary key (0: none).
SELECT a.attname,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       a.attnotnull,
       COALESCE(pg_catalog.array_position(k.conkey, a.attnum), 0)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
WHERE n.nspname = %(schema)s AND c.relname = 'document' AND c.relkind IN ('r', 'p')
ORDER BY a.attnum

-- name: create
-- One row per document. A deleted one leaves a tombstone: its revision, and nothing of what it was.
CREATE TABLE {table} (
    db         text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    rev        text NOT NULL,
    doc        jsonb,
    deleted    boolean NOT NULL DEFAULT false,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (db, id),
    CONSTRAINT document_is_object CHECK (COALESCE(jsonb_typeof(doc) = 'object', deleted)),
    CONSTRAINT tombstone_is_empty CHECK (doc IS NULL OR NOT deleted)
);
-- What a lane looks for, past any number of finished documents. Cut, because an index has a longest entry.
CREATE INDEX document_status ON {table} (db, (left(doc ->> 'status', 60) COLLATE "C"), id) WHERE NOT deleted;
-- What a cap per day counts.
CREATE INDEX document_claim_day ON {table} (db, (left(doc ->> 'claimDay', 10) COLLATE "C"), id) WHERE doc ? 'claimDay'

-- name: now
-- Out: the server's time in milliseconds since 1970.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: head
-- In: db, id. Out: the revision and the text; a tombstone has no text.
SELECT rev, doc::text FROM {table} WHERE db = %(db)s AND id = %(id)s

-- name: insert
-- In: db, id, rev, doc. Makes a document where none is, or only a tombstone.
INSERT INTO {table} AS head (db, id, rev, doc)
VALUES (%(db)s, %(id)s, %(rev)s, %(doc)s::jsonb)
ON CONFLICT (db, id) DO UPDATE
    SET rev = excluded.rev, doc = excluded.doc, deleted = false, changed_at = excluded.changed_at
    WHERE head.deleted

-- name: update
-- In: db, id, expected (the head's revision), rev, doc.
UPDATE {table} SET rev = %(rev)s, doc = %(doc)s::jsonb, changed_at = clock_timestamp()
WHERE db = %(db)s AND id = %(id)s AND rev = %(expected)s AND NOT deleted

-- name: update_known
-- In: the same, and old: the content that the writer read under that revision. An _id or _rev that another program
-- stored within it was not read.
UPDATE {table} SET rev = %(rev)s, doc = %(doc)s::jsonb, changed_at = clock_timestamp()
WHERE db = %(db)s AND id = %(id)s AND rev = %(expected)s AND NOT deleted
  AND (doc = %(old)s::jsonb OR doc - '{_id,_rev}'::text[] = %(old)s::jsonb)

-- name: delete
-- In: db, id, expected, rev.
UPDATE {table} SET rev = %(rev)s, doc = NULL, deleted = true, changed_at = clock_timestamp()
WHERE db = %(db)s AND id = %(id)s AND rev = %(expected)s AND NOT deleted

-- name: remove
-- In: db, id, expected. Takes back a document that was never more than here.
DELETE FROM {table} WHERE db = %(db)s AND id = %(id)s AND rev = %(expected)s

-- name: page
-- In: db, after, limit. Out: id, revision and text of the next documents.
SELECT id, rev, doc::text FROM {table}
WHERE db = %(db)s AND NOT deleted AND id > %(after)s
ORDER BY id LIMIT %(limit)s

-- name: page_with
-- In: the same, and a field. Out: the same, without revision and text where the document lacks the field.
SELECT id, CASE WHEN doc ? %(field)s THEN rev END, CASE WHEN doc ? %(field)s THEN doc::text END FROM {table}
WHERE db = %(db)s AND NOT deleted AND id > %(after)s
ORDER BY id LIMIT %(limit)s

-- name: page_equal
-- In: the same, and values. Out: the same, without revision and text where the field holds none of the values.
SELECT id, CASE WHEN found THEN rev END, CASE WHEN found THEN doc::text END
FROM (
    SELECT id, rev, doc, COALESCE(doc -> %(field)s = ANY (%(values)s::text[]::jsonb[]), false) AS found FROM {table}
    WHERE db = %(db)s AND NOT deleted AND id > %(after)s
    ORDER BY id LIMIT %(limit)s
) AS raw
ORDER BY id

-- name: in_status
-- In: db, status, short (its first 60 characters), after, limit. Out: id, revision and text, by id.
-- The status as a range, not a point: then no plan but the one by document_status gives the order without sorting.
SELECT id, rev, doc::text FROM {table}
WHERE db = %(db)s AND NOT deleted
    AND (left(doc ->> 'status', 60) COLLATE "C", id) > (%(short)s, %(after)s)
    AND left(doc ->> 'status', 60) COLLATE "C" <= %(short)s
    AND doc ->> 'status' = %(status)s
ORDER BY left(doc ->> 'status', 60) COLLATE "C", id LIMIT %(limit)s

-- name: places
-- In: db, status, short, limit. Out: the first ids and revisions of a status.
SELECT id, rev, NULL FROM {table}
WHERE db = %(db)s AND NOT deleted
    AND left(doc ->> 'status', 60) COLLATE "C" >= %(short)s AND left(doc ->> 'status', 60) COLLATE "C" <= %(short)s
    AND doc ->> 'status' = %(status)s
ORDER BY left(doc ->> 'status', 60) COLLATE "C", id LIMIT %(limit)s

-- name: claimed_on
-- In: db, day, after, limit. Out: id, revision and text of the documents with a claim of that day, by id.
SELECT id, rev, doc::text FROM {table}
WHERE db = %(db)s AND NOT deleted AND doc ? 'claimDay'
    AND left(doc ->> 'claimDay', 10) COLLATE "C" = %(day)s AND doc ->> 'claimDay' = %(day)s AND id > %(after)s
ORDER BY id LIMIT %(limit)s
