"""Compiled templates are kept: the next process compiles none, and nothing that stands in their files can harm a page."""

from __future__ import annotations

import jinja2
import pytest

from ctx_pipeline.dashboard.compiled_templates import CompiledTemplates


@pytest.fixture
def folders(tmp_path):
    sources, kept = tmp_path / "sources", tmp_path / "kept"
    sources.mkdir()
    kept.mkdir()
    (sources / "a.html").write_text("one {{ x }}")
    return sources, kept


def _filled(folders, monkeypatch, *, trim: bool = False) -> tuple[str, int]:
    """Return the filled template of a new environment, and how many templates it compiled."""
    sources, kept = folders
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(sources),
        bytecode_cache=CompiledTemplates(kept, {"trim_blocks": trim}),
        trim_blocks=trim,
    )
    compiled = []
    compile_source = environment.compile
    monkeypatch.setattr(environment, "compile", lambda *named: compiled.append(named) or compile_source(*named))
    return environment.get_template("a.html").render(x="<b>"), len(compiled)


@pytest.mark.feature("dashboard.compiled")
def test_a_template_is_compiled_once_and_anew_when_it_changes(folders, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    assert _filled(folders, monkeypatch) == ("one &lt;b&gt;", 1)
    assert _filled(folders, monkeypatch) == ("one &lt;b&gt;", 0)
    assert _filled(folders, monkeypatch, trim=True) == ("one &lt;b&gt;", 1)
    (folders[0] / "a.html").write_text("two {{ x }}")
    assert _filled(folders, monkeypatch) == ("two &lt;b&gt;", 1)
    assert _filled(folders, monkeypatch) == ("two &lt;b&gt;", 0)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-20], lambda data: data[:20] + bytes(40)])
def test_a_damaged_file_is_compiled_anew(folders, monkeypatch, damage):
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    _filled(folders, monkeypatch)
    (kept,) = folders[1].iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert _filled(folders, monkeypatch) == ("one &lt;b&gt;", 1)
    assert _filled(folders, monkeypatch) == ("one &lt;b&gt;", 0)


def test_without_a_folder_to_write_all_is_compiled(folders, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    gone = (folders[0], folders[1] / "missing")
    assert _filled(gone, monkeypatch) == _filled(gone, monkeypatch) == ("one &lt;b&gt;", 1)


def test_where_python_writes_no_bytecode_nothing_is_kept(folders, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert _filled(folders, monkeypatch)[1] == 1
    assert list(folders[1].iterdir()) == []
