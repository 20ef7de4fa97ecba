"""Asks a model whose answers are files about the sessions of the lists of wanted lessons."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery, settings
from ctx_pipeline.pipeline.models import model_judge, model_mining
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.conftest import CORPUS
from ctx_pipeline_tests.factories.recorder import recorder
from ctx_pipeline_tests.mining.gold import LESSONS, UNSEEN, gold

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import StoredCandidate

ANSWERS = Path(__file__).with_name("gold_answers")
"""One file a session: what an assistant answered that read the request and neither the session nor the list."""

_METHOD = "dspy"


class Asked(NamedTuple):
    """What a model's answers gave: believed lessons, refused ones by reason, sessions without an answer."""

    lessons: list[StoredCandidate]
    refused: Counter[str]
    unanswered: list[str]


def name_of(host: str, session_id: str) -> str:
    """Return the name of the files of a session."""
    return f"{host}-{session_id[:18]}"


def ask_about_gold(home: Path, answers: Path = ANSWERS, *, requests: Path | None = None) -> Asked:
    """Ask about each session of both lists as ``ctx mine --method dspy`` does, in a store of its own below ``home``."""
    now: list[str] = [""]
    method = discovery.methods()[_METHOD]
    wanted = {s for lessons in (LESSONS, UNSEEN) for g in gold(lessons) for s in g.sessions}
    refused: Counter[str] = Counter()
    unanswered: list[str] = []
    environ = {
        **os.environ,
        "CTX_HOME": str(home / "store"),
        "CLAUDE_CONFIG_DIR": str(CORPUS / "claude"),
        "CODEX_HOME": str(CORPUS / "codex"),
    }
    with recorder(answers, name=lambda _messages: now[0], requests=requests) as server:
        table: dict[str, Any] = {"model": "openai/recorded", "api_base": server.url, "api_key_env": "RECORDED_KEY"}
        chosen = settings.Settings(home=home / "store", environ={**environ, "RECORDED_KEY": "none"}, config={"mine": table})
        with open_store(chosen) as store:
            sync(store, chosen)
            for cell in sorted(store.ledger.cells()):
                for row in store.lake.read_rows("sessions", cell, "normalized"):
                    if any(row.session_id.startswith(s) for s in wanted):
                        now[0] = name_of(row.host, row.session_id)
                        done = model_mining.ask(store, chosen, method, cells=[cell], sessions={row.session_id})
                        refused.update(done["refused"])
                        unanswered += [now[0]] if done["failed"] else []
            return Asked(model_judge.candidates(store, _METHOD), refused, unanswered)
