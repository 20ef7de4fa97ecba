"""A session's state goes to another machine and comes back, secrets out, strangers' words told as theirs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import UsageError
from ctx_pipeline.sessions.states.bundles import read
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.sessions.conftest import KEY, WORK, Shop, captured


@pytest.mark.feature("session.bundle")
def test_a_session_is_exported_and_loaded_on_another_machine(own: Shop, monkeypatch, tmp_path):
    own.ctx(monkeypatch, "session", "finding", "shop/cart.py:12 - taken off twice")
    file = tmp_path / "work.json"
    told = own.json(monkeypatch, "session", "export", str(file))
    other = captured(tmp_path)
    imported = other.json(monkeypatch, "session", "import", str(file), cwd=tmp_path)
    state = other.json(monkeypatch, "session", "load", "--session", WORK[:8], cwd=tmp_path)

    assert (told["session_id"], told["redacted"]) == (WORK, {})
    assert imported["session_id"] == WORK
    assert state["captured"] is False
    assert [state["findings"][0][name] for name in ("text", "path", "by")] == ["taken off twice", "shop/cart.py", "bundle"]
    assert [f["path"] for f in state["files"]] == ["shop/cart.py", "shop/prices.py", "CHANGELOG.md"]
    assert "from the bundle that was imported" in other.ctx(monkeypatch, "session", "status", "--session", WORK, cwd=tmp_path).stdout


@pytest.mark.feature("session.bundle")
def test_a_bundle_is_loaded_on_a_machine_that_captured_nothing_yet(own: Shop, monkeypatch, tmp_path):
    file = tmp_path / "work.json"
    own.json(monkeypatch, "session", "export", str(file))
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "CLAUDE_CONFIG_DIR": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    fresh = Shop(settings_module.load(environ), tmp_path, tmp_path)
    assert fresh.ctx(monkeypatch, "session", "import", str(file)).exit_code == 0
    told = fresh.ctx(monkeypatch, "session", "load", "--session", WORK[:8]).stdout
    assert "Fix the sum of the cart" in told


@pytest.mark.feature("session.bundle", "session.artifact-registry")
def test_what_was_redacted_is_named_and_the_bundle_registers_itself(own: Shop, monkeypatch, tmp_path):
    file = tmp_path / "key.json"
    told = own.json(monkeypatch, "session", "export", str(file), "--session", f"codex:{THREAD}")

    assert told["redacted"] == {"anthropic-key": 3}  # what was asked, the task and the title
    assert KEY not in file.read_text()
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert [(a["artifact_id"], a["kind"]) for a in own.json(monkeypatch, "artifacts")["artifacts"]] == [(told["artifact_id"], "bundle")]
    assert "redacted: anthropic-key 3x" in own.ctx(monkeypatch, "session", "export", str(file), "--session", f"codex:{THREAD}").stdout


def test_a_pattern_that_reaches_to_the_end_of_a_line_leaves_the_bundle_whole(own: Shop, monkeypatch, tmp_path):
    own.ctx(monkeypatch, "session", "finding", "shop/cart.py:12 - wallet 17 is empty")
    (own.settings.home / "config.toml").write_text("[redaction.patterns]\nwallet = 'wallet .*'\n")
    told = own.json(monkeypatch, "session", "export", str(tmp_path / "a.json"))

    assert told["redacted"] == {"wallet": 1}
    assert read((tmp_path / "a.json").read_bytes())[0].findings[0].text == "[REDACTED:wallet]"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema": 1, "what": "bundle", "state": {}}',
        b"\xff\xfe",
        b'{"schema": 9, "what": "bundle", "state": {}}',
        json.dumps({"schema": 1, "what": "bundle", "state": {"schema": 1, "host": "claude", "session_id": "../../etc"}}).encode(),
        json.dumps({"schema": 1, "what": "bundle", "state": {"schema": 1, "host": "nobody", "session_id": "s"}}).encode(),
        b"[" * 100_000,
        b'{"schema": 1, "what": "bundle", "state": {"schema": 1, "host": "claude", "session_id": "s", "seq": 1e999}}',
        *(
            json.dumps({"schema": 1, "what": "bundle", "state": {"schema": 1, "host": "claude", "session_id": "s", **wrong}}).encode()
            for wrong in (
                {"findings": [{"text": "x", "by": "checks", "score": "high"}]},
                {"decisions": [{"text": "x", "by": "question", "reason": ["y"]}]},
                {"files": [{"ref": "F1", "path": 7, "reads": 1, "changes": 0, "lines": 0, "last": 0}]},
            )
        ),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(data):
    with pytest.raises(UsageError):
        read(data)


@pytest.mark.feature("cli.session-tools")
def test_the_documented_tools_are_commands_under_their_names():
    names = set(cli.list_commands(None))

    assert {"session", "compress", "analyze", "benchmark", "metrics", "wrapped", "cache", "heatmap", "gain", "artifacts", "verify"} <= names
    for name in ("metrics", "wrapped", "cache", "heatmap", "gain", "artifacts", "verify"):
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0
