-- A small bakery: what it sells, to whom, and what was ordered.

CREATE TABLE product (
    code       text PRIMARY KEY,
    label      text NOT NULL,
    price      numeric(10, 2) NOT NULL CHECK (price >= 0),
    attributes jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL
);

CREATE TABLE customer (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    city       text NOT NULL,
    referrer   uuid REFERENCES customer,
    name_lower text GENERATED ALWAYS AS (lower(name)) STORED
);

CREATE TABLE "order" (
    id         uuid PRIMARY KEY,
    customer   uuid NOT NULL REFERENCES customer,
    state      text NOT NULL CHECK (state IN ('open', 'baked', 'delivered')),
    ordered_at timestamptz NOT NULL
);

CREATE TABLE order_line (
    "order"  uuid REFERENCES "order" ON DELETE CASCADE,
    position int,
    product  text NOT NULL REFERENCES product,
    quantity numeric NOT NULL CHECK (quantity > 0),
    PRIMARY KEY ("order", position)
);

INSERT INTO product VALUES
    ('bun', 'Brötchen', 0.50, '{"flour": ["wheat"], "weight": 0.060}', '2026-01-01 06:00+00'),
    ('rye', 'Roggenbrot', 4.20, '{"flour": ["rye", "wheat"], "weight": 1.000}', '2026-01-01 06:00+00'),
    ('matcha', '抹茶ケーキ 🍵', 3.90, '{"flour": [], "vegan": true}', '2026-01-01 06:00+00');
