"""A Claude home with one small session a month, and the settings that read it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_file
from ctx_pipeline_tests.factories.claude import ClaudeHome, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ctx_pipeline.settings import Settings

LONG_AGO = datetime(2026, 6, 1, tzinfo=UTC).timestamp()


def session_id(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


def write_month(home: Path, month: str, number: int, *, prompts: int = 1) -> Path:
    """Write a session that began in a month and has been quiet since; more prompts are later lines of the same file."""
    year, _, part = month.partition("-")
    transcript = ClaudeHome(home).session(session_id(number), mark=f"m{number}", started=datetime(int(year), int(part), 5, 10, tzinfo=UTC))
    for turn in range(prompts):
        transcript.prompt(f"mend the parser, part {turn}")
        transcript.answer(text(f"done with part {turn}"), message_id=f"msg_{number}_{turn}")
    transcript.save()
    os.utime(transcript.path, (LONG_AGO, LONG_AGO + prompts))
    return transcript.path


def settings_of(environ: Mapping[str, str]) -> Settings:
    return settings_file.load({**environ, "CODEX_HOME": environ["CLAUDE_CONFIG_DIR"] + "-none"})
