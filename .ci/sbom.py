"""Prints the bill of materials (CycloneDX 1.5, JSON) of what an installation of the package brings, from installed metadata alone.

``python .ci/sbom.py 'ctx-pipeline[all]'`` names the package with its extras; with ``--requirements``
it prints a line ``name==version`` for each library instead, as ``pip-audit -r`` reads it.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement


def closure(root: str) -> dict[str, Distribution]:
    """Return name -> distribution of a package and of all that it requires here."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [Requirement(root)]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        new = {"", *wanted.extras} - {extra for known, extra in asked if known == name}
        if not new:
            continue
        asked.update((name, extra) for extra in new)
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for text in found[name].requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in new):
                waiting.append(inner)
    return found


def component(one: Distribution) -> dict[str, object]:
    """Return the entry of a distribution: name, version, address, license as its metadata says."""
    name, version = one.metadata["Name"], one.version
    told = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
    licensed = {"licenses": [{"license": {"name": told.splitlines()[0][:100]}}]} if told else {}
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name.lower()}@{version}", **licensed}


if __name__ == "__main__":
    root, *_ = [word for word in sys.argv[1:] if word != "--requirements"] or ["ctx-pipeline"]
    parts = closure(root)
    if "--requirements" in sys.argv:
        own = Requirement(root).name
        sys.stdout.write("".join(f"{name}=={one.version}\n" for name, one in sorted(parts.items()) if name != own))
        sys.exit(0)
    listed = [component(one) for _, one in sorted(parts.items())]
    sys.stdout.write(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": listed}, indent=1) + "\n")
