"""Merges the candidates of all cells with what people said into the memories of the store."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.memory import consolidation, safety
from ctx_pipeline.mining.skill_pro import SKILL_PRO
from ctx_pipeline.model import display
from ctx_pipeline.model.codec import digest, rows_hash
from ctx_pipeline.model.memories import CASE, StoredCandidate
from ctx_pipeline.pipeline import code_versions, reports
from ctx_pipeline.pipeline.lessons.repositories import look, repositories, with_repositories
from ctx_pipeline.pipeline.mine import candidates, renew
from ctx_pipeline.pipeline.mine import candidates as mined
from ctx_pipeline.pipeline.models import model_judge
from ctx_pipeline.pipeline.plan import WHOLE, graph
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport, reason
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.shell.command_risk import guarded
from ctx_pipeline.storage.files import Made

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.memories import Memory
    from ctx_pipeline.pipeline.lessons.repositories import Repositories
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


# Tasks that were solved, each kept as a case: what was asked, what was done, and the check that passed.


FILE = "cases.db"
_STEPS, _MOST = 8, 2_000
_KEPT = ("subject", "task", "steps", "files", "verification")


def rebuild(
    store: Store, check: KeptChecks, errors: SessionErrors, *, input_fp: str, code_version: str, known: Repositories | None = None
) -> int:
    """Write ``cases.db`` anew from what single turns solved and return how many cases there are.

    The file says that it was made of this input by this version of the code.

    The same task on the same files, or in a fork, is one case, told as it was solved last;
    its id stays while a session goes on with it. What a check finds something in is held
    back, as a memory would be. Of more than two thousand the newest stay. A session
    whose candidates cannot be read has no cases and is noted in ``errors``.
    """
    found = [_named(m) for m in errors.without_bad(candidates(store, SKILL_PRO, combined=False, known=known), partial(_cases, check))]
    return store.cases.rebuild(found, made=Made(input_fp, code_version, rows_hash(found), len(found)))


def _cases(check: KeptChecks, drawn: Iterable[StoredCandidate]) -> list[Memory]:
    solved = [c for c in drawn if c.body.get("task")]
    solved.sort(key=lambda c: (-(c.ts or 0), c.candidate_id))
    return consolidation.consolidate(map(_case, solved[:_MOST]), (), check, guard=check.guard)


def _case(c: StoredCandidate) -> StoredCandidate:
    body = c.body
    steps = [str(s) for s in body["steps"]]
    did = f"{', '.join(steps[:_STEPS])}{f' and {len(steps) - _STEPS} more' if len(steps) > _STEPS else ''}"
    text = f"“{body['task']}”: {did}; `{body['verification']}` passed"
    kept = json.dumps({name: body[name] for name in _KEPT} | {"signature": body["task"]}, ensure_ascii=False, sort_keys=True)
    return c._replace(kind="case", text=text, when_to_use=body["task"], structured=kept)


def _named(memory: Memory) -> Memory:
    return memory._replace(memory_id=f"{CASE}{memory.memory_id.removeprefix('mem-')}")


# What the safety scan found in the texts of each memory, and which lessons propose nothing risky, kept between runs: of one
# more session only the new ones are looked at.


CHECKS = "memory_checks.json"


class KeptChecks:
    """The safety scan with these detectors, which answers for texts that the run before has scanned from what it noted.

    The same for commands that lessons propose. The file holds digests of texts and names of
    findings, those that the last merging asked for.
    """

    def __init__(self, store: Store, redactor: Redactor, version: str) -> None:
        self._store, self._redactor = store, redactor
        self._version = digest(version, *(Path(str(module.__file__)).read_bytes() for module in (safety, display)))
        self._known: dict[str, list[str]] = {}
        self._asked: dict[str, list[str]] = {}
        self._harmless: set[str] = set()
        self._guarded: set[str] = set()
        with suppress(OSError, StoreError, msgspec.MsgspecError, UnicodeDecodeError):
            made_by, known, harmless = msgspec.json.decode(store.files.read(CHECKS), type=tuple[str, dict[str, list[str]], set[str]])
            if made_by == self._version:
                self._known, self._harmless = known, harmless

    def __call__(self, texts: Iterable[str | None]) -> list[str]:
        """Return what is wrong with the texts of one memory, as :func:`ctx_pipeline.memory.safety.scan` does."""
        words = list(texts)
        key = digest(*words, size=24)
        found = self._asked.get(key)
        if found is None:
            found = self._known.get(key)
            self._asked[key] = found = safety.scan(words, self._secrets) if found is None else found
        return list(found)

    def guard(self, candidate: StoredCandidate) -> StoredCandidate:
        """Do what :func:`ctx_pipeline.shell.command_risk.guarded` does; what was harmless the last time is not read again."""
        key = digest(candidate.kind, candidate.text, candidate.structured or "", size=24)
        found = candidate if key in self._harmless else guarded(candidate)
        if found is candidate:
            self._guarded.add(key)
        return found

    def keep(self) -> None:
        """Keep what was asked for."""
        self._store.files.write(CHECKS, msgspec.json.encode((self._version, self._asked, sorted(self._guarded))))

    def _secrets(self, text: str) -> set[str]:
        return {name for name, _, _ in self._redactor.find(text)}


# What a method made of the candidates of one repository, kept between runs: one more session changes one repository.


COMBINED = "combined_candidates.json"


class KeptCombinations:
    """What methods make of the candidates of each repository, which are asked again only where those are others than in the run before.

    The file holds what was made by a digest of what it was made of, for methods that compare
    no candidates of two repositories.
    """

    def __init__(self, store: Store, version: str) -> None:
        self._store, self._version = store, version
        self._known: dict[str, list[StoredCandidate]] = {}
        self._asked: dict[str, list[StoredCandidate]] = {}
        with suppress(OSError, StoreError, msgspec.MsgspecError, UnicodeDecodeError):
            made_by, known = msgspec.json.decode(store.files.read(COMBINED), type=tuple[str, dict[str, list[StoredCandidate]]])
            if made_by == version:
                self._known = known

    def __call__(self, method: Method, rows: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
        """Return what a method makes of all candidates, repository by repository where it compares none of two."""
        if method.combine is None or not (method.by_repository and method.deterministic):
            return method.combine(rows) if method.combine else rows
        places: dict[str, list[StoredCandidate]] = {}
        for row in rows:
            places.setdefault(row.place, []).append(row)
        return [made for place in sorted(places) for made in self._of_one(method, places[place])]

    def keep(self) -> None:
        """Keep what was asked for."""
        self._store.files.write(COMBINED, msgspec.json.encode((self._version, self._asked)))

    def _of_one(self, method: Method, rows: Sequence[StoredCandidate]) -> list[StoredCandidate]:
        key = digest(method.name, msgspec.json.encode(rows).decode(), size=24)
        found = self._known.get(key)
        if found is None:
            found = list(method.combine(rows)) if method.combine else list(rows)
        self._asked[key] = found
        return found


CODE_VERSION = "11"
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
    methods = discovery.methods()
    redactor = Redactor(settings.patterns)
    version = code_versions.consolidated_version(redactor)

    check, combining = KeptChecks(store, redactor, version), KeptCombinations(store, version)
    upstream = graph(code_versions.versions(store.files, settings))[ASSET].upstream

    def current(made_of: str) -> bool:
        row = store.ledger.asset_cell(ASSET, WHOLE)
        return not force and row is not None and row.input_fp == made_of and row.code_version == version

    if not current(reports.of_now(store.ledger, upstream, store.journal.head())):
        look(store, errors)
    with store.ledger.lease(ASSET):
        made_of = reports.of_now(store.ledger, upstream, store.journal.head())
        row = store.ledger.asset_cell(ASSET, WHOLE)
        counts: dict[str, int] = {}
        if row is not None and current(made_of):
            status, content = UNCHANGED, row.content_hash
            held = store.cases.made()
            if held is None or held[:2] != (made_of, version):
                rebuild(store, check, errors, input_fp=made_of, code_version=version)
        else:
            drawn = [asset for asset in upstream if asset.startswith("mined/")]
            candidates = []
            known = repositories(store)
            for method in (methods[asset.partition("/")[2]] for asset in drawn):
                try:
                    candidates += mined(store, method, errors=errors, known=known, guard=check.guard, combining=combining)
                except MemoryError:
                    raise
                except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other methods' memories with it
                    errors.note("", "", f"the method {method.name}: {reason(error)}")
            candidates += with_repositories(store, model_judge.candidates(store), known)
            facts = [consolidation.Fact(f.kind, f.payload, f.at) for f in store.journal.facts() if f.kind.startswith("memory.")]
            memories = errors.without_bad(
                candidates, lambda some: consolidation.consolidate(some, facts, check, former=known.former, guard=check.guard)
            )
            rebuild(store, check, errors, input_fp=made_of, code_version=version, known=known)
            content = rows_hash(memories)
            store.lake.replace(ASSET, WHOLE, {"memories": memories}, code_version=version, input_fp=made_of, content_hash=content)
            store.ledger.record_asset(ASSET, WHOLE, input_fp=made_of, code_version=version, content_hash=content, rows=len(memories))
            check.keep()
            combining.keep()
            status = DONE
            counts = {
                "candidates": len(candidates),
                "memories": len(memories),
                "needs_review": sum(m.status == "needs_review" and m.superseded_by is None for m in memories),
                "errors": len(errors),
            }
            errors.keep(store, ASSET)
    seconds = time.perf_counter() - began
    return StageReport("consolidate", {"": CellReport(status, counts, content, seconds)}, counts, seconds)
