"""What a person should look at: one record for the command line, the page and the MCP server."""

from __future__ import annotations

from typing import Any, NamedTuple

from ctx_pipeline.model.codec import digest

FAILED_AT_LEAST = 3
"""Fewer failed commands in a session are an ordinary day."""


class Example(NamedTuple):
    """A session that shows a finding, with the figure it shows it by."""

    host: str
    session_id: str
    title: str
    project: str
    value: float


class Finding(NamedTuple):
    """One thing to look at, with the command that acts on it."""

    rule: str
    title: str
    command: str
    detail: str = ""
    advice: str = ""
    """what helps; empty where the command is all there is to do"""
    cases: int = 1
    of: int = 0
    """sessions that could have shown it; 0 where it is not about sessions"""
    usd: float | None = None
    """dollars at stake; None where nobody knows"""
    seconds: float | None = None
    """time at stake"""
    urgent: bool = False
    """what is lost for good, or known to others, if nothing is done"""
    signal: str = ""
    """the measurement that it rests on, where there is one"""
    examples: tuple[Example, ...] = ()

    @property
    def text(self) -> str:
        """Title and detail as one line."""
        return f"{self.title}. {self.detail}" if self.detail else self.title

    @property
    def weight(self) -> int:
        """3: act on it, 2: money or time is at stake, 1: know it."""
        return 3 if self.urgent else 2 if self.usd or self.seconds else 1

    @property
    def session(self) -> str:
        """Key on the page of the session that shows it most; empty where there is none."""
        return digest(self.examples[0].host, self.examples[0].session_id, size=16) if self.examples else ""

    def to_json(self) -> dict[str, Any]:
        """Return all fields, the text as one line, and the weight."""
        return {**self._asdict(), "examples": [one._asdict() for one in self.examples], "text": self.text, "weight": self.weight}


def ranked(found: list[Finding]) -> list[Finding]:
    """Return findings by what is at stake: what is urgent, then dollars, then time, then how common it is."""
    return sorted(found, key=lambda f: (not f.urgent, -(f.usd or 0.0), -(f.seconds or 0.0), -(f.cases / f.of if f.of else 0.0), f.rule))
