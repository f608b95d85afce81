"""What was changed in SQL, for the audit log, and the audit log of middlewares that keep it here too."""

from alembic import op

revision = "0026"
down_revision = "0025"
rollout = "before"

AUDIT = """
CREATE TABLE telesto.audit (
    audit_id bigint      GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_pkey PRIMARY KEY,
    at       timestamptz NOT NULL,
    event    text        NOT NULL,
    outcome  text        NOT NULL,
    details  jsonb       NOT NULL,
    written  boolean     NOT NULL
);
CREATE INDEX audit_at ON telesto.audit (at);
CREATE INDEX audit_unwritten ON telesto.audit (audit_id) WHERE NOT written;
COMMENT ON TABLE telesto.audit IS
    'Who did what: what was changed in SQL, and what was asked of middlewares that are told to keep it here.';
COMMENT ON COLUMN telesto.audit.written IS
    'False while what was changed in SQL waits for a middleware that has a file.';
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(AUDIT)
