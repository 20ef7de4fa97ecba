"""The numbers to hold: what each row of the benchmark may be at most, on two cores.

A row of ``docs/features.tsv`` that says ``bench: NAME`` is measured by the row of this
name, and its sentence holds the number; a test compares the two. Where a number is not
the one that was designed, ``docs/decisions.md`` says why.
"""

from __future__ import annotations

from typing import NamedTuple


class Budget(NamedTuple):
    """What a row may be at most; None for a row that is told without a bound."""

    most: float | None
    unit: str = "s"
    megabytes: int | None = None
    """Size of the home that it is for: one of another size has its share of it."""

    def over(self, megabytes: float | None) -> float | None:
        """Return the budget over a home of some size."""
        if self.most is None or not self.megabytes or megabytes is None:
            return self.most
        return self.most * megabytes / self.megabytes


BUDGETS = {
    # whole commands
    "ctx --help, whole process": Budget(0.12),
    "day: 200 appends beside ctx run --watch, processor seconds": Budget(None),
    "day: runs": Budget(None, "runs"),
    "day: longest that the page was behind": Budget(120),
    "day: memory of its processes": Budget(700, "MB"),
    "ctx run: everything, first time": Budget(18, megabytes=500),
    "ctx run: memory of its processes": Budget(700, "MB"),
    "ctx run: nothing new, whole process": Budget(0.2),
    "ctx run: one new session of each host, through Dagster": Budget(6),
    "ctx search, whole process, median": Budget(0.15),
    "ctx usage daily, no state": Budget(0.8),
    "ctx (last week and findings), no state": Budget(2),
    "ctx usage daily, after a run": Budget(0.3),
    "ctx (last week and findings), after a run": Budget(2),
    # capture and tables
    "scan: 100,000 files, all new": Budget(None),
    "scan: 100,000 files, nothing new, ledger opened and loaded": Budget(1),
    "ledger: commit of 700 captured sources": Budget(0.2),
    "ledger: commit of 700 sessions with 80,000 calls, owners settled": Budget(1),
    "ingest: first time": Budget(8, megabytes=500),
    "ingest: memory of all processes": Budget(700, "MB"),
    "ingest: store / raw": Budget(0.55, ""),
    "sync: one new session of each host, whole process": Budget(0.35),
    "sync: nothing new, whole process": Budget(0.2),
    "read: every session, without text": Budget(2, megabytes=500),
    "read: every session, with text": Budget(2, megabytes=500),
    # page
    "page: drawn anew, over a home": Budget(3, megabytes=500),
    "page: drawn anew, over a home, processor": Budget(None),
    "page: drawn anew, 5,000 short sessions": Budget(None),
    "page: drawn anew, 5,000 short sessions, processor": Budget(None),
    "page: first view, over a home": Budget(1),
    "page: first view, 5,000 short sessions": Budget(1),
    # search
    "search: query, median": Budget(10, "ms"),
    "search: query and twenty rows, median": Budget(None, "ms"),
    "search: a new session of 1 MB captured and indexed": Budget(0.5),
    # redaction, processor
    "redaction: 1,000,000 characters of prefixes, the slowest": Budget(15),
    "redaction: 500,000 characters of names, the slowest": Budget(1.5),
    "redaction: 500,000 characters of keys, the slowest": Budget(15),
    "redaction: 200,000 characters of escapes, the slowest": Budget(15),
    "secrets: told and live, of all that are told": Budget(None, "%"),
    "secrets: told and live, of all that are live": Budget(None, "%"),
    "secrets: live and replaced, of all that are live": Budget(None, "%"),
    "memory: import of 1,000 notes against 250": Budget(8, "x"),
    # a team
    "team: publish one more session": Budget(1),
    "team: first refresh of a hub, 200 members": Budget(None),
    "team: refresh, nothing new, 200 members": Budget(None),
    "team: refresh after one member's change, 200 members": Budget(5),
    "team: a signal family filled over 200 members, one worker": Budget(None),
    "team: a signal family filled over 200 members, two workers": Budget(None),
    "team: a signal family filled over 200 members, the busier of two workers": Budget(None),
    "team: whole homes, read and published, each": Budget(None),
    "team: whole homes, first refresh of a hub, folder": Budget(None),
    **{
        f"team: whole homes, {name}, {where}": Budget(most)
        for where in ("folder", "server")
        for name, most in (
            ("publish one more session", 1),
            ("refresh, nothing new", None),
            ("refresh after one member's change", 5),
            ("a signal family filled, one worker", None),
            ("a signal family filled, two workers", None),
            ("a signal family filled, one worker, processor", None),
            ("a signal family filled, the busier of two workers", None),
            ("a signal family filled, two workers, processor", None),
        )
    },
    # signals
    "what all signals add to a run, processor": Budget(8, megabytes=500),
    "signal: a new one filled over 50 MB, whole process": Budget(6, megabytes=50),
    # memories and hooks
    "memory: retrieve, everywhere, median": Budget(10, "ms"),
    "memory: retrieve, one repository, median": Budget(10, "ms"),
    "memory weave, wall, median": Budget(0.15),
    "hook: at a prompt, wall, median": Budget(0.15),
    "hook: at a session's start, wall, median": Budget(0.15),
    "hook: after a compaction that was seen to begin, wall, median": Budget(0.15),
    "hook: after a compaction, wall, median": Budget(0.15),
    "hook: capture, until it answers, wall, median": Budget(0.15),
    "hook: capture, until one new session is in, wall, median": Budget(0.35),
    # what an agent waits for
    "mcp: start until the tools are listed, least": Budget(1.2),
    **{
        f"mcp: {name}, median": Budget(50, "ms")
        for name in (
            "search_history",
            "list_sessions",
            "read_session",
            "retrieve_memories",
            "ctx_session status",
            "ctx_session load",
            "ctx_session resume",
            "ctx_session snapshot",
            "ctx_session checkpoints",
            "ctx_session playbook",
            "ctx_session list",
            "ctx_session profile",
            "ctx_read",
            "ctx_read signatures",
            "ctx_search",
            "ctx_tree",
            "ctx_shell",
            "get_usage daily",
            "get_usage tool",
            "get_signals of all",
            "get_signals of one",
            "get_findings",
            "ctx_analyze",
            "ctx_wrapped",
            "ctx_gain week",
            "ctx_heatmap",
            "ctx_heatmap json",
            "ctx_verify",
            "ctx_session diff",
            "ctx_session restore",
            "ctx_session cleanup",
            "ctx_session save",
            "ctx_cache",
            "ctx_metrics",
            "ctx_gain live",
            "ctx_artifacts search",
            "ctx_compress of a file",
            "ctx_compress of a window",
        )
    },
    **{
        f"mcp: {name}, first after a sync, processor, least": Budget(50, "ms")
        for name in (
            *("list_sessions", "get_usage daily", "get_usage tool", "get_signals of all", "get_findings", "ctx_session list"),
            *("ctx_wrapped", "ctx_gain week", "ctx_heatmap", "ctx_verify"),
        )
    },
    # Dagster
    "definitions: process that imports them": Budget(4),
    "Dagster run of eight small cells and the tail": Budget(4),
    "Dagster run after one append (in a warm process)": Budget(3),
    "nothing new: scan, plan and summary, whole process": Budget(0.2),
    # in other people's programs
    "callback, added to one model call, content off": Budget(0.1, "ms"),
    "callback, content on less content off, ratio to serialising": Budget(1, "x"),
    "callback, ratio to a run without one": Budget(None, "x"),
    "callback, rows lost": Budget(0, ""),
    "analyze 1,000 calls of 400 words, different": Budget(1),
    "analyze 1,000 calls of 400 words, nearly equal": Budget(1),
    # the context library
    "window: 100k messages, words, all fit": Budget(0.3),
    "window: 100k messages, words, truncated": Budget(0.3),
    "window: 100k messages, words, summarised five at a time": Budget(1),
    "window: 20k messages, tiktoken, against encoding once": Budget(1.15, "x"),
    "window: 20k messages, tiktoken, built again, against encoding": Budget(0.3, "x"),
    "store: append to 20k messages": Budget(5, "ms"),
    "store: load the last of 20k": Budget(5, "ms"),
    "search: 10k vectors of 768 dimensions": Budget(5, "ms"),
    "tree: seal 10k components": Budget(5, "ms"),
    "tree: select, the slowest of seven selectors of 10k, warm": Budget(5, "ms"),
    "tree: commit with 10k components": Budget(5, "ms"),
    "tree: memory of one change and its seal, 10k components": Budget(20, "kB"),
    "history: memory of 10k snapshots of a growing context": Budget(150, "MB"),
    "history: open snapshot 5,000 of 10,000": Budget(5, "ms"),
    "history: list 10,000 triggers": Budget(0.1),
    "history: difference of two neighbours, 20k nodes": Budget(0.5),
    "history: seal 10k components to disk, one changed": Budget(50, "ms"),
    "history: bytes on disk of one change and its seal": Budget(5, "kB"),
    "history: window of a session of 10k events": Budget(3),
    # what a newcomer waits for
    "install: a fresh environment with the package": Budget(None),
    "install: its size": Budget(None, "MB"),
    "install: its libraries": Budget(450, "MB"),
    "install: its libraries with all extras": Budget(None, "MB"),
}
