"""Merges the candidates of all cells with what people said into the memories of the store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.memory import consolidation
from ctx_pipeline.model.codec import rows_hash
from ctx_pipeline.pipeline import code_versions, fingerprints
from ctx_pipeline.pipeline.lessons import cases
from ctx_pipeline.pipeline.lessons.repositories import look, with_repositories
from ctx_pipeline.pipeline.mine import candidates as mined
from ctx_pipeline.pipeline.mine import renew
from ctx_pipeline.pipeline.models import model_answers
from ctx_pipeline.pipeline.plan import WHOLE, graph
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport, reason
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.redaction.redactor import Redactor

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = "8"
ASSET = "memory/consolidated"


def consolidate(store: Store, settings: Settings, *, force: bool = False) -> StageReport:
    """Write the table ``memories`` and the solved tasks anew, unless neither a candidate nor the journal changed.

    Candidates of another version of their method are drawn anew first. Totals: candidates,
    memories, how many of them are held back for review, and errors: of sessions, whose
    others go on (:mod:`ctx_pipeline.pipeline.session_errors` keeps them), and of methods that
    raised over the candidates of all sessions and give nothing.
    """
    began = time.perf_counter()
    renew(store, settings)
    errors = SessionErrors()
    look(store, errors)
    methods = discovery.methods()
    redactor = Redactor(settings.patterns)
    version = code_versions.consolidated_version(CODE_VERSION, redactor)

    def secrets(text: str) -> set[str]:
        return {name for name, _, _ in redactor.find(text)}

    upstream = graph(code_versions.versions(store.files, settings))[ASSET].upstream
    with store.ledger.lease(ASSET):
        made_of = fingerprints.of_now(store.ledger, upstream, store.journal.head())
        row = store.ledger.asset_cell(ASSET, WHOLE)
        counts: dict[str, int] = {}
        if not force and row is not None and row.input_fp == made_of and row.code_version == version:
            status, content = UNCHANGED, row.content_hash
            held = store.cases.made()
            if held is None or held[:2] != (made_of, version):
                cases.rebuild(store, secrets, errors, input_fp=made_of, code_version=version)
        else:
            drawn = [asset for asset in upstream if asset.startswith("mined/")]
            candidates = []
            for method in (methods[asset.partition("/")[2]] for asset in drawn):
                try:
                    candidates += mined(store, method, errors=errors)
                except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other methods' memories with it
                    errors.note("", "", f"the method {method.name}: {reason(error)}")
            candidates += with_repositories(store, model_answers.candidates(store))
            facts = [consolidation.Fact(f.kind, f.payload, f.at) for f in store.journal.facts() if f.kind.startswith("memory.")]
            memories = errors.without_bad(candidates, lambda some: consolidation.consolidate(some, facts, secrets))
            cases.rebuild(store, secrets, errors, input_fp=made_of, code_version=version)
            content = rows_hash(memories)
            store.lake.replace(ASSET, WHOLE, {"memories": memories}, code_version=version, input_fp=made_of, content_hash=content)
            store.ledger.record_asset(ASSET, WHOLE, input_fp=made_of, code_version=version, content_hash=content, rows=len(memories))
            status = DONE
            counts = {
                "candidates": len(candidates),
                "memories": len(memories),
                "needs_review": sum(m.status == "needs_review" for m in memories),
                "errors": len(errors),
            }
            errors.keep(store, ASSET)
    seconds = time.perf_counter() - began
    return StageReport("consolidate", {"": CellReport(status, counts, content, seconds)}, counts, seconds)
