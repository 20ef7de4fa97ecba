"""Which secrets are worth a word: those that may open something, each once."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest

from ctx_pipeline.findings.evidence import history
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.redaction.liveness import PUBLIC, is_live
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.rollup import Filters
from ctx_pipeline_tests.bench.bench_secrets import BLOCK, measured, table
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.factories.shipped import SAMPLES
from ctx_pipeline_tests.factories.shown_secrets import KEY, SHOWN, USED

ROOT = SAMPLES.parents[1]


def _found(text: str) -> list[tuple[str, bool]]:
    return [(name, is_live(name, text, start, end)) for name, start, end in Redactor().find(text)]


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("case", SHOWN)
def test_examples_defaults_ids_and_test_values_are_replaced_and_not_shouted(case):
    found = _found(SHOWN[case])

    assert found, "it is still replaced"
    assert not any(live for _, live in found)


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("place", USED)
def test_secrets_that_are_used_are_told(place):
    text = USED[place].replace("<key>", KEY)

    assert any(live for _, live in _found(text))
    assert KEY not in Redactor().redact(text)


@pytest.mark.feature("redaction.live-published")
def test_what_stands_in_published_packages_is_replaced_and_told_by_nobody():
    text = f'class Client:\n    def login(self):\n        self.api_key = "{KEY}"\n'
    ((name, start, end),) = Redactor().find(text)

    assert is_live(name, text, start, end, '{"file_path": "/home/ada/shop/client.py"}')
    for place in (".venv/lib/python3.11/site-packages/shop/client.py", "node_modules/shop/client.js", "vendor/shop/client.go"):
        assert not is_live(name, text, start, end, f'{{"file_path": "/home/ada/shop/{place}"}}')


@pytest.mark.feature("redaction.live-published")
def test_hardly_anything_of_a_published_library_is_told_though_its_place_is_not_known():
    package = Path(sysconfig.get_paths()["stdlib"])
    redactor = Redactor()
    texts = [path.read_text("utf-8", "replace") for path in sorted([*package.glob("*.py"), *package.glob("*/*.py")])[:1_500]]
    found = {
        (name, text[start:end]): is_live(name, text, start, end)
        for text in (texts[i] for i in redactor.suspects(texts))
        for name, start, end in redactor.find(text)
    }

    assert found
    assert not any(found.values())


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.name)
def test_a_drawn_secret_of_every_kind_is_live_where_it_is_used(detector):
    rng = random.Random(7)
    seen = []
    for _ in range(20):
        text, secret = detector.plant(rng)
        text = text.replace("example.test", "shop.internal").replace("_test_", "_live_")
        seen.append(any(live for _, live in _found(text)))
        planted = secret.replace("example.test", "shop.internal").replace("_test_", "_live_")
        assert planted in text
        assert planted not in Redactor().redact(text)

    assert sum(seen) == 0 if detector.name in PUBLIC else sum(seen) >= 18


@pytest.mark.feature("redaction.live")
def test_what_is_read_from_a_file_of_tests_or_documentation_is_an_example():
    text = f"STRIPE_KEY={KEY}"
    ((name, start, end),) = Redactor().find(text)

    assert is_live(name, text, start, end, '{"file_path": "/home/ada/shop/.env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/tests/fixtures/env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/docs/setup.md"}')


@pytest.mark.feature("redaction.live")
def test_a_secret_that_the_person_typed_is_told_though_a_document_shows_it_too(tmp_path):
    def told(*sources: str) -> int:
        home = claude.ClaudeHome(tmp_path / "-".join(("home", *sources)))
        main = home.session()
        main.prompt(f"call the shop with STRIPE_KEY={KEY}" if "typed" in sources else "go on")
        for number, name in enumerate(s for s in sources if s != "typed"):
            main.call(f"t{number}", "Read", f"{number}\nSTRIPE_KEY={KEY}", file_path=f"/home/ada/shop/{name}")
        main.save()
        settings = Settings(home=tmp_path / "-".join(("store", *sources)), timezone="UTC", demo_roots={"claude": (home.root,)})
        with open_store(settings) as store:
            ingest(store, settings)
        return sum(history(settings, Filters(), ()).replaced.values())

    assert [told("typed"), told("typed", "docs/setup.md"), told(".env", "README.md")] == [1, 1, 1]
    assert [told("docs/setup.md"), told("src/pay.py", "docs/setup.md")] == [0, 0]


@pytest.mark.feature("redaction.live-measured")
def test_of_secrets_planted_into_sessions_nearly_all_that_are_told_may_open_something_and_most_that_may_are_told():
    found = measured(SAMPLES, 1)

    assert sum(found.told.values()) > 800
    assert found.precision >= 0.97
    assert found.recall >= 0.65
    assert len(found.kept) <= 5
    assert f"{100 * found.precision:.1f} % may open something" in table([found])


@pytest.mark.feature("redaction.live-measured")
def test_the_page_says_what_the_bench_has_measured():
    page = (ROOT / "docs" / "reliability.md").read_text()
    (block,) = BLOCK.findall(page)

    counts = [
        [int(cell.replace(",", "")) for cell in line.split("|")[2:5]]
        for line in block.splitlines()
        if line.startswith(("| a secret", "| one that"))
    ]
    live, shown = counts
    assert live[0] == live[1] + live[2] > 0
    assert shown[0] == shown[1] + shown[2] > 0
    assert f"{100 * live[1] / (live[1] + shown[1]):.1f} % may open something (precision," in block
    assert f"{100 * live[1] / live[0]:.1f} % is told (recall," in block
