-- {events} events of about 800 bytes, {jobs} jobs, {others} others; the same rows every time.

CREATE TEMP TABLE sentence AS
SELECT n, string_agg(word, ' ' ORDER BY place) AS text
FROM generate_series(0, 1999) n,
     generate_series(1, 11) place,
     LATERAL (SELECT (ARRAY['the', 'a', 'merge', 'branch', 'failed', 'after', 'review', 'engine', 'proposed', 'change',
         'file', 'test', 'passed', 'with', 'warning', 'strict', 'cache', 'retry', 'of', 'in', 'checks', 'schema', 'was',
         'rows', 'waiting', 'for', 'approval', 'done', 'timeout', 'returned', 'value', 'handler']
         )[1 + abs(hashtext(n || ':' || place)) % 32] AS word) words
GROUP BY n;
CREATE UNIQUE INDEX ON sentence (n);

INSERT INTO project
SELECT md5('p' || i)::uuid, 'project ' || i, timestamptz '2026-01-01' + i * interval '1 hour'
FROM generate_series(0, 9) i;

INSERT INTO event
SELECT md5('e' || i)::uuid, md5('p' || i % 10)::uuid, i / 10 + 1, i / 2000, 'phase ' || i % 5, 'kind ' || i % 20,
       'engine ' || i % 4, md5('j' || i % {jobs})::uuid, md5('c' || i / 50)::uuid,
       CASE WHEN i % 3 = 0 THEN md5('e' || i - 1)::uuid END,
       encode(sha256(('d' || i)::bytea), 'hex'),
       jsonb_build_object('text', concat_ws('. ', one.text, two.text), 'tokens', i % 1000,
           'cost', (i % 977) / 1000.0, 'ok', i % 3 = 0,
           'note', CASE WHEN i % 10 = 0 THEN 'naïve – ✓' ELSE 'plain' END,
           'files', jsonb_build_array('src/module_' || i % 50 || '.py', 'tests/test_' || i % 70 || '.py')),
       jsonb_build_object('engine', 'engine ' || i % 4, 'model', 'm' || i % 3, 'run', md5('r' || i / 100)),
       timestamptz '2026-01-01' + i * interval '1.123 s'
FROM generate_series(0, {events} - 1) i
JOIN sentence one ON one.n = i % 2000
JOIN sentence two ON two.n = i * 7 % 1999;

INSERT INTO job
SELECT md5('j' || i)::uuid, md5('p' || i % 10)::uuid, (ARRAY['done', 'queued', 'failed'])[1 + i % 3],
       jsonb_build_object('number', i, 'prompt', text), timestamptz '2026-01-01' + i * interval '3 s',
       timestamptz '2026-01-02' + i * interval '3 s'
FROM generate_series(0, {jobs} - 1) i JOIN sentence ON n = i % 2000;

INSERT INTO work_item
SELECT md5('p' || i % 10)::uuid, i / 1000, 'item ' || i, text
FROM generate_series(0, {others} / 3 - 1) i JOIN sentence ON n = i % 2000;

INSERT INTO handoff
SELECT md5('h' || i)::uuid, md5('j' || i % {jobs})::uuid, text
FROM generate_series(0, {others} / 3 - 1) i JOIN sentence ON n = i % 2000;

INSERT INTO budget_ledger
SELECT md5('p' || i % 10)::uuid, i, i * 0.0125
FROM generate_series(0, {others} / 3 - 1) i;

DROP TABLE sentence;
