"""Amp: threads as documents below ``~/.local/share/amp/threads``."""

from __future__ import annotations

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.record_values import when
from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records, UsageRecords
from ctx_pipeline.model.host_records import ShellAnswers
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

THREAD = "thread"

_FILE = lazy_pattern(r"(?:threads/)?T-[^/]+\.json")
_CREATED = lazy_pattern(rb'"created"\s*:\s*(\d{12,14})\b')


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home."""
    return THREAD if _FILE.fullmatch(rel) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds threads."""
    return rel in {"", ".", "threads"}


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a document is: its name says it."""
    thread = safe_id(rel.rpartition("/")[2].removesuffix(".json"))
    if kind != THREAD or thread is None or not head.strip():
        return None
    began = _CREATED.search(head)
    return Identity(thread, first_ts=when(int(began.group(1))) if began else None)


HOST = Host(
    key="amp",
    title="Amp",
    version=1,
    files=HomeFiles(
        roots_env="AMP_DATA_DIR",
        roots_default=("$XDG_DATA_HOME/amp", "~/.local/share/amp"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({THREAD}),
        rules_files=("AGENTS.md",),
    ),
    records=Records(parse=Deferred("ctx_pipeline.hosts.amp.thread:parse")),
    usage=UsageRecords(other_units={"credits": "credits"}),
    shell=ShellAnswers(tools=frozenset({"bash"}), folder="cwd"),
    agent=Agent(called=("amp",), resume="amp threads continue {session_id}", rules_file="AGENTS.md"),
)
