"""Signals whose names are no plain words have the same words on the command line and on the page."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.display import SIGNAL_WORDS, signal_words


@pytest.mark.feature("cli.show-what-stands-out")
def test_signals_have_the_same_words_on_the_command_line_and_on_the_page() -> None:
    script = resources.files("ctx_pipeline").joinpath("dashboard/assets/format.js").read_text("utf-8")
    told = re.search(r"const SIGNAL_WORDS = (\{.*?\});", script, re.DOTALL)

    assert told
    assert json.loads(re.sub(r"(\w+):", r'"\1":', told[1])) == SIGNAL_WORDS
    assert set(SIGNAL_WORDS) <= set(discovery.signals())
    words = [signal_words(name) for name in discovery.signals()]
    assert not [one for one in words if re.search("entropy|balance score|trajectory|latency|seconds$|lexical|mcp", one)]
    assert len(set(words)) == len(words)
    assert 'name.replace(/^trajectory_/, "")' in script
