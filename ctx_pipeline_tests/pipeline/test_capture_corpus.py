"""The published sessions through the real hosts: every byte kept, nothing raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw import segments
from ctx_pipeline.storage.raw.home_files import is_lines, whole_lines
from ctx_pipeline_tests.conftest import CORPUS, corpus

if TYPE_CHECKING:
    from pathlib import Path


@corpus
@pytest.mark.feature("capture.corpus", "doctor.rebuild-ledger")
def test_the_corpus_is_captured_byte_for_byte_and_the_ledger_can_be_rebuilt_from_it(tmp_path: Path):
    settings = settings_module.load(
        {
            "HOME": str(tmp_path),
            "CTX_HOME": str(tmp_path / "store"),
            "CLAUDE_CONFIG_DIR": str(CORPUS / "claude"),
            "CODEX_HOME": str(CORPUS / "codex"),
        }
    )
    with open_store(settings) as store:
        scan = capture.scan(store, settings)
        capture.capture(store, settings, scan=scan)
        assert scan.problems == []
        sources = list(store.ledger.sources().values())
        rows = store.ledger.segments_of(s.stream for s in sources)
        files = [s for s in sources if not s.marker]
        assert len(files) > 250
        for source in files:
            with open(source.path, "rb") as file:  # noqa: PTH123
                data = file.read()
            whole = data[: whole_lines(data)] if is_lines(source.rel) else data
            assert segments.read_stream(store.files, rows.get(source.stream, [])) == whole, source.rel
        before = store.ledger.sessions()
        assert len(before) > 200
        assert capture.scan(store, settings).nothing_new

        doctor.rebuild_ledger(store, settings)
        assert store.ledger.sessions() == before
        report = doctor.examine(store, settings)
        assert (report.damaged, report.spare) == ([], [])
