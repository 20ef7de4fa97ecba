"""Published Codex sessions against their right answers."""

from __future__ import annotations

import pytest
import zstandard

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.conftest import CORPUS, corpus

HOME = CORPUS / "codex"
FORK = "sessions/2026/07/20/rollout-2026-07-20T08-00-00-019f0000-000d-7000-8000-000000000010.jsonl"
ROLLOUTS = sorted(str(p.relative_to(HOME)) for p in HOME.rglob("rollout-*")) if HOME.is_dir() else []

pytestmark = corpus


def streams_of(*rels: str) -> tuple[StreamBytes, ...]:
    found = []
    for number, rel in enumerate(rels):
        data = (HOME / rel).read_bytes()
        if rel.endswith(".zst"):
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        identity = HOST.files.identify("rollout", rel, data[:65_536])
        if identity is not None:
            found.append(StreamBytes(f"{number:016x}", "rollout", rel, 0, data, identity.thread_id, identity.parent_thread_id))
    return tuple(found)


def parse(*rels: str) -> Parsed:
    streams = streams_of(*rels)
    return HOST.records.parse(SessionInput("codex", streams[0].thread_id if streams else "none", streams))


def usage(parsed: Parsed, *, own: bool = False) -> dict[str, tuple[int, ...]]:
    sums: dict[str, tuple[int, ...]] = {}
    for call in (MODEL_CALLS.row(*row) for row in parsed.model_calls):
        if call.owner or not own:
            before = sums.get(call.model, (0,) * 5)
            now = (1, call.input, call.cache_read, call.output, call.reasoning)
            sums[call.model] = tuple(a + b for a, b in zip(before, now, strict=True))
    return sums


def reference() -> dict[str, dict[str, tuple[int, ...]]]:
    sums: dict[str, dict[str, tuple[int, ...]]] = {}
    for text in (CORPUS / "reference_usage.tsv").read_text().splitlines()[1:]:
        file, model, count, fresh, _, _, _, read, output, reasoning, *_ = text.split("\t")
        if file.startswith("codex/"):
            sums.setdefault(file[6:], {})[model] = (int(count), int(fresh), int(read), int(output), int(reasoning or 0))
    return sums


@pytest.mark.feature("codex.usage")
@pytest.mark.parametrize("rel", [r for r in ROLLOUTS if not r.endswith(".zst")])
def test_every_file_has_the_tokens_of_the_reference(rel):
    assert usage(parse(rel)) == reference().get(rel, {})


@pytest.mark.feature("codex.fork-usage")
def test_the_fork_used_one_call_of_its_own():
    assert usage(parse(FORK), own=True) == {"gpt-5.5": (1, 400, 600, 50, 10)}


@pytest.mark.feature("codex.hostile-lines")
@pytest.mark.parametrize("rel", ROLLOUTS)
def test_every_file_gives_rows_that_keep_the_contract(rel):
    parsed = parse(rel)
    for table, rows in ((EVENTS, parsed.events), (MODEL_CALLS, parsed.model_calls), (TOOL_CALLS, parsed.tool_calls)):
        named = [table.row(*row) for row in rows]
        assert len({tuple(getattr(r, k) for k in table.key) for r in named}) == len(named)
        required = [c.name for c in table.columns if not c.nullable]
        assert not [name for r in named for name in required if getattr(r, name) is None]
    size = len((HOME / rel).read_bytes()) if rel.endswith(".jsonl") else 2**40
    assert all(0 <= e[15] < e[16] <= size for e in parsed.events)


@pytest.mark.feature("codex.hostile-lines")
def test_broken_lines_of_the_tricky_files_are_quarantined():
    found = {
        rel[-10:-6]: [q.line for q in parse(rel).quarantined]
        for rel in ROLLOUTS
        if rel.startswith("sessions/2026/06/30") and rel.endswith("jsonl")
    }
    assert found == {"0001": [], "0002": [], "0003": [43], "0004": [], "0005": [3, 8], "0007": []}


@pytest.mark.feature("codex.duplicates")
def test_plain_and_packed_and_active_and_archived_are_one_thread():
    plain = "sessions/2026/06/30/rollout-2026-06-30T10-00-07-019f0000-000d-7000-8000-000000000007.jsonl"
    active = "sessions/2026/07/12/rollout-2026-07-12T00-06-24-019f53a5-842d-7383-ab2a-2cd26bcf7f02.jsonl"
    archived = "archived_sessions/rollout-2026-07-12T00-06-24-019f53a5-842d-7383-ab2a-2cd26bcf7f02.jsonl"
    for one, both in ((plain, (plain, plain + ".zst")), (active, (active, archived))):
        assert parse(*both).events == parse(one).events
        assert usage(parse(*both)) == usage(parse(one))


@pytest.mark.feature("codex.tools")
def test_nearly_every_call_of_real_sessions_finds_its_result():
    rows = [TOOL_CALLS.row(*row) for rel in ROLLOUTS if rel.endswith(".jsonl") for row in parse(rel).tool_calls]
    answered = [t for t in rows if t.result_event is not None]
    assert len(rows) > 1_500
    assert len(answered) / len(rows) > 0.98
