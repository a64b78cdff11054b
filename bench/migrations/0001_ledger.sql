-- An event ledger as a working system has it: one big table with eight indexes, a queue, and what hangs on them.

CREATE TABLE project (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE event (
    event_id       uuid NOT NULL,
    project_id     uuid NOT NULL REFERENCES project,
    seq            bigint NOT NULL,
    cycle          int,
    phase          text NOT NULL,
    kind           text NOT NULL,
    engine_id      text,
    job_id         uuid,
    correlation_id uuid,
    causation_id   uuid,
    digest         text NOT NULL,
    payload        jsonb NOT NULL,
    provenance     jsonb NOT NULL DEFAULT '{}',
    produced_at    timestamptz NOT NULL,
    PRIMARY KEY (project_id, seq)
);
CREATE UNIQUE INDEX ON event (event_id);
CREATE INDEX ON event (kind);
CREATE INDEX ON event (job_id);
CREATE INDEX ON event (correlation_id);
CREATE INDEX ON event (produced_at);
CREATE INDEX ON event USING gin (payload jsonb_path_ops);
CREATE INDEX ON event (project_id, cycle, phase);

CREATE TABLE job (
    id         uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    state      text NOT NULL,
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE work_item (
    project_id uuid REFERENCES project,
    cycle      int,
    item_id    text,
    title      text NOT NULL,
    PRIMARY KEY (project_id, cycle, item_id)
);

CREATE TABLE handoff (
    handoff_id uuid PRIMARY KEY,
    job_id     uuid NOT NULL REFERENCES job,
    note       text NOT NULL
);

CREATE TABLE budget_ledger (
    project_id uuid REFERENCES project,
    entry      bigint,
    spent      numeric(12, 4) NOT NULL,
    PRIMARY KEY (project_id, entry)
);
