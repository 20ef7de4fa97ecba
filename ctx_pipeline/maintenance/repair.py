"""What a person agrees to where files of the store are damaged: all of it mended, and what cannot be is named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import plain
from ctx_pipeline.pipeline.repair import checks, damaged_outputs, damaged_raw, rebuild
from ctx_pipeline.pipeline.run import run_stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.pipeline.repair.damaged_raw import LostRange
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

Damages = list[tuple[str, str]]
"""(file, what is wrong with it)"""


@dataclass(slots=True)
class Verified:
    """What a look at every byte of a store found."""

    damaged: Damages
    lost: list[LostRange]
    """bytes of sources that nobody has any more; what was made of them stays as it is"""

    @property
    def sound(self) -> bool:
        """Whether no file is damaged or missing."""
        return not self.damaged

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"sound": self.sound, "damaged": [list(one) for one in self.damaged], "lost": [plain(one) for one in self.lost]}

    def lines(self) -> list[str]:
        """Return it as lines of text."""
        found = [f"{path}: {what}" for path, what in self.damaged] + [str(one) for one in self.lost]
        return [*found, "sound: no file is damaged or missing" if self.sound else f"{len(self.damaged):,} damaged: ctx repair"]


@dataclass(slots=True)
class Repaired:
    """What a repair did."""

    before: Damages
    done: list[str] = field(default_factory=list)
    after: Verified = field(default_factory=lambda: Verified([], []))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"damaged_before": [list(one) for one in self.before], "done": self.done, **self.after.to_json()}


def verify_deep(store: Store, settings: Settings) -> Verified:
    """Read every file of a store and hold it against digests, SQLite and raw; nothing is changed."""
    found = checks.everything(store)
    if not any(path == checks.LEDGER or path.startswith("raw/") for path, _ in found):
        found += checks.ledger_against_raw(store, settings)
    return Verified(found, damaged_raw.lost_ranges(store))


def repair(store: Store, settings: Settings, found: Sequence[tuple[str, str]]) -> Repaired:
    """Mend what :func:`verify_deep` found damaged, run every stage, and look again.

    Databases that no stage makes are set aside; the journal begins anew with all that can be read of it.
    """
    report = Repaired(list(found))
    names = {path for path, _ in found}
    done = report.done
    if checks.JOURNAL in names:
        made = rebuild.new_journal(store)
        done.append(str(made))
        done += [f"the old journal is kept as {made.aside}"] if made.aside else []
    if checks.CONTEXTS in names and (aside := rebuild.set_aside(store.home / checks.CONTEXTS)):
        done.append(f"{checks.CONTEXTS} cannot be read: what was saved in it is lost; it is kept as {aside}")
    if any(path == checks.LEDGER and "comes back" not in what for path, what in found):
        done += rebuild.rebuild_ledger(store, settings).lines()
    objects = [path for path in names if path.startswith("raw/")]
    if objects:
        done += damaged_raw.repair(store, settings, objects).lines()
        damaged_raw.note(store, ())
    done += damaged_outputs.release_damaged(store, settings, deep=True)
    ran = run_stages(store, settings)
    done += [f"failed partition: {line}" for line in ran.failed]
    report.after = verify_deep(store, settings)
    return report
