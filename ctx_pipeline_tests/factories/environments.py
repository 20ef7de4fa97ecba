"""Environments of a wheel: what it requires with some extras, found among the installed libraries, no index asked."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def required(wheel: Distribution, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """Return name -> installed distribution of all that a wheel needs with these extras, directly or not."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = [(wheel, extras)]
    while pending:
        one, wanted = pending.pop()
        for line in one.requires or []:
            requirement = Requirement(line)
            if not any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in wanted or {""}):
                continue
            name, more = canonicalize_name(requirement.name), frozenset(requirement.extras)
            if (name, more) in seen:
                continue
            seen.add((name, more))
            if name == canonicalize_name(wheel.metadata["Name"]):
                pending.append((wheel, more))
                continue
            found[name] = distribution(requirement.name)
            pending.append((found[name], more))
    return found


def size(distributions: dict[str, Distribution]) -> int:
    """Return the bytes of the files of distributions."""
    paths = {Path(str(one.locate_file(file))) for one in distributions.values() for file in one.files or []}
    return sum(path.stat().st_size for path in paths if path.is_file())


def link(distributions: dict[str, Distribution], packages: Path) -> None:
    """Make the libraries of distributions importable in a folder of packages, and none beside them."""
    for one in distributions.values():
        for file in one.files or []:
            top = file.parts[0]
            place = Path(str(one.locate_file(top)))
            if top == ".." or "__pycache__" in file.parts or not place.exists():
                continue
            if len(file.parts) == 1 or place.suffix == ".dist-info":
                _linked(packages / top, place)
            else:  # a namespace may belong to several
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                _linked(target, Path(str(one.locate_file(file))))
    sys.path_importer_cache.clear()


def _linked(target: Path, place: Path) -> None:
    if not target.exists():
        target.symlink_to(place)
