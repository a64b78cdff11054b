INSERT INTO customer (id, name, city, referrer) VALUES
    ('00000000-0000-4000-8000-000000000001', 'Zoë', 'Köln', NULL),
    ('00000000-0000-4000-8000-000000000002', 'Łukasz', 'Kraków', '00000000-0000-4000-8000-000000000001');
INSERT INTO "order" VALUES
    ('00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-000000000002', 'open', '2026-02-03 07:15+00');
INSERT INTO order_line VALUES
    ('00000000-0000-4000-8000-00000000000a', 1, 'rye', 1),
    ('00000000-0000-4000-8000-00000000000a', 2, 'bun', 12);
INSERT INTO ledger
SELECT 'laptop', n, timestamptz '2026-02-03 08:00+00' + n * interval '37 seconds', n * 1.10,
       jsonb_build_object('kind', 'sale', 'items', n % 5 + 1)
FROM generate_series(1, 200) n;
