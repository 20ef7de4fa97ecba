"""Pi: sessions as trees of entries below ``~/.pi/agent/sessions``."""

from __future__ import annotations

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.host_records import ShellAnswers
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

SESSION = "session"

_FILE = lazy_pattern(r"(?:sessions/)?(?:--.*--/)?[^/]*?([^_/]+)\.jsonl")
_FOLDER = lazy_pattern(r"sessions|(?:sessions/)?--[^/]*--")
_TYPE = lazy_pattern(rb'"type"\s*:\s*"session"')
_ID = lazy_pattern(rb'"id"\s*:\s*"([^"\\]{1,256})"')
_TIME = lazy_pattern(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
_ORIGIN = lazy_pattern(rb'"(?:parentSession|branchedFrom)"\s*:\s*"((?:[^"\\]|\\.){1,4096})"')


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home, or of its folder ``sessions``."""
    return SESSION if _FILE.fullmatch(rel) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds sessions."""
    return rel in {"", "."} or _FOLDER.fullmatch(rel) is not None


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a file is, by its header or its name; one that names the file it was branched from is a fork of its session."""
    if kind != SESSION:
        return None
    line, newline, _ = head.lstrip(b"\xef\xbb\xbf\0 \t\r\n").partition(b"\n")
    if not line or not (newline or line.rstrip().endswith(b"}")):
        return None
    header = line if _TYPE.search(line) else b""
    said = _ID.search(header)
    thread = safe_id(said.group(1).decode("utf-8", "replace") if said else None) or _named(rel)
    if thread is None:
        return None
    when = _TIME.search(line)
    first = micros(when.group(1).decode("ascii", "replace")) if when else None
    origin = _ORIGIN.search(header)
    parent = _named(origin.group(1).decode("utf-8", "replace").replace("\\\\", "/")) if origin else None
    if parent and parent != thread:
        return Identity(thread, parent, "fork", None, first)
    return Identity(thread, first_ts=first)


def _named(rel: str) -> str | None:
    """Return the session that a file is named for: ``<time>_<id>.jsonl``."""
    return safe_id(rel.rpartition("/")[2].removesuffix(".jsonl").rpartition("_")[2])


HOST = Host(
    key="pi_agent",
    title="Pi",
    version=1,
    aliases=("pi",),
    files=HomeFiles(
        roots_env="PI_CODING_AGENT_DIR",
        roots_default=("~/.pi/agent", "$PI_CODING_AGENT_SESSION_DIR"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({SESSION}),
        project_folder=".pi",
        rules_files=("AGENTS.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.pi_agent.session:parse"),
        formats=Deferred("ctx_pipeline.hosts.pi_agent.session:known"),
        window=Deferred("ctx_pipeline.hosts.pi_agent.session:window"),
        compact_command=r"^\s*/compact\b",
    ),
    shell=ShellAnswers(
        tools=frozenset({"bash"}), exit=r"Command exited with code (\d{1,10})", exit_line=r"Command exited with code \d{1,10}"
    ),
    agent=Agent(called=("pi",), resume="pi --session {session_id}", resume_in_folder=True, rules_file="AGENTS.md"),
)
