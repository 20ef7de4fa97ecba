"""Every usage figure that peers and the makers of the published sessions state, and the truth of generated homes."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ctx_pipeline.model.codec import iso
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.homes.transcript_files import FileUsage, count_file
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.usage.conftest import ingested
from ctx_pipeline_tests.usage.stated import beyond

GENERATOR = CORPUS.parent / "tools" / "gen_load.py"
FROM_LINE = re.compile(r"(\w+) of lines (\d+)\.\. \(0-based\) to end of file")
TOGETHER = re.compile(r"usage of this file TOGETHER with (\S+) counted once \(\d+ shared message ids\): (\w+)")
NAMES = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_creation_tokens": "cache_write",
    "cache_creation_input_tokens": "cache_write",
    "cache_read_tokens": "cache_read",
    "cache_read_input_tokens": "cache_read",
    "api_call_count": "calls",
    "model calls": "calls",
    "cached": "cache_read",
    "output": "output",
    "reasoning (inside output)": "reasoning",
}
REPEATED = "019dd4b9-496d-7581-a780-16f20aecff69"
"""Line 130 of this rollout repeats the running totals of line 124: that tool counts it as a 14th call of no tokens, we do not."""


def sums(one: FileUsage) -> str:
    return f"{one.input + one.cache_read + one.cache_write} / {one.cache_read} / {one.output}"


def answer(path: Path, quantity: str) -> str | None:
    """Return our value of a quantity as the table writes it."""
    if match := FROM_LINE.fullmatch(quantity):
        one = count_file(path, from_line=int(match[2]))
        # that tool counts an answer that the client made itself as a call of no tokens
        return str(getattr(one, NAMES[match[1]]) + (one.client_made if match[1] == "api_call_count" and "claude" in path.parts else 0))
    if match := TOGETHER.fullmatch(quantity):
        other = next(CORPUS.rglob(match[1]))
        both = [getattr(count_file(a, beside=[b]), NAMES[match[2]]) for a, b in ((path, other), (other, path))]
        return str(sum(both))
    if quantity in NAMES:
        one = count_file(path)
        first = [row for row in one.rows if "codex" in path.parts[-6:]][:1]
        if quantity in {"cached", "output", "reasoning (inside output)"} and first:
            return str(
                dict(zip(("cached", "output", "reasoning (inside output)"), (first[0][10], first[0][7], first[0][11]), strict=True))[
                    quantity
                ]
            )
        return str(getattr(one, NAMES[quantity]))
    if quantity.startswith("input_tokens incl. cached"):
        row = count_file(path).rows["2nd record" in quantity]
        return str(row[12])
    if quantity.startswith(("NEW usage of this thread", "thread usage")):
        one = count_file(path)
        return sums(one) + (f" / {one.reasoning}" if "reasoning" in quantity else "")
    if quantity in {"sum of costUSD", "costUSD"}:
        return f"{count_file(path).recorded_nano / 1e9:g}"
    if quantity.startswith("cost by price list"):
        return f"{count_file(path).calculated_nano / 1e9:g}"
    if quantity == "tokens in/out/cache write/cache read":
        one = count_file(path)
        return f"{one.input} / {one.output} / {one.cache_write} / {one.cache_read}"
    if quantity == "NEW usage when the source file is ingested too":
        if (source := next((p for p in (CORPUS / "claude").rglob(path.name) if p != path), None)) is not None:
            # of two equal files either may be the one that is counted
            together = count_file(path, beside=[source]).output + count_file(source, beside=[path]).output
            return str(together - count_file(source).output)
        others = [p for p in (CORPUS / "claude").rglob("*.jsonl") if p != path and p.parent.parent.name == "projects"]
        return str(count_file(path, beside=others).output)
    if quantity == "days (UTC)":
        return " ".join(sorted({(iso(row[4]) or "")[:10] for row in count_file(path).rows}))
    if quantity == "fast-mode records":
        return str(sum(row[14] == "fast" for row in count_file(path).rows))
    if quantity == "usage":
        source = next((CORPUS / "claude").rglob("68d61609-708d-431d-b552-dc582ffc947b.jsonl"))
        return "equal to that of its source file" if count_file(path)[:8] == count_file(source)[:8] else "another"
    if quantity == "records":
        return str(count_file(path).calls)
    return beyond(path, quantity)


@corpus
@pytest.mark.feature("usage.public-counter")
@pytest.mark.feature("usage.expected-values")
def test_every_stated_value_is_reproduced() -> None:
    wrong, passed, repeats = [], Counter[str](), 0
    with (CORPUS / "expected.tsv").open() as table:
        for row in csv.DictReader(table, delimiter="\t"):
            ours = answer(CORPUS / row["file"], row["quantity"])
            if (REPEATED in row["file"] and row["quantity"].startswith("api_call_count")) and (ours, row["expected value"]) == (
                "13",
                "14",
            ):
                repeats += 1
            elif ours != row["expected value"]:
                wrong.append((row["file"], row["quantity"], row["expected value"], ours))
            else:
                passed[row["file"].partition("/")[0]] += 1

    assert wrong == []
    assert repeats == 1
    assert passed["claude"] >= 200
    assert passed["codex"] >= 15
    assert passed.total() + repeats == len((CORPUS / "expected.tsv").read_text().splitlines()) - 1


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated home of fifty megabytes with its truth."""
    if not GENERATOR.is_file():
        pytest.skip("../shared/tools is not beside this checkout")
    folder = tmp_path_factory.mktemp("generated")
    subprocess.run([sys.executable, str(GENERATOR), str(folder), "--mb", "50", "--seed", "11"], check=True, capture_output=True)
    return folder


@pytest.mark.feature("usage.load-truth")
@pytest.mark.feature("usage.generated-truth")
@pytest.mark.parametrize("with_store", [False, True])
def test_a_generated_home_is_counted_to_the_token_and_the_cent(generated: Path, tmp_path: Path, with_store: bool) -> None:
    truth = json.loads((generated / "truth.json").read_text())
    roots = {"claude": (generated / ".claude",), "codex": (generated / ".codex",)}
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots)
    if with_store:
        ingested(settings)

    report = usage("daily", settings=settings)

    names = {"input": "input_tokens", "output": "output_tokens", "cache_write_5m": "cache_write_5m_tokens"}
    names |= {"cache_write_1h": "cache_write_1h_tokens", "cache_read": "cache_read_tokens", "responses": "calls"}
    stated = {(r["agent"], r["day"], r["model"]): r for r in truth["rows"]}
    ours = {(r["host"], r["date"], r["model"]): r for r in report.rows}
    assert ours.keys() == stated.keys()
    for key, row in stated.items():
        assert {n: ours[key][c] for n, c in names.items()} == {n: row[n] for n in names}, key
        assert round(ours[key]["cost_nano"] / 1e9, 2) == pytest.approx(round(row["cost"], 2), abs=0.0101)
    for host, sums_of in truth["totals"].items():
        assert sum(r["cost_nano"] for r in report.rows if r["host"] == host) / 1e9 == pytest.approx(sums_of["cost"], abs=0.005)
