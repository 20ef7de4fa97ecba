"""``ctx compress``, ``ctx analyze`` and ``ctx benchmark`` over files, and over what a session captured."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.cli.test_surface import documented
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, text, tool_use, usage
from ctx_pipeline_tests.factories.shipped import environment

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
CART = (
    f'"""Carts."""\n\nTOKEN = "{SECRET}"\n\n\n'
    'def total(prices: dict[str, int]) -> int:\n    """Return the sum."""\n    # add up\n    return sum(prices.values())\n'
)
NUMBERED = "".join(f"{n:6}→{line}\n" for n, line in enumerate(CART.replace(SECRET, "x").splitlines(), 1))
FOLDER = "/home/dev/shop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with git: code, data, a binary file, an ignored one, a link that leads out."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "cart.py").write_text(CART)
    (folder / "use.ts").write_text('import { total } from "./cart";\nexport const sum = (a: number[]): number => total(a);\n')
    (folder / "data.json").write_text(json.dumps({"rows": [1, 2, 3] * 30}, indent=2))
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0")
    (folder / "built.py").write_text("def built(): pass\n")
    (folder / ".gitignore").write_text("built.py\n")
    outside = tmp_path_factory.mktemp("outside") / "secret.py"
    outside.write_text("def outside(): pass\n")
    (folder / "link.py").symlink_to(outside)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=60, env={"PATH": os.environ["PATH"], "HOME": str(folder)})
    return folder


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a command in this process with a store of its own."""
    (tmp_path / "nobody").mkdir(exist_ok=True)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


@pytest.mark.feature("compress.analyze")
def test_analyze_prints_entropy_with_its_units_every_form_and_what_to_read(ctx, shop: Path):
    printed = ctx("analyze", shop / "cart.py").stdout
    told = json.loads(ctx("analyze", shop / "cart.py", "--json").stdout)

    assert "bits/char; below 2.0:" in printed
    assert "bits/token; below 1.0:" in printed
    assert f"Read it as: {told['recommended']} (" in printed
    assert [row["form"] for row in told["forms"]] == ["raw", "aggressive", "entropy", "signatures", "map", "cache hit"]
    assert (told["language"], told["lines"], told["schema"]) == ("python", 9, 1)
    assert [spread["unit"] for spread in told["entropy"]] == ["char", "token"]


@pytest.mark.feature("compress.empty-files")
def test_what_is_no_text_is_refused_with_a_hint(ctx, shop: Path, tmp_path: Path):
    big = tmp_path / "big.py"
    big.write_bytes(b"x" * 1_000_001)
    for path, why in [(shop / "logo.png", "binary"), (shop / "none.py", "no such file"), (big, "too large"), (shop, "it is a folder")]:
        done = ctx("analyze", path)
        assert done.exit_code == 2 or "UsageError" in repr(done.exception), path
        assert why in str(done.exception)


@pytest.mark.feature("compress.checkpoint", "cli.session-tools", "session.checkpoint-switches")
def test_a_folder_becomes_a_checkpoint_without_ignored_files_and_links_that_lead_out(ctx, shop: Path):
    done = ctx("compress", shop)
    told = json.loads(ctx("compress", shop, "--json").stdout)

    assert [line.split(":")[0].split(" [")[0] for line in done.stdout.splitlines()[2:4]] == ["F1 cart.py", "F2 use.ts"]
    assert "fn pub total(prices:dict[str, int]) → int" in done.stdout
    assert "built" not in done.stdout + json.dumps(told)
    assert "outside" not in done.stdout + json.dumps(told["files"])
    assert told["left_out"] == {"binary": 1, "not chosen": 2, "outside": 1}
    # how long the path of the folder is decides whether so small files are said with less
    assert told["saved_tokens"] == max(0, told["raw_tokens"] - told["tokens"])
    assert "signatures" not in ctx("compress", shop, "--no-signatures").stdout


@pytest.mark.feature("compress.strategies")
def test_a_file_is_printed_in_a_form_without_secrets_and_without_what_a_terminal_obeys(ctx, shop: Path, tmp_path: Path):
    whole = ctx("compress", shop / "cart.py", "--form", "aggressive").stdout
    best = json.loads(ctx("compress", shop / "cart.py", shop / "data.json", "--form", "best", "--json").stdout)
    (tmp_path / "evil.txt").write_text("a\x1b[31mred\u202e\n")

    assert SECRET not in whole
    assert "[REDACTED:" in whole
    assert "# add up" not in whole
    assert [row["form"] for row in best["files"]] == ["map", "aggressive"]
    assert json.loads(best["files"][1]["text"]) == {"rows": [1, 2, 3] * 30}
    assert "\x1b" not in ctx("compress", tmp_path / "evil.txt", "--form", "raw").stdout


@pytest.mark.feature("compress.benchmark", "compress.formats", "compress.languages", "compress.latency")
def test_a_project_is_measured_for_a_terminal_as_markdown_and_as_json(ctx, shop: Path):
    told = json.loads(ctx("benchmark", shop, "--runs", "2", "--json").stdout)
    printed = ctx("benchmark", shop, "--runs", "1").stdout
    assert ctx("benchmark", "run", shop, "--runs", "0").stdout.split("\n")[:2] == printed.split("\n")[:2]
    assert "| form | tokens |" in ctx("benchmark", "report", shop, "--runs", "0").stdout
    page = ctx("benchmark", shop, "--runs", "1", "--format", "markdown").stdout

    assert [row["path"] for row in told["files"]] == ["cart.py", "data.json", "use.ts"]
    assert {row["language"]: row["best"] for row in told["languages"]} == {
        "json": "aggressive",
        "python": "map",
        "typescript": "signatures",
    }
    for form in told["forms"]:
        of_files = [next(r for r in one["forms"] if r["form"] == form["form"]) for one in told["files"]]
        tokens = sum(one["tokens"] if row["tokens"] is None else row["tokens"] for one, row in zip(told["files"], of_files, strict=True))
        assert form["tokens"] == tokens
        assert form["saved"] == pytest.approx(1 - tokens / told["tokens"], abs=1e-4)
        assert form["saved_low"] <= form["saved"] + 1e-4
        assert form["saved"] <= form["saved_high"] + 1e-4
    (latency,) = {row["latency_us"]["runs"] for one in told["files"] for row in one["forms"] if row["latency_us"]}
    assert latency == 2
    assert all(
        row["latency_us"]["median"] <= row["latency_us"]["p95"] for one in told["files"] for row in one["forms"] if row["latency_us"]
    )
    assert json.loads(ctx("benchmark", shop, "--runs", "0", "--format", "json").stdout)["files"][0]["forms"][1]["latency_us"] is None
    assert "95 % interval" in printed
    assert "best form" in printed
    assert page.startswith(f"# Benchmark: {shop}\n\n3 files of 3 (seed 0), ")
    assert (
        "| form | tokens | saved | 95 % interval | median file | quality | median | p95 |\n|---|---|---|---|---|---|---|---|\n| raw |"
        in page
    )


@pytest.mark.feature("cli.json-everywhere")
def test_the_printed_objects_have_the_documented_keys(ctx, shop: Path):
    for words in (
        ["compress", shop],
        ["compress", shop, "--form", "map"],
        ["analyze", shop / "cart.py"],
        ["benchmark", shop, "--runs", "0"],
    ):
        told = json.loads(ctx(*words, "--json").stdout)
        keys, inner = documented()[f"ctx {words[0]}"]
        assert [key for key in keys if key not in told] == []
        for key, wanted in inner.items():
            for row in told[key]:
                assert [k for k in wanted if k not in row] == [], (words, key)


@pytest.mark.feature("compress.benchmark")
def test_one_file_is_measured_alone(ctx, shop: Path):
    told = json.loads(ctx("benchmark", shop / "cart.py", "--runs", "1", "--json").stdout)
    printed = ctx("benchmark", shop / "cart.py", "--runs", "1").stdout

    assert [one["path"] for one in told["files"]] == [str(shop / "cart.py")]
    assert printed.splitlines()[0].startswith(f"Benchmark: {shop / 'cart.py'} (9 lines, ")
    assert f"Best: {told['files'][0]['recommended']} (" in printed


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Ctx:
    """A store of one session: a file read twice, another read once, one read and edited; then a compaction and one more read."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "nobody").mkdir()
    main = ClaudeHome(folder / "claude").session(cwd=FOLDER)
    main.prompt("look at the shop")
    readme = "".join(f"{n:6}→{line}\n" for n, line in enumerate(["# Shop", "", *["It sells things of many kinds."] * 40], 1))

    def read(call: str, path: str, shown: str, context: int) -> None:
        main.answer(tool_use(call, "Read", file_path=path), usages=[usage(context)])
        main.result(call, shown)

    read("toolu_1", f"{FOLDER}/cart.py", NUMBERED, 5000)
    read("toolu_2", f"{FOLDER}/cart.py", NUMBERED, 5200)
    read("toolu_3", f"{FOLDER}/README.md", readme, 5400)
    main.answer(text("I have seen it."), usages=[usage(6000)])
    main.compact(6000, "The shop was looked at.")
    main.prompt("go on")
    read("toolu_4", f"{FOLDER}/README.md", readme, 4000)
    main.answer(text("Done."), usages=[usage(4600)])
    main.save()
    ctx = Ctx(folder, environment(folder))
    ctx("sync")
    return ctx


@pytest.fixture
def invoke(past: Ctx, monkeypatch: pytest.MonkeyPatch):
    for name, value in past.environ.items():
        monkeypatch.setenv(name, value)
    return lambda *words: CliRunner().invoke(cli, list(words))


@pytest.mark.feature("compress.from-capture")
def test_a_checkpoint_is_made_from_what_a_session_captured_at_any_moment_without_the_repository(invoke):
    before = json.loads(invoke("compress", "--session", f"claude:{SESSION}", "--at", "before-compaction:1", "--json").stdout)
    after = json.loads(invoke("compress", "--session", SESSION[:8], "--at", "after-compaction:1", "--json").stdout)
    end = invoke("compress", "--session", f"claude/{SESSION}").stdout

    assert [(one["path"], one["lines"]) for one in before["files"]] == [(f"{FOLDER}/cart.py", 9), (f"{FOLDER}/README.md", 42)]
    assert before["files"][0]["signatures"] == ["const pub TOKEN:string @L3", "fn pub total(prices:dict[str, int]) → int @L6-9"]
    assert (before["session"]["reads"], before["session"]["hits"]) == (3, 1)
    assert "STATS: 3 reads, 1 hit (33%)" in before["text"]
    assert after["files"] == []
    assert "F1 /home/dev/shop/README.md [42L]: # Shop" in end
    assert "cart.py" not in end


@pytest.mark.feature("compress.from-capture")
def test_captured_files_come_in_any_form_and_paths_do_not_go_with_a_session(invoke):
    told = json.loads(
        invoke("compress", "--session", f"claude:{SESSION}", "--at", "before-compaction:1", "--form", "signatures", "--json").stdout
    )

    assert told["files"][0]["text"].splitlines() == [
        "const pub TOKEN:string @L3",
        "fn pub total(prices:dict[str, int]) → int @L6-9 — Return the sum.",
    ]
    assert invoke("compress", "cart.py", "--session", "x").exit_code == 2
    assert invoke("compress", "--session", "claude:nope").exit_code == 1


@pytest.mark.feature("compress.replay")
def test_a_replay_tells_certain_likely_and_upper_bounds(invoke):
    told = json.loads(invoke("benchmark", "--session", f"claude:{SESSION}", "--json").stdout)
    (one,) = told["sessions"]
    certain, likely, upper = one["bounds"]

    assert (one["reads"], one["billed_tokens"]) == (4, 5000 + 5200 + 5400 + 6000 + 4000 + 4600)
    # the second read of cart.py brought nothing new, and two calls were sent it before the compaction
    from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

    whole = tokenizer_from_name("o200k_base").count_tokens(NUMBERED).count
    assert (certain["reads"], certain["tokens"], certain["carried_tokens"]) == (1, whole - 20, 2 * (whole - 20))
    # the README was read twice, so that the first look at it was not enough
    assert likely["reads"] >= certain["reads"]
    assert upper["reads"] > certain["reads"]
    assert certain["tokens"] <= likely["tokens"] <= upper["tokens"] <= one["delivered_tokens"]
    assert upper["carried_tokens"] <= one["billed_tokens"]
    assert {key: told[key] for key in ("reads", "delivered_tokens", "billed_tokens", "bounds")} == {
        key: one[key] for key in ("reads", "delivered_tokens", "billed_tokens", "bounds")
    }
    printed = invoke("benchmark", "--replay", "5").stdout
    assert [line.split()[0] for line in printed.splitlines()[4:7]] == ["certain", "likely", "upper"]
    assert f"claude {SESSION}" in printed
