-- A database as the profile vibey declares it, with the tables and columns of tests/data/format-1/plain.json.

CREATE TABLE project (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    repo_path text NOT NULL,
    config jsonb NOT NULL DEFAULT '{}',
    phase text NOT NULL DEFAULT 'intake',
    cycle integer NOT NULL DEFAULT 1,
    max_cycles integer NOT NULL DEFAULT 10,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE event (
    event_id uuid NOT NULL,
    project_id uuid NOT NULL REFERENCES project,
    seq bigint NOT NULL,
    cycle integer,
    phase text NOT NULL,
    kind text NOT NULL,
    engine_id text,
    job_id uuid,
    correlation_id uuid,
    causation_id uuid,
    digest text NOT NULL,
    payload jsonb NOT NULL,
    provenance text NOT NULL DEFAULT 'agent',
    produced_at timestamptz NOT NULL,
    payload_size integer GENERATED ALWAYS AS (pg_catalog.length(payload::text)) STORED,
    PRIMARY KEY (project_id, seq)
) PARTITION BY HASH (project_id);
CREATE TABLE event_p0 PARTITION OF event FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE event_p1 PARTITION OF event FOR VALUES WITH (MODULUS 2, REMAINDER 1);

CREATE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END
$$;
CREATE TRIGGER event_guard BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION event_is_append_only();

CREATE TABLE event_seq (
    project_id uuid PRIMARY KEY REFERENCES project,
    next_seq bigint NOT NULL DEFAULT 1
);

CREATE SEQUENCE job_bump_seq;
CREATE TABLE job (
    id uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    cycle integer NOT NULL,
    phase text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL DEFAULT 'ready',
    priority integer NOT NULL DEFAULT 0,
    work_item_id text,
    requirement jsonb NOT NULL DEFAULT '{}',
    payload jsonb NOT NULL DEFAULT '{}',
    idempotency_key text NOT NULL UNIQUE,
    assigned_engine text,
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 7,
    last_error text,
    lease_owner text,
    lease_expires_at timestamptz,
    run_after timestamptz NOT NULL DEFAULT now(),
    bump_seq bigint,
    bump_named boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE job_dependency (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    depends_on_job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    PRIMARY KEY (job_id, depends_on_job_id)
);

CREATE TABLE work_item (
    project_id uuid NOT NULL REFERENCES project,
    cycle integer NOT NULL,
    item_id text NOT NULL,
    title text NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    acceptance_ids text[] NOT NULL DEFAULT '{}',
    depends_on text[] NOT NULL DEFAULT '{}',
    current_effort integer NOT NULL DEFAULT 1,
    attempt integer NOT NULL DEFAULT 0,
    blocked_reason text,
    branch text,
    worktree_path text,
    last_engine text,
    verification jsonb,
    PRIMARY KEY (project_id, cycle, item_id)
);

CREATE TABLE open_item (
    item_id text PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    kind text NOT NULL,
    normalized text NOT NULL,
    body jsonb NOT NULL DEFAULT '{}',
    ambiguity text,
    severity text,
    blocking boolean NOT NULL DEFAULT false,
    opened_seq bigint NOT NULL,
    closed_seq bigint,
    superseded_by text REFERENCES open_item
);

CREATE TABLE handoff (
    handoff_id uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    body jsonb NOT NULL DEFAULT '{}'
);

CREATE TABLE engine_health (
    project_id uuid NOT NULL REFERENCES project,
    engine_id text NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, engine_id)
);

CREATE TABLE rotation_cursor (
    project_id uuid NOT NULL REFERENCES project,
    engine_id text NOT NULL,
    position integer NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, engine_id)
);

CREATE TABLE human_gate (
    gate_id uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    job_id uuid REFERENCES job,
    kind text NOT NULL,
    prompt text NOT NULL,
    options jsonb NOT NULL DEFAULT '[]',
    default_answer text,
    answer text,
    answered_by text,
    answer_request_id text,
    raised_at timestamptz NOT NULL DEFAULT now(),
    answered_at timestamptz,
    timeout_at timestamptz
);

CREATE TABLE artifact (
    artifact_id uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES project,
    content bytea
);

CREATE TABLE budget_ledger (
    project_id uuid NOT NULL REFERENCES project,
    cycle integer NOT NULL,
    phase text NOT NULL,
    engine_id text NOT NULL,
    turns bigint NOT NULL DEFAULT 0,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    dollars numeric NOT NULL DEFAULT 0,
    PRIMARY KEY (project_id, cycle, phase, engine_id)
);

CREATE SEQUENCE triaged_ticket_bump_seq;
CREATE TABLE triaged_ticket (
    repository text NOT NULL,
    issue_number integer NOT NULL,
    issue_url text NOT NULL,
    project_id uuid REFERENCES project,
    title text NOT NULL,
    body text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'ready',
    priority_rank integer NOT NULL,
    bump_seq bigint,
    lease_owner text,
    lease_expires_at timestamptz,
    observed_at timestamptz NOT NULL,
    source_updated_at timestamptz,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (repository, issue_number)
);
