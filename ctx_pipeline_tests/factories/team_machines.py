"""Machines of a team, each with a home and a store of its own, and a bucket behind an S3-shaped server on loopback."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline.team.membership import join
from ctx_pipeline.team.publish import publish
from ctx_pipeline_tests.factories.claude import ClaudeHome, usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.team.publish import Published
    from ctx_pipeline_tests.factories.claude import Transcript

DAY = datetime.fromisoformat("2026-03-02T09:00:00+00:00")


def session_id(number: int) -> str:
    """Return the id of a made-up session."""
    return f"{number:08d}-0000-4000-8000-000000000000"


@dataclass
class TeamMachine:
    """One machine of one member."""

    folder: Path
    member: str
    name: str = "laptop"

    @property
    def settings(self) -> Settings:
        return settings_module.load(
            {
                "HOME": str(self.folder / "nobody"),
                "CTX_HOME": str(self.folder / "store"),
                "CLAUDE_CONFIG_DIR": str(self.folder / "claude"),
                "CODEX_HOME": str(self.folder / "codex"),
                "TZ": "UTC",
            }
        )

    @property
    def home(self) -> ClaudeHome:
        return ClaudeHome(self.folder / "claude")

    def join(self, url: str, share: Sequence[str] = ("counts",), key: Sequence[str] = ()) -> TeamMachine:
        join(self.settings, url, name=self.member, machine=self.name, share=share, key=key)
        return self

    def works(self, number: int, *, turns: int = 1, project: str = "shop", started: datetime = DAY, words: str = "go on") -> Transcript:
        """Write a session of some turns, each with one model call and one check that passes."""
        made = self.home.session(session_id(number), slug=f"-w-{project}", cwd=f"/w/{project}", mark=f"{number}", started=started)
        for turn in range(turns):
            made.prompt(f"{words} {turn}")
            made.call(f"toolu_{number}_{turn}", "Bash", "3 passed in 0.1s", command="pytest -q")
            made.answer({"type": "text", "text": "done"}, usages=[usage(10 + number, 5 + turn)])
        return made.save()

    def capture(self) -> None:
        """Bring the tables of this machine up to date."""
        with open_store(self.settings) as store:
            sync(store, self.settings)
            make_facts(store, self.settings)

    def publish(self, **options: Any) -> Published:
        """Capture and publish."""
        self.capture()
        with open_store(self.settings) as store:
            return publish(store, self.settings, **options)
