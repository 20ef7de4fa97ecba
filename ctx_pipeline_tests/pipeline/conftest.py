"""A toy home with a store beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.pipeline.toy_home import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "toy"
    root.mkdir()
    return root


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with open_store(settings) as opened:
        yield opened
