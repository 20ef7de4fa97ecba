"""Sessions as a person picks them, told by the first bytes of sources that were never captured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zstandard

from ctx_pipeline import settings as settings_of
from ctx_pipeline.integrations.import_sessions import list_sessions
from ctx_pipeline.model.raw import Identity
from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.pipeline.toy_home import TOY, line, look, write

JUNE = "2026-06-03T10:00:00.000Z"
AT = 1_780_480_800_000_000


@pytest.mark.feature("capture.selection")
def test_a_source_is_told_by_its_first_bytes_packed_or_not_and_a_pipe_is_nobodys(store, settings, home):
    noise = os.urandom(200_000).hex()
    plain = write(home, "sessions/one.jsonl", line(id="a", ts=JUNE))
    packed = zstandard.compress(line(id="b", ts=JUNE, parent="a", relation="part", text=noise[:60_000]) + line(text=noise))
    write(home, "archive/two.jsonl.zst", packed)
    one, two = sorted(look(store, settings).pending, key=lambda p: p.rel, reverse=True)
    assert capture.identity_of(one, TOY) == Identity("a", first_ts=AT)
    assert capture.identity_of(two, TOY) == Identity("b", "a", "part", first_ts=AT)
    plain.unlink()
    os.mkfifo(plain)
    assert capture.identity_of(one, TOY) is None


@pytest.mark.feature("capture.selection")
def test_the_list_names_the_session_of_a_packed_transcript_that_was_never_captured(environ):
    root = Path(environ["CODEX_HOME"])
    path = codex.write(root, codex.session(), folder="archived_sessions")
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    settings = settings_of.load(environ)
    with open_store(settings) as store:
        assert [(s.session_id, s.state) for s in list_sessions(store, settings, host="codex").sessions] == [(codex.THREAD, "new")]
