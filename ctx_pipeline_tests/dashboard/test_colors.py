"""Colors of the page: one meaning each, seen on the paper of both schemes."""

from __future__ import annotations

import re

import pytest

from ctx_pipeline.dashboard.page import ASSETS

MEANINGS = (*(f"c{n}" for n in range(6)), *(f"k{n}" for n in range(4)), "m5", "accent", "alert", "good")
"""Agents, kinds of tokens, other models, what can be chosen, what is bad, what is good."""

SEEN = (*(f"c{n}" for n in range(6)), "accent", "alert", "good", "soft", "faint")


def _schemes() -> list[dict[str, str]]:
    """Return the colors of the light and of the dark scheme, by name."""
    text = "".join((ASSETS / name).read_text("utf-8") for name in ("style.css", "panels.css"))
    dark = [part.partition("}\n}")[0] for part in text.split("@media (prefers-color-scheme: dark)")[1:]]
    light = text
    for part in dark:
        light = light.replace(part, "")
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in (light, "".join(dark))]


def _light(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.feature("dashboard.colors")
@pytest.mark.parametrize("colors", _schemes(), ids=["light", "dark"])
def test_each_color_means_one_thing_and_is_seen_on_the_paper(colors):
    paper = _light(colors["paper"])
    contrast = {name: (max(paper, _light(colors[name])) + 0.05) / (min(paper, _light(colors[name])) + 0.05) for name in SEEN}

    assert len({colors[name] for name in MEANINGS}) == len(MEANINGS)
    assert {name for name, ratio in contrast.items() if ratio < 3} == set()
    assert {name for name in ("soft", "faint", "alert", "good", "accent") if contrast[name] < 4.5} == set()
