-- The till's ledger: rows are added, never changed.

CREATE TABLE ledger (
    till   text,
    seq    bigint,
    booked timestamptz NOT NULL,
    amount numeric NOT NULL,
    detail jsonb NOT NULL,
    PRIMARY KEY (till, seq)
);

CREATE INDEX ON ledger USING gin (detail jsonb_path_ops);
