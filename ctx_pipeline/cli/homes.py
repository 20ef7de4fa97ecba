"""Which homes and which store a command works on: the person's, or the sample ones of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli.output import say
from ctx_pipeline.storage.marker import begun

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def choose(settings: Settings, *, demo: bool, samples: bool = True) -> tuple[Settings, str]:
    """Return the settings to work with and what to tell the person.

    Without any home, and without a store of captured sessions, the sample homes are
    used with ``$CTX_HOME/demo`` as the store.
    """
    if demo:
        return _demo(settings), ""
    if not samples or begun(settings.home):
        return settings, ""
    from ctx_pipeline import discovery

    hosts = discovery.hosts().values()
    if any(settings.roots_of(host) for host in hosts):
        return settings, ""
    looked = ", ".join(str(root) for host in hosts for root in settings.candidate_roots(host))
    return _demo(settings), f"No sessions found; looked in {looked}. Showing sample sessions instead."


def for_reading() -> Settings:
    """Return the settings of a command that only reads; tells when they are those of the samples."""
    settings, note = choose(settings_module.load(), demo=False)
    if note and begun(settings.home):
        say("(sample sessions)", err=True)
        return settings
    return settings_module.load() if note else settings


def _demo(settings: Settings) -> Settings:
    roots = {folder.name: (folder,) for folder in sorted(SAMPLES.iterdir()) if folder.is_dir()}
    return replace(settings, home=settings.home / "demo", demo_roots=roots)
