"""The path of ``ctx memory weave`` loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PATH = """
import sys
import ctx_pipeline.storage.memory_index, ctx_pipeline.memory.ranking, ctx_pipeline.memory.ranking
import ctx_pipeline.memory.prompt_block, ctx_pipeline.memory.scope
heavy = {"pydantic", "duckdb", "pyarrow", "rich", "dagster", "numpy", "rapidfuzz"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.feature("memory.weave-imports")
def test_retrieving_and_weaving_load_no_heavy_library():
    done = subprocess.run([sys.executable, "-c", _PATH], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
