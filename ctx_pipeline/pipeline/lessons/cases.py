"""Tasks that were solved, each kept as a case: what was asked, what was done, and the check that passed."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from ctx_pipeline.memory import consolidation
from ctx_pipeline.mining.skill_pro import SKILL_PRO
from ctx_pipeline.model.codec import rows_hash
from ctx_pipeline.model.memories import CASE
from ctx_pipeline.pipeline.mine import candidates
from ctx_pipeline.storage.made import Made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.model.memories import Memory, StoredCandidate
    from ctx_pipeline.pipeline.session_errors import SessionErrors
    from ctx_pipeline.storage import Store

FILE = "cases.db"
_STEPS, _MOST = 8, 2_000
_KEPT = ("subject", "task", "steps", "files", "verification")


def rebuild(store: Store, credentials: Callable[[str], Iterable[str]], errors: SessionErrors, *, input_fp: str, code_version: str) -> int:
    """Write ``cases.db`` anew from what single turns solved and return how many cases there are.

    The file says that it was made of this input by this version of the code.

    The same task on the same files, or in a fork, is one case, told as it was solved last;
    its id stays while a session goes on with it. What a check finds something in is held
    back, as a memory would be. Of more than two thousand the newest stay. A session
    whose candidates cannot be read has no cases and is noted in ``errors``.
    """
    found = [_named(m) for m in errors.without_bad(candidates(store, SKILL_PRO, combined=False), partial(_cases, credentials))]
    return store.cases.rebuild(found, made=Made(input_fp, code_version, rows_hash(found), len(found)))


def _cases(credentials: Callable[[str], Iterable[str]], drawn: Iterable[StoredCandidate]) -> list[Memory]:
    solved = [c for c in drawn if c.body.get("task")]
    solved.sort(key=lambda c: (-(c.ts or 0), c.candidate_id))
    return consolidation.consolidate(map(_case, solved[:_MOST]), (), credentials)


def _case(c: StoredCandidate) -> StoredCandidate:
    body = c.body
    steps = [str(s) for s in body["steps"]]
    did = f"{', '.join(steps[:_STEPS])}{f' and {len(steps) - _STEPS} more' if len(steps) > _STEPS else ''}"
    text = f"“{body['task']}”: {did}; `{body['verification']}` passed"
    kept = json.dumps({name: body[name] for name in _KEPT} | {"signature": body["task"]}, ensure_ascii=False, sort_keys=True)
    return c._replace(kind="case", text=text, when_to_use=body["task"], structured=kept)


def _named(memory: Memory) -> Memory:
    return memory._replace(memory_id=f"{CASE}{memory.memory_id.removeprefix('mem-')}")
