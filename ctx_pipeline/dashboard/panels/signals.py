"""Panel: how the signals read over all sessions."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData


@panel(title="Signals", order=60)
def build(data: PageData) -> str:
    """One reading a session: half of them are at or below the median. Open a name to see how to read it."""
    lines = sorted(data.signals, key=lambda s: (s.group, s.signal))
    groups = [(group, [(s, *halves(s.describe)) for s in members]) for group, members in groupby(lines, key=lambda s: s.group)]
    return template("signals.html", groups=groups)


def halves(describe: str) -> tuple[str, str]:
    """Return what a signal is and how to read it: the first paragraph of its text and the rest."""
    first, _, rest = describe.partition("\n\n")
    return " ".join(first.split()), " ".join(rest.split())
