"""What the README and its pages say is so: the real output, commands that exist, an example that runs, links with an end."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import click
import pytest

from ctx_pipeline.cli import cli
from ctx_pipeline.model.declared import Signal
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.views import view

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")
SIGNALS = (ROOT / "docs" / "signals.md").read_text("utf-8")


def block(page: str, language: str, containing: str) -> str:
    found = [b for b in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) if containing in b]
    assert len(found) == 1
    return found[0]


@pytest.mark.feature("docs.readme-output", "cli.run-size")
@pytest.mark.slow
def test_the_output_on_the_first_screen_is_what_a_first_run_prints(bare: Ctx):
    def steady(text: str) -> list[str]:
        text = text.replace(str(bare.folder / "nobody"), "~").replace(str(bare.store), "~/.ctx_pipeline")
        return [re.sub(r"in \d+\.\d s", "in N s", line) for line in text.splitlines() if line]

    done = bare("run")

    assert steady(done.stdout) == steady(block(README, "text", "sessions"))
    assert re.search(r"^first run: 11 files, [\d.]+ kB; later runs read only what is new$", done.stderr, re.MULTILINE)


@pytest.mark.feature("docs.readme-commands")
def test_every_command_in_the_readme_and_the_list_of_commands_exists():
    context = click.Context(cli)
    named = {words for line in re.findall(r"`(ctx [^`]+)`", README + COMMANDS) for words in line.replace("\\", "").split(" · ")}

    assert len(named) > 10
    for text in named:
        words = text.split()[1:]
        command = cli.get_command(context, words[0])
        assert command is not None, text
        if isinstance(command, click.Group) and len(words) > 1:
            for name in words[1].split("|"):
                assert command.get_command(context, name), text


@pytest.mark.feature("docs.readme")
def test_every_link_and_picture_of_the_readme_is_a_file_of_the_checkout_and_its_heading_exists():
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", README)

    assert len(links) > 20
    assert {path for path, _ in links if path.endswith(".png")} == {"docs/images/page.png", "docs/images/graph.png"}
    for path, heading in links:
        assert (ROOT / path).is_file(), path
        if heading:
            headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^a-z0-9]+", "-", text.lower()) for text in headings}, path


@pytest.mark.feature("docs.readme-signal", "signals.one-file")
def test_the_example_signal_is_a_whole_file_and_reads_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "patience.py"
    path.write_text(block(SIGNALS, "python", "short_prompt_count"))
    spec = importlib.util.spec_from_file_location("ctx_pipeline.signals.patience", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    [found] = [v for v in vars(module).values() if isinstance(v, Signal)]
    session = view().prompt("go on").answer("done").prompt("now write the tests for the export, please").prompt("yes").build()

    assert (found.name, found.family, found.unit) == ("short_prompt_count", "patience", "prompts")
    reading = found.function(session)
    assert reading.value == 2
    assert [session.by_event[e].text for e in reading.evidence] == ["go on", "yes"]
