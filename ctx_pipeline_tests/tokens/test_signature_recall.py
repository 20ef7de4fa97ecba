"""Signatures beside the tree of the parser, on files that nobody wrote for these tests, and on the samples."""

from __future__ import annotations

import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from ctx_pipeline.compression.signatures.grammars import GRAMMARS
from ctx_pipeline_tests.bench.signature_recall import VIEWS, compare, declarations, drawn_files
from ctx_pipeline_tests.tokens.test_signatures import SAMPLES


@pytest.mark.feature("compress.signature-recall")
@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_what_the_tree_of_a_sample_declares_is_told_and_nothing_else(language):
    score = compare([SAMPLES[language][0]], language)

    assert score.declared > 0
    assert (dict(score.missing), dict(score.extra)) == ({}, {})
    assert score.calls_right == score.calls


@pytest.mark.feature("compress.signature-recall")
@pytest.mark.timeout(100)
def test_ten_files_of_the_standard_library_are_told_as_the_tree_has_them():
    paths = drawn_files([Path(sysconfig.get_paths()["stdlib"])], "python", 10, 1)
    score = compare([p.read_text("utf-8") for p in paths], "python")

    assert score.files == 10
    assert score.told >= 0.99 * score.declared > 50
    assert score.right >= 0.95 * score.drawn
    assert score.calls_right == score.calls > 20


@pytest.mark.feature("compress.signature-recall")
@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("language", "packages", "least"),
    [
        ("c", ("numpy", "mypyc"), 0.98),
        ("cpp", ("pyarrow",), 0.95),
        ("css", ("docutils", "mkdocs"), 0.98),
        # what a bundler makes of modules is told in part: what is assigned to an object of another module, and the names it passes on
        ("javascript", ("mkdocs", "playwright", "dagster_webserver"), 0.85),
    ],
)
def test_ten_files_that_packages_ship_are_told_as_the_tree_has_them(language, packages, least):
    found = [spec for name in packages if (spec := find_spec(name)) is not None]
    if len(found) < len(packages):
        pytest.skip(f"not all of {', '.join(packages)} are installed")
    folders = [Path(place) for spec in found for place in spec.submodule_search_locations or ()]
    score = compare([p.read_text("utf-8", "replace") for p in drawn_files(folders, language, 10, 1)], language)

    assert score.files == 10
    assert score.told >= least * score.declared > 50
    assert score.right >= least * score.drawn
    assert score.calls_right >= least * score.calls


def test_a_declaration_that_is_left_out_and_one_that_is_made_up_are_seen(monkeypatch):
    from ctx_pipeline_tests.bench import signature_recall

    text = "def a(x, y): pass\ndef b(): pass\n"
    whole = signature_recall.outline(text, "python")
    wrong = whole._replace(symbols=(whole.symbols[0]._replace(parameters=()), whole.symbols[1]._replace(name="c")))
    monkeypatch.setattr(signature_recall, "outline", lambda *_: wrong)
    score = compare([text], "python")

    assert (score.declared, score.told, score.drawn, score.right) == (2, 1, 2, 1)
    assert (score.calls, score.calls_right) == (1, 0)


def test_the_view_of_every_language_is_written():
    assert set(VIEWS) == set(GRAMMARS)
    assert [d.name for d in declarations("class A:\n    x: int\n    def f(self): y = 1\n", "python")] == ["A", "x", "f"]
