"""Goose: sessions as JSONL, later as rows of ``sessions.db``."""

from __future__ import annotations

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.host_records import ShellAnswers
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

LINES, DATABASE = "lines", "database"

_LINES = lazy_pattern(r"(?:data/)?sessions/([^/]+)\.jsonl")
_DATABASE = lazy_pattern(r"(?:data/)?sessions/sessions\.db")
_FOLDERS = frozenset({"", ".", "data", "sessions", "data/sessions"})
_CREATED = lazy_pattern(rb'"created(?:_at|_timestamp)?"\s*:\s*(?:"([^"\\]{10,40})"|(\d{9,14}))')
_NAMED = lazy_pattern(r"(\d{4})(\d{2})(\d{2})_(\d{2})(\d{2})(\d{2})$")
_COLUMNS = (
    *("id", "name", "description", "user_set_name", "session_type", "working_dir", "created_at", "updated_at", "provider_name"),
    *("model_config_json", "parent_session_id", "total_tokens", "input_tokens", "output_tokens"),
    *("accumulated_total_tokens", "accumulated_input_tokens", "accumulated_output_tokens", "accumulated_cost"),
)


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home."""
    path = rel.partition("#")[0]
    if _DATABASE.fullmatch(path):
        return DATABASE
    return LINES if _LINES.fullmatch(path) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds sessions."""
    return rel in _FOLDERS


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a file or the rows of a session are: its name says it."""
    if not head.strip():
        return None
    if kind == DATABASE:
        thread = safe_id(rel.rpartition("#")[2]) if "#" in rel else None
    elif kind == LINES:
        thread = safe_id(rel.rpartition("/")[2].removesuffix(".jsonl"))
    else:
        return None
    return Identity(thread, first_ts=_first(thread, head)) if thread else None


def _first(thread: str, head: bytes) -> int | None:
    found = _CREATED.search(head)
    if found and found[1]:
        return micros(found[1].decode("ascii", "replace"))
    if found:
        number = int(found[2])
        return number * (1_000 if number > 10**11 else 1_000_000)
    named = _NAMED.match(thread)
    return micros("{}-{}-{}T{}:{}:{}Z".format(*named.groups())) if named else None


HOST = Host(
    key="goose",
    title="Goose",
    version=1,
    files=HomeFiles(
        roots_env="GOOSE_PATH_ROOT",
        roots_default=(
            *("$XDG_DATA_HOME/goose", "~/.local/share/goose", "~/.local/share/Block/goose"),
            *("~/Library/Application Support/goose", "~/Library/Application Support/Block/goose", "$APPDATA/Block/goose"),
        ),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({LINES, DATABASE}),
        databases={
            DATABASE: Database(
                tables=(("sessions", "created_at"), ("messages", "id")),
                split_by="session_id",
                split_as={"sessions": "id"},
                columns={"sessions": _COLUMNS},
            )
        },
        project_folder=".goose",
        rules_files=(".goosehints", "AGENTS.md"),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.goose.session:parse"),
        formats=Deferred("ctx_pipeline.hosts.goose.session:known"),
        window=Deferred("ctx_pipeline.hosts.goose.session:window"),
        compact_command=r"^\s*/(?:compact|summarize)\b",
    ),
    shell=ShellAnswers(tools=frozenset({"developer__shell", "shell"})),
    agent=Agent(called=("goose",), resume="goose session --resume --session-id {session_id}", rules_file="AGENTS.md"),
)
