"""The documentation builds as a site: every page has its place, every link its end, and nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "-", "-d", str(site)]
    with (checkout / "docs" / "mkdocs.yml").open("rb") as configuration:
        return subprocess.run(
            command,
            stdin=configuration,
            cwd=checkout,
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.mark.feature("docs.site")
def test_the_site_builds_with_every_page_in_its_navigation_and_fetches_nothing_from_elsewhere(tmp_path: Path):
    done = build(ROOT, tmp_path / "site")

    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path / "site"): path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.html")}
    assert {Path("index.html"), Path("glossary.html"), Path("reference/features/search.html")} <= pages.keys()
    fetched = [
        (str(path), tag)
        for path, text in pages.items()
        for tag in re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//[^>]+", text)
    ]
    assert fetched == []


@pytest.mark.feature("docs.site")
@pytest.mark.parametrize("broken", ["[gone](no-such-page.md)", "[gone](usage.md#no-such-heading)", "[outside](../README.md)"])
def test_a_link_that_leads_nowhere_fails_the_build(broken: str, tmp_path: Path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "docs" / "glossary.md"
    page.write_text(page.read_text("utf-8") + f"\n{broken}\n", "utf-8")

    done = build(tmp_path, tmp_path / "site")

    assert done.returncode != 0
    assert re.search(r"glossary\.md.* (link|anchor)", done.stdout + done.stderr)
