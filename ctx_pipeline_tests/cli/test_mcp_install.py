"""``ctx mcp install`` and ``uninstall``: other people's settings are kept, and come back byte for byte."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli

CLAUDE = '{\n    "numStartups": 7,\n    "mcpServers": {"other": {"command": "x", "args": ["é"]}},\n    "cost": 0.1234567890123\n}'
CODEX = '# mine\nmodel = "gpt-5"   # fast\n\n[mcp_servers.other]\ncommand = "x" # keep\n\n[features]\nhooks = true\n'


@pytest.fixture
def person(monkeypatch, tmp_path) -> Path:
    """The person's own folder, with a home of each agent at its default place."""
    home = Path(os.environ["HOME"])
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    monkeypatch.delenv("CTX_HOME")
    monkeypatch.chdir(tmp_path)
    return home


def ctx(*words: str, answer: str = "", code: int = 0) -> str:
    done = CliRunner().invoke(cli, words, input=answer, catch_exceptions=True)
    if code == 0:
        assert done.exit_code == 0, (done.output, done.exception)
    else:
        assert done.exit_code != 0
        return f"{done.output}{done.exception}"
    return done.output


def entered(words: dict) -> bool:
    return Path(words["command"]).is_absolute() and words["args"][-1] == "mcp"


@pytest.mark.feature("mcp.install")
def test_claude_gets_the_server_beside_the_others_and_back_byte_for_byte(person):
    path = person / ".claude.json"
    path.write_text(CLAUDE)
    path.chmod(0o640)

    ctx("mcp", "install", "claude", "--yes")

    value = json.loads(path.read_text())
    assert value["mcpServers"]["other"] == {"command": "x", "args": ["é"]}
    assert value["mcpServers"]["ctx"]["type"] == "stdio"
    assert entered(value["mcpServers"]["ctx"])
    assert path.read_text().startswith('{\n    "numStartups": 7,\n    "mcpServers": {\n')
    assert "é" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    backups = list((person / ".ctx_pipeline" / "wiring").glob("*.backup"))
    assert [b.read_text() for b in backups] == [CLAUDE]
    assert backups[0].stat().st_mode & 0o777 == 0o600

    after = path.read_bytes()
    assert "already" in ctx("mcp", "install", "claude", "--yes")
    assert path.read_bytes() == after
    ctx("mcp", "uninstall", "claude")
    assert path.read_text() == CLAUDE
    assert "not installed" in ctx("mcp", "uninstall", "claude")


@pytest.mark.feature("mcp.install")
def test_codex_gets_a_table_of_its_own_and_comments_stay(person):
    path = person / ".codex" / "config.toml"
    path.write_text(CODEX)

    ctx("mcp", "install", "codex", "--yes")

    text = path.read_text()
    assert text.startswith(CODEX)
    assert entered(tomllib.loads(text)["mcp_servers"]["ctx"])
    assert tomllib.loads(text)["mcp_servers"]["other"] == {"command": "x"}
    ctx("mcp", "install", "codex", "--yes")
    assert path.read_text() == text
    ctx("mcp", "uninstall", "codex")
    assert path.read_text() == CODEX


@pytest.mark.feature("mcp.install")
def test_what_others_changed_since_stays_when_the_server_is_taken_out(person):
    claude, codex = person / ".claude.json", person / ".codex" / "config.toml"
    claude.write_text(CLAUDE)
    codex.write_text(CODEX)
    ctx("mcp", "install", "claude", "--yes")
    ctx("mcp", "install", "codex", "--yes")
    value = json.loads(claude.read_text())
    claude.write_text(json.dumps({**value, "numStartups": 8}, indent=4))
    codex.write_text(codex.read_text() + '\n[mcp_servers.ctx.env]\nA = "b"\n\n[later]\nx = 1\n')

    ctx("mcp", "uninstall", "claude")
    ctx("mcp", "uninstall", "codex")

    assert json.loads(claude.read_text()) == {**json.loads(CLAUDE), "numStartups": 8}
    assert tomllib.loads(codex.read_text()) == {**tomllib.loads(CODEX), "later": {"x": 1}}
    assert codex.read_text().startswith(CODEX)


@pytest.mark.feature("mcp.install")
def test_a_file_that_was_not_there_goes_again(person):
    for host, path in (("claude", person / ".claude.json"), ("codex", person / ".codex" / "config.toml")):
        ctx("mcp", "install", host, "--yes")
        assert path.stat().st_mode & 0o777 == 0o600
        ctx("mcp", "uninstall", host)
        assert not path.exists()


@pytest.mark.feature("mcp.install")
def test_a_project_can_have_the_server_alone(person, tmp_path):
    ctx("mcp", "install", "claude", "--scope", "project", "--yes")
    ctx("mcp", "install", "codex", "--scope", "project", "--yes")

    assert entered(json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["ctx"])
    assert entered(tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"]["ctx"])
    assert not (person / ".claude.json").exists()


@pytest.mark.feature("mcp.install")
def test_named_homes_and_a_named_store_are_used(person, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{tmp_path}/work,{tmp_path}/private")
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "my store"))

    ctx("mcp", "install", "claude", "--yes")

    for name in ("work", "private"):
        server = json.loads((tmp_path / name / ".claude.json").read_text())["mcpServers"]["ctx"]
        assert server["env"] == {"CTX_HOME": str(tmp_path / "my store")}
    assert not (person / ".claude.json").exists()


@pytest.mark.feature("mcp.install")
def test_a_server_is_added_to_an_inline_table_of_servers_and_taken_out_of_it(person):
    path = person / ".codex" / "config.toml"
    path.write_text('mcp_servers = { other = { command = "x" } } # mine\nmodel = "gpt-5"\n')

    ctx("mcp", "install", "codex", "--yes")
    there = path.read_text()
    ctx("mcp", "uninstall", "codex")

    assert set(tomllib.loads(there)["mcp_servers"]) == {"other", "ctx"}
    assert there.endswith('# mine\nmodel = "gpt-5"\n')
    assert tomllib.loads(path.read_text()) == {"mcp_servers": {"other": {"command": "x"}}, "model": "gpt-5"}


@pytest.mark.feature("mcp.install")
@pytest.mark.parametrize(
    ("host", "name", "text"),
    [
        ("claude", ".claude.json", '{"mcpServers": {}} // mine'),
        ("claude", ".claude.json", '{"mcpServers": {'),
        ("claude", ".claude.json", "[]"),
        ("claude", ".claude.json", '{"mcpServers": []}'),
        ("claude", ".claude.json", '{"a": 1, "a": 2}'),
        ("claude", ".claude.json", '{"mcpServers": {"ctx": {"command": "/opt/other/ctx", "args": ["serve"]}}}'),
        ("claude", ".claude.json", "[" * 100_000),
        ("codex", ".codex/config.toml", "model = \n"),
        ("codex", ".codex/config.toml", '[mcp_servers.ctx]\ncommand = "another"\n'),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused_unchanged(person, host, name, text):
    path = person / name
    path.write_text(text)

    assert "was left as it is" in ctx("mcp", "install", host, "--yes", code=1)

    assert path.read_text() == text
    assert sorted(p.name for p in path.parent.iterdir() if p.name.startswith(f".{path.name}.")) == []


@pytest.mark.feature("mcp.install")
def test_it_asks_first_and_no_means_no(person):
    ctx("mcp", "install", "claude", answer="n\n", code=1)
    assert not (person / ".claude.json").exists()
    ctx("mcp", "install", "claude", answer="y\n")
    assert (person / ".claude.json").exists()


@pytest.mark.feature("mcp.install")
def test_a_link_to_the_file_stays_a_link(person, tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text(CLAUDE)
    (person / ".claude.json").symlink_to(real)

    ctx("mcp", "install", "claude", "--yes")

    assert (person / ".claude.json").is_symlink()
    assert "ctx" in json.loads(real.read_text())["mcpServers"]


@pytest.mark.feature("mcp.install")
def test_what_is_entered_starts_the_server(person):
    ctx("mcp", "install", "codex", "--yes")
    words = tomllib.loads((person / ".codex" / "config.toml").read_text())["mcp_servers"]["ctx"]

    assert words["command"] in (sys.executable, str(Path(sys.executable).with_name("ctx")))
    assert os.access(words["command"], os.X_OK)
