"""Homes of real sessions, and what usage says of them with and without a store."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


def ingested(settings: Settings) -> Settings:
    """Bring the store up to date and return the settings."""
    with open_store(settings) as store:
        ingest(store, settings)
    return settings


def without_store(settings: Settings) -> Settings:
    return replace(settings, home=settings.home.with_name("no-store"))


@pytest.fixture
def homes(tmp_path: Path) -> Settings:
    """The sample homes, writable, with a store that is empty yet."""
    roots = {}
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, tmp_path / host)
        roots[host] = (tmp_path / host,)
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots)
