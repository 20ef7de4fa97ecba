"""From where on hooks were right often enough on the person's own history, as the newest figures of a backtest tell."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.backtest import MEASURED, recommended
from ctx_pipeline.memory.injection_policy import NOTHING, STARTS, parse_options
from ctx_pipeline.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings


class Calibrated(NamedTuple):
    """What a wanted precision means for hooks."""

    precision: float
    threshold: float | None
    """the lowest one that is known to be right so often; None where none is: nothing is told at prompts"""
    start: str
    """the most generous rule of the start that is, else ``nothing``"""
    at: str | None
    """when these figures were kept; None where there are none"""

    def options(self) -> dict[str, str]:
        """Return the options of a hook that keep to it."""
        prompts = {"no-prompts": "yes"} if self.threshold is None else {"threshold": f"{self.threshold:g}"}
        return {"precision": f"{self.precision:g}", "start": self.start, **prompts}


def calibrated(settings: Settings, precision: float) -> Calibrated:
    """Return what hooks may tell so that as much of it is right, by the newest figures that were kept; nothing where there are none."""
    with closing(Journal(settings.home / "journal.db", read_only=True)) as journal:
        facts = journal.newest(MEASURED, 1) if journal.is_there() else []
    kept: Any = facts[0].payload.get("calibration") if facts else None
    if not isinstance(kept, dict):
        return Calibrated(precision, None, NOTHING, None)
    found = recommended(kept["thresholds"], precision, kept["starts"])
    return Calibrated(precision, found["injection"], found["start"] or NOTHING, str(facts[0].at))


def moved(settings: Settings, options: Mapping[str, str]) -> Calibrated | None:
    """Return what the newest figures say where hooks with a precision were entered by others; None where both agree.

    The rule of the start is compared only where the one in force tells more: less may be the person's own choice.
    """
    try:
        precision = float(options["precision"])
    except (KeyError, ValueError):
        return None
    newest = calibrated(settings, precision)
    now, held = parse_options(newest.options()), parse_options(options)
    same = (now.prompts, now.threshold if now.prompts else 0) == (held.prompts, held.threshold if held.prompts else 0)
    return None if same and STARTS.index(held.start) <= STARTS.index(now.start) else newest
