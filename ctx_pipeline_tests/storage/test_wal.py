"""Many processes make one store at the same moment."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store

if TYPE_CHECKING:
    from pathlib import Path

FORK = multiprocessing.get_context("fork")


def begin(home: Path, gate) -> None:
    gate.wait(250)
    with open_store(Settings(home=home)) as store:
        store.journal.append("finding", {"n": 1})
        store.ledger.commit_capture([])


@pytest.mark.feature("store.many-beginners")
def test_eight_processes_make_the_same_new_store(tmp_path):
    for number in range(3):
        gate = FORK.Barrier(8)
        processes = [FORK.Process(target=begin, args=(tmp_path / str(number), gate)) for _ in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(200)

        assert [process.exitcode for process in processes] == [0] * 8
        with open_store(Settings(home=tmp_path / str(number))) as store:
            assert len(store.journal.facts()) == 8
