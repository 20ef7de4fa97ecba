"""The tables of ``ledger.db`` and the steps from one version to the next."""

from __future__ import annotations

VERSION = 3

TABLES = """
CREATE TABLE sources (
    stream TEXT PRIMARY KEY, host TEXT NOT NULL, root TEXT NOT NULL, rel TEXT NOT NULL, kind TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    generation INTEGER NOT NULL, captured INTEGER NOT NULL,
    head_hash TEXT NOT NULL, tail_hash TEXT NOT NULL, marker TEXT NOT NULL, state TEXT NOT NULL,
    thread_id TEXT, parent_thread_id TEXT, relation TEXT, root_session_id TEXT, first_ts INTEGER,
    session_id TEXT, month TEXT
) WITHOUT ROWID;
CREATE INDEX sources_by_place ON sources(root, rel);
CREATE INDEX sources_by_thread ON sources(host, thread_id);
CREATE INDEX sources_by_parent ON sources(host, parent_thread_id) WHERE parent_thread_id IS NOT NULL;
CREATE INDEX sources_by_root ON sources(host, root_session_id) WHERE root_session_id IS NOT NULL;
CREATE INDEX sources_by_session ON sources(host, session_id);

CREATE TABLE segments (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    sha256 TEXT NOT NULL, stored_bytes INTEGER NOT NULL, path TEXT NOT NULL, recorded_at TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    PRIMARY KEY (stream, generation, start)
) WITHOUT ROWID;

CREATE TABLE sessions (
    host TEXT NOT NULL, session_id TEXT NOT NULL, month TEXT NOT NULL, captured_fp TEXT NOT NULL,
    normalized_fp TEXT, code_version TEXT, content_hash TEXT, parent_session TEXT, first_own_ts INTEGER,
    rows TEXT NOT NULL DEFAULT '{}', part TEXT,
    linked_parent TEXT, told_parent TEXT, decoded_fp TEXT, decoded_version TEXT, given_title TEXT,
    PRIMARY KEY (host, session_id)
) WITHOUT ROWID;
CREATE INDEX sessions_by_month ON sessions(host, month);
CREATE INDEX sessions_by_linked ON sessions(host, linked_parent) WHERE linked_parent IS NOT NULL;
CREATE INDEX sessions_by_told ON sessions(host, told_parent) WHERE told_parent IS NOT NULL;

CREATE TABLE session_lines (host TEXT NOT NULL, session_id TEXT NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (host, session_id));

CREATE TABLE branch_titles (
    host TEXT NOT NULL, leaf BLOB NOT NULL, teller TEXT NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (host, leaf, teller)
) WITHOUT ROWID;

CREATE TABLE hints (
    host TEXT NOT NULL, thread_id TEXT NOT NULL, field TEXT NOT NULL, stream TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (host, thread_id, field, stream)
) WITHOUT ROWID;
CREATE INDEX hints_by_stream ON hints(stream);

CREATE TABLE quarantine (
    host TEXT NOT NULL, session_id TEXT NOT NULL, stream TEXT NOT NULL, generation INTEGER NOT NULL,
    line INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX quarantine_by_session ON quarantine(host, session_id);

CREATE TABLE unknowns (
    host TEXT NOT NULL, session_id TEXT NOT NULL, label TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (host, session_id, label)
) WITHOUT ROWID;

CREATE TABLE callers (number INTEGER PRIMARY KEY, host TEXT NOT NULL, session_id TEXT NOT NULL, UNIQUE (host, session_id));

CREATE TABLE calls (
    session INTEGER NOT NULL, call_key TEXT NOT NULL, ts INTEGER,
    PRIMARY KEY (session, call_key)
) WITHOUT ROWID;
CREATE INDEX calls_by_key ON calls(call_key);

CREATE TABLE owners (
    host TEXT NOT NULL, call_key TEXT NOT NULL, owner_session TEXT NOT NULL, rule TEXT NOT NULL,
    PRIMARY KEY (host, call_key)
) WITHOUT ROWID;

CREATE TABLE asset_cells (
    asset TEXT NOT NULL, host TEXT NOT NULL, month TEXT NOT NULL, input_fp TEXT NOT NULL, code_version TEXT NOT NULL,
    content_hash TEXT NOT NULL, rows INTEGER NOT NULL, updated_at TEXT NOT NULL,
    PRIMARY KEY (asset, host, month)
) WITHOUT ROWID;

CREATE TABLE leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE tombstones (
    host TEXT NOT NULL, kind TEXT NOT NULL, hash TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (host, kind, hash)
) WITHOUT ROWID;
"""

STEPS: dict[int, str] = {
    2: """
ALTER TABLE calls RENAME TO calls_1;
CREATE TABLE callers (number INTEGER PRIMARY KEY, host TEXT NOT NULL, session_id TEXT NOT NULL, UNIQUE (host, session_id));
CREATE TABLE calls (
    session INTEGER NOT NULL, call_key TEXT NOT NULL, ts INTEGER,
    PRIMARY KEY (session, call_key)
) WITHOUT ROWID;
INSERT INTO callers (host, session_id) SELECT DISTINCT host, session_id FROM calls_1;
INSERT INTO calls SELECT n.number, c.call_key, c.ts FROM calls_1 c JOIN callers n ON n.host = c.host AND n.session_id = c.session_id;
DROP TABLE calls_1;
CREATE INDEX calls_by_key ON calls(call_key);
""",
    3: """
ALTER TABLE sessions ADD COLUMN given_title TEXT;
CREATE TABLE session_lines (host TEXT NOT NULL, session_id TEXT NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (host, session_id));
CREATE TABLE branch_titles (
    host TEXT NOT NULL, leaf BLOB NOT NULL, teller TEXT NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (host, leaf, teller)
) WITHOUT ROWID;
""",
}
"""version -> the script that leads from the version before it to this one"""
