"""Output of commands in fewer tokens: failures as they stand, passes counted, the whole kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.compression import failure_lines, kept_outputs, output_filters, shell_output
from ctx_pipeline.compression.compress import counting
from ctx_pipeline.compression.large_output import MOST_NOTED, bounded
from ctx_pipeline.compression.output_filters import logs
from ctx_pipeline.compression.shell_output import kind_of, shorten
from ctx_pipeline.compression.shown_lines import ShownLines
from ctx_pipeline.errors import UnknownName, UsageError

KEY = "sk-ant-api03-" + "a1B2" * 10
FAILURE = """________________________ test_total ________________________

    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4
E        +  where 3 = total([1, 2])

tests/test_cart.py:12: AssertionError
"""
PYTEST = (
    "============ test session starts ============\n"
    + "".join(f"tests/test_{n}.py::test_{n} PASSED [ {n}%]\n" for n in range(60))
    + "tests/test_cart.py::test_total FAILED [ 99%]\n"
    + FAILURE
    + "1 failed, 60 passed in 1.2s\n"
)


def count(text: str) -> int:
    return counting().count_tokens(text).count


@pytest.fixture
def short(chosen):
    def made(command: str, output: str, **more):
        return shorten(command, output, count=count, settings=chosen, **more)

    return made


@pytest.mark.feature("compression.shell-output")
def test_failures_stay_word_for_word_and_passes_are_a_count(short, chosen):
    told = short("pytest -v", PYTEST, exit_status=1)

    assert FAILURE in told.text
    assert "[60 lines of passes]" in told.text
    assert "1 failed, 60 passed in 1.2s" in told.text
    assert "test_7 PASSED" not in told.text
    assert told.tokens == count(told.text) < 0.3 * told.raw_tokens == 0.3 * count(PYTEST)
    assert told.text.endswith(f"[ctx_recall {told.handle}: exit 1, whole of {PYTEST.count(chr(10))} lines]")
    again = kept_outputs.recall(told.handle, chosen)
    assert again.text == PYTEST
    assert "test_7 PASSED" in kept_outputs.recall(told.handle, chosen, pattern="test_7 passed").text


def many(line: str, times: int = 20) -> str:
    """Return lines of one form; ``{n}`` counts."""
    return "".join(line.replace("{n}", str(n)) for n in range(times))


COMMIT = (
    "commit 0123456789abcdef0123456789abcdef01234567\nAuthor: Sam Doe <sam@example.com>\n"
    "Date:   Mon Mar 2 10:00:00 2026 +0000\n\n    Add it\n\n"
)
GO_FAILURE = "--- FAIL: TestB (0.1s)\n    b_test.go:7: got 1"
RUST_ERROR = "error[E0425]: cannot find value `x`\n --> src/main.rs:3:5"
ITEMS = json.dumps([{"identifier": n, "description": f"item {n}"} for n in range(20)], indent=4)
KINDS = [
    ("go test ./... -v", "test", many("=== RUN   TestA\n--- PASS: TestA (0.0s)\n") + f"{GO_FAILURE}\nFAIL\n", [GO_FAILURE], "TestA"),
    ("cargo build", "build", many("   Compiling serde v1.{n}\n") + f"{RUST_ERROR}\n", [RUST_ERROR], "serde"),
    (
        "npm install",
        "install",
        many("npm http fetch GET 200 https://r/x\n") + "added 120 packages in 3s\n",
        ["added 120 packages"],
        "npm http",
    ),
    (
        "git fetch",
        "git",
        many("remote: Counting objects: {n}% ({n}/9)\n") + "   1a2..3b4  main -> origin/main\n",
        ["main -> origin"],
        "Counting",
    ),
    ("git log -2", "git", COMMIT * 6, ["0123456789ab Sam Doe Mon Mar 2", "    Add it"], "sam@example.com"),
    (
        "rg total",
        "search",
        many("src/shop/basket/totals.py:{n}:total = {n}\n"),
        ["src/shop/basket/totals.py\n 0:total = 0\n 1:total = 1"],
        "\0",
    ),
    ("ls -la", "list", many("-rw-r--r--  1 sam  staff  90{n} Mar  2 10:00 file_{n}.py\n"), ["file_3.py 903"], "staff"),
    (
        "docker pull x",
        "container",
        many("abcdef01234{n}: Pull complete\n", 9) + "Status: newer image\n",
        ["Status: newer"],
        "Pull complete",
    ),
    ("curl -s api/items", "json", ITEMS, ['7,"item 7"', "identifier,description"], "    "),
    ("gh run view 1 --log", "log", many("build\tTests\t2026-07-02T10:00:01.12Z line {n}\n"), ["build / Tests:", "line 7"], "2026-07-02T10"),
]


@pytest.mark.feature("compression.shell-output")
@pytest.mark.parametrize("case", KINDS, ids=lambda case: case[0])
def test_each_kind_of_command_has_its_own_way(short, case):
    command, kind, output, kept, gone = case
    told = short(command, output)

    assert told.kind == kind
    assert told.tokens < told.raw_tokens
    assert all(text in told.text for text in kept), told.text
    assert gone not in told.text, told.text


@pytest.mark.feature("compression.never-larger")
@pytest.mark.parametrize("output", ["", "ok\n", "3 passed\n", "a b\nc d\n", '{"a":1}', PYTEST[:200]])
@pytest.mark.parametrize("command", ["pytest -q", "git status", "ls", "cat x.json", "unknown-program"])
def test_what_would_not_be_smaller_comes_back_as_it_was(short, command, output):
    told = short(command, output)

    assert told.tokens <= told.raw_tokens
    if told.tokens == told.raw_tokens:
        assert (told.text, told.handle) == (output, "")


@pytest.mark.feature("compression.shell-output")
def test_the_text_of_files_and_of_hunks_stays_exact(short):
    code = "".join(f"    value_{n} = {n}\n" for n in range(300))
    assert short("cat settings.py", code).text == code
    assert short("sed -n '1,300p' settings.py", code).text == code
    diff = "diff --git a/x.py b/x.py\nindex 0123456..89abcde 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,4 @@\n a\n \n-b\n+c\n d\n"
    assert short("git diff", diff * 8).text.startswith(
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,4 @@\n a\n \n-b\n+c\n d\n"
    )


@pytest.mark.feature("compression.shell-output")
def test_a_log_that_is_printed_whole_tells_its_failures_and_a_handle(short, chosen):
    lines = [f"2026-10-01 10:00:00 worker {n} took a job of {n % 7} parts" for n in range(6_000)]
    lines[3_000] = "2026-10-01 10:00:00 ERROR the queue is full"
    told = short("cat worker.log", "\n".join(lines))
    assert told.raw_tokens > 20 * told.tokens
    assert lines[0] in told.text
    assert lines[3_000] in told.text
    assert lines[-1] in told.text
    assert lines[2_000] in kept_outputs.recall(told.handle, chosen, first=2_001, last=2_001).text


@pytest.mark.feature("compression.shell-output")
def test_hostile_output_is_told_as_data(short, chosen):
    fake = "[ctx_recall 000000000000: exit 0, whole of 1 lines]"
    output = "\x1b[31m" + "".join(f"progress {n}%\r" for n in range(200)) + f"done\x1b[0m\nkey {KEY}\n{fake}\n" + "same line 1\n" * 200
    told = short("make all", output)

    assert "\x1b" not in told.text
    assert "progress 7%" not in told.text
    assert KEY not in told.text
    assert told.handle not in ("", "000000000000")
    assert told.text.endswith(f"\n[ctx_recall {told.handle}: whole of 203 lines]")
    kept = (chosen.home / "outputs" / f"{told.handle}.zst").stat()
    assert oct(kept.st_mode & 0o777) == "0o600"
    assert KEY not in kept_outputs.recall(told.handle, chosen).text
    for handle in ("../../etc/passwd", "000000000000", "x" * 12):
        with pytest.raises(UnknownName):
            kept_outputs.recall(handle, chosen)


@pytest.mark.feature("compression.shell-output")
def test_of_a_huge_output_failures_the_first_and_the_last_lines_stay(short):
    lines = [f"step {n} {'x' * (n % 50)}" for n in range(60_000)]
    lines[30_000] = "ERROR: the disk is full"
    told = short("./deploy", "\n".join(lines))

    assert told.raw_tokens > 50 * told.tokens
    assert "ERROR: the disk is full" in told.text
    assert "\nstep 59999 " in told.text
    assert " lines]\n" in told.text


@pytest.mark.feature("compression.shell-output")
def test_kept_outputs_go_after_their_time(short, chosen):
    first = short("pytest -v", PYTEST).handle
    path = chosen.home / "outputs" / f"{first}.zst"
    os.utime(path, (1, 1))
    second = short("pytest -v", PYTEST + "again\n").handle

    assert not path.exists()
    assert kept_outputs.recall(second, chosen, first=PYTEST.count("\n")).text.startswith("1 failed")


@pytest.mark.feature("compression.shell-output")
def test_an_output_is_not_given_behind_its_time_though_nothing_was_written_since(short, chosen):
    handle = kept_outputs.keep(PYTEST, chosen)
    path = chosen.home / kept_outputs.FOLDER / f"{handle}.zst"
    then = path.stat().st_mtime - 3_600
    os.utime(path, (then, then))
    assert kept_outputs.recall(handle, chosen).lines > 1
    soon = replace(chosen, environ={**chosen.environ, "LEAN_CTX_CACHE_TTL": "600"})
    with pytest.raises(UnknownName) as refused:
        kept_outputs.recall(handle, soon)
    assert handle not in str(refused.value.hint)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cd app && npm test", "test"),
        ("FOO=1 ruff check .", "lint"),
        ("git diff | head", "git"),
        ("cat a | grep b", "search"),
        ("curl -s http://x/all | jq .", "text"),
        ("docker build -t web .", "container"),
        ("", "text"),
    ],
)
def test_the_kind_is_that_of_the_check_or_of_the_last_program(command, kind):
    assert kind_of(command) == kind


def ctx(environ, *words: str) -> subprocess.CompletedProcess[bytes]:
    env = {**environ, "PATH": os.environ["PATH"], "SHELL": "/bin/sh"}
    return subprocess.run([sys.executable, "-m", "ctx_pipeline", *words], env=env, capture_output=True, timeout=200, check=False)


@pytest.mark.feature("compression.run-command")
def test_a_command_is_run_with_its_status_and_its_whole_output_is_read_again(environ):
    script = "for n in $(seq 60); do echo tests/test_$n.py::test PASSED; done; echo '1 failed'; exit 3"
    done = ctx(environ, "run-command", "--", "sh", "-c", f"{script} # pytest")

    assert done.returncode == 3
    told = done.stdout.decode()
    assert "1 failed" in told
    handle = told.rsplit("ctx recall ", 1)[1].partition(":")[0]
    again = ctx(environ, "recall", handle)
    assert again.stdout.decode().count("PASSED") == 60
    for words in (("--raw", "--", "printf", "a\\0b"), ("--", "printf", "a\\0b")):
        assert ctx(environ, "run-command", *words).stdout == b"a\0b"
    assert ctx(environ, "run-command", "--", "printf", "caf\\351\\r\\nb\\r\\n").stdout == b"caf\xe9\r\nb\r\n"
    assert ctx(environ, "run-command", "--", "no-such-program").returncode == 127
    assert ctx(environ, "run-command", "--", "exit 4; true").returncode == 4


@pytest.mark.feature("compression.run-command")
def test_who_is_ended_ends_the_command_and_tells_what_it_printed(environ, tmp_path):
    env = {**environ, "PATH": os.environ["PATH"], "SHELL": "/bin/sh"}
    words = ["run-command", "--", f"echo begun; touch {tmp_path}/there; exec sleep 60"]
    running = subprocess.Popen([sys.executable, "-m", "ctx_pipeline", *words], env=env, stdout=subprocess.PIPE)
    while not (tmp_path / "there").exists():
        assert running.poll() is None
        time.sleep(0.02)
    running.terminate()
    assert running.communicate(timeout=50) == (b"begun\n", None)
    assert running.returncode == 128 + signal.SIGTERM


BUILD_LINES = many("[lint:clippy]     Checking crate-{n} v1.{n}.0\n")
PUSH = many(" create mode 100644 src/part_{n}.py\n")


ANSWERS = [
    ('sqlite3 app.db "select id, total from orders"', many("{n}|{n}7.50\n", 100)),
    ("curl -s http://x/health-all", many("node-{n} HTTP 200\n", 60)),
    ("docker logs web", many("10.0.0.{n} request {n} took {n} ms\n", 60)),
    ("wc -l src/*.py", many("  1{n} src/mod_{n}.py\n", 40)),
    ("python eval.py", many("fold {n}: accuracy 0.8{n}\n")),
    ("python train.py", many("Processing part {n}/20: loss 0.5{n}\n")),
    ("git tag", many("v1.{n}.0\n", 50)),
    ("git branch", many("  release-{n}\n", 50)),
    ("cargo bench", many("test bench_{n} ... bench:       {n},012 ns/iter (+/- {n})\n")),
    ("psql -c 'select share, name from t'", many(" {n}% | name {n}\n", 60)),
    ("pytest --cov", many("src/build_{n}.py      1{n}     {n}    {n}%\n", 40)),
    ("go test -bench .", many("BenchmarkA{n}-8   \t 1{n}\t      {n}5 ns/op\n")),
    ("go test -cover ./...", many("ok  \tx/y{n}\t0.{n}s\tcoverage: {n}.0% of statements\n")),
    ("kubectl get pods", many("web-{n}  1/1  Running  {n}  {n}d\n", 40)),
    ("aws s3 ls --human", many("data/part-{n}.csv   {n}.21 kB\n")),
    ("ctest", "100% tests passed, 0 tests failed out of 30\n" * 2),
]


@pytest.mark.feature("compression.numbers-stay")
def test_what_a_hook_of_git_built_is_progress_and_in_a_listing_it_is_not(short):
    built = many("dist/assets/part-{n}.js   {n}.21 kB\n")

    assert "part-7" not in short("git push", f"{built}   1a2..3b4  main -> origin/main\n").text
    assert "part-7.js   7.21 kB" in short("npm run build", built).text


@pytest.mark.feature("compression.numbers-stay")
@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case[0])
def test_lines_that_differ_in_numbers_alone_stay(short, case):
    command, output = case

    assert [line for line in output.split("\n") if line not in short(command, output).text] == []


@pytest.mark.feature("compression.numbers-stay")
@pytest.mark.parametrize(
    "line",
    [
        "Downloading model.bin: {n}% {n}.5 MB\n",
        "[api] Rendering {n} of 20\n",
        "db.main: Still creating... [{n}0s elapsed]\n",
        "tests/test_{n}.py::test_it PASSED\n",
        "waiting for the service\n",
    ],
)
def test_progress_that_counts_and_equal_lines_are_said_once(short, line):
    told = short("./deploy", f"{many(line)}done\n")

    assert told.text.startswith(f"{line.replace('{n}', '0')}[19 more like it]\ndone\n")


@pytest.mark.feature("compression.numbers-stay")
@pytest.mark.parametrize(
    "line",
    [
        "Fetching 7 of 20: HTTP 503",
        'Fetching 7 of 20: "status": 500',
        'Fetching 7 of 20: "GET /a HTTP/1.1" 502 12',
        "Fetching 7 of 20: 404 Not Found",
        "Fetching 7 of 20: 0 errors, 2 failed",
        "Fetching 7 of 20: rejected",
    ],
)
@pytest.mark.parametrize("command", ["./deploy", "npm install", "gh run view 7 --log"])
def test_a_line_with_an_error_word_or_a_failed_status_is_never_folded(short, command, line):
    output = many("Fetching {n} of 20: HTTP 200\n") + f"{line}\n" * 2 + many("Fetching {n} of 20: HTTP 200\n")

    assert short(command, output).text.count(line) == 2


@pytest.mark.feature("compression.shell-output")
@pytest.mark.parametrize("command", ["make everything", "git push", "mise run lint-fix", "gh run view 7 --log"])
def test_progress_is_counted_whatever_command_printed_it(short, command):
    told = short(command, f"begin\n{BUILD_LINES}{PUSH}error: no space left\n")

    assert "begin" in told.text
    assert "error: no space left" in told.text
    assert "crate-7" not in told.text
    assert "part_7" not in told.text
    assert "lines of progress]" in told.text
    assert told.tokens < 0.5 * told.raw_tokens


@pytest.mark.feature("compression.shell-output")
def test_of_very_many_hits_each_file_tells_its_first_ones_and_the_lines_of_the_rest(short, chosen):
    lines = [f"src/a.py:{n}:        total = order_{n}.total(currency)" for n in range(1, 71)] + ["src/b.py:3:only = total"]

    told = short("rg -n total src", "\n".join(lines) + "\n")

    rows = told.text.split("\n")
    assert rows[:2] == ["src/a.py", " 1:total = order_1.total(currency)"]
    assert rows[7] == f" [64 more: {' '.join(map(str, range(7, 71)))}]"
    assert rows[8:10] == ["src/b.py", " 3:only = total"]
    assert kept_outputs.recall(told.handle, chosen, first=70, last=70).text == lines[69]
    few = short("rg -n total src", "\n".join(lines[:20]) + "\n")
    assert few.handle == ""
    assert " 20:        total = order_20.total(currency)" in few.text


@pytest.mark.feature("compression.shown-lines")
def test_what_the_same_window_was_shown_is_noted_and_what_changed_is_said(short, chosen):
    text = "".join(f"def part_{n}():\n    return {n}\n\n" for n in range(30))
    changed = text.replace("return 17\n", "return 18\n")
    shown = ShownLines()

    first = short("cat parts.py", text, shown=shown)
    second = short("cat parts.py", text, shown=shown)
    third = short("cat parts.py", changed, shown=shown)
    part = short("sed -n 10,40p parts.py", "\n".join(text.split("\n")[9:40]) + "\n", shown=shown)

    assert (first.kind, first.text) == ("raw", text)
    assert second.text.startswith("[91 lines as shown before]\n[ctx_recall ")
    assert kept_outputs.recall(second.handle, chosen).text == text
    assert "    return 18" in third.text
    assert "return 3\n" not in third.text
    assert part.tokens < 0.4 * part.raw_tokens
    assert short("cat parts.py", text).kind == "raw"


@pytest.mark.feature("compression.shown-lines")
def test_lines_in_another_order_and_short_runs_are_said_again(short):
    shown = ShownLines()
    short("cat a.py", "".join(f"value_number_{n} = compute_the_value_of({n})\n" for n in range(20)), shown=shown)

    mixed = "".join(f"value_number_{n} = compute_the_value_of({n})\n" for n in (0, 7, 3, 12, 5, 9, 1, 15, 2))
    few = "".join(f"value_number_{n} = compute_the_value_of({n})\n" for n in (4, 5, 6, 7))

    assert short("cat b.py", mixed, shown=shown).text == mixed
    assert short("cat c.py", few, shown=shown).text == few


@pytest.mark.feature("compression.shell-output")
def test_long_json_says_its_keys_and_what_rows_have_in_common_once_and_cuts_texts_alone(short):
    runs = [
        {"conclusion": "success", "databaseId": 28950847043 + n, "url": f"https://github.com/acme/shop/actions/runs/{28950847043 + n}"}
        for n in range(4)
    ]
    output = "Output:\n" + json.dumps({"body": "word " * 500, "runs": runs, "files": [{"path": "src/registry.rs"}]}) + "\n"
    told = short("gh pr view 7 --json body,runs,files", output)

    lines = told.text.split("\n")
    assert lines[0] == "Output:"
    assert lines[1] == f'{{"body":"{("word " * 500)[:400]}… [2,100 characters]"'
    assert lines[2] == '"runs":[4 objects] conclusion="success",databaseId,url="https://github.com/acme/shop/actions/runs/…'
    assert lines[3:7] == [f"{28950847043 + n},…{28950847043 + n}" for n in range(4)]
    assert lines[7] == '"files":[{"path":"src/registry.rs"}]}'
    assert told.handle


@pytest.mark.feature("compression.shell-output")
def test_a_run_that_failed_is_told_by_its_number_in_long_json_that_is_whole_and_in_such_that_was_cut(short):
    jobs = [
        {"conclusion": "failure" if n == 50 else "success", "databaseId": 87715021500 + n, "steps": {"name": f"step {n}", "number": n}}
        for n in range(60)
    ]
    whole = json.dumps({"jobs": jobs})
    told = short("gh run view 7 --json jobs", f"Output:\n{whole}\n").text.split("\n")
    broken = short("gh run view 7 --json jobs", f"Output:\n{whole[:-90]}…9 tokens truncated…\n").text

    assert told[1] == '{"jobs":[60 objects] conclusion,databaseId,steps.name,steps.number'
    assert told[2 + 50] == '"failure",87715021550,"step 50",50'
    assert '"conclusion": "failure", "databaseId": 87715021550' in broken
    assert len(broken) < 2_600 < len(whole)


@pytest.mark.feature("compression.shell-output")
def test_what_most_cells_of_a_column_begin_with_stands_in_its_head_and_another_cell_is_whole(short):
    checks = [{"name": f"e2e-{n}", "link": f"https://github.com/acme/shop/job/{n * 7919}"} for n in range(1, 30)]
    checks.append({"name": "scan", "link": "https://socket.example/"})
    told = short("gh pr view 7 --json checks", f"Output:\n{json.dumps({'checks': checks})}\n").text.split("\n")

    assert told[1] == '{"checks":[30 objects] name,link="https://github.com/acme/shop/job/…'
    assert told[2] == '"e2e-1",…7919'
    assert told[31] == '"scan","https://socket.example/"}'


@pytest.mark.feature("compression.shell-output")
def test_numbered_lines_of_a_log_say_its_job_once_and_keep_their_numbers(short):
    stamp = "2026-07-02T09:18:02.6955381Z"
    log = "".join(f"{2400 + n}{':' if n == 150 else '-'}lint\tRun deny\t{stamp} advisory {n} of the report\n" for n in range(200))
    told = short("gh run view 7 --log | rg -n -C 150 report", log).text.split("\n")

    assert told[0] == "lint / Run deny:"
    assert told[1:201] == [f"{2400 + n}{':' if n == 150 else '-'}advisory {n} of the report" for n in range(200)]


@pytest.mark.feature("compression.shell-output")
def test_of_many_hits_that_fit_no_file_and_no_line_number_is_left_out(short):
    hits = [(f"src/part_{n // 10}.py", n * 3) for n in range(600)]
    told = short("rg -n total src", "".join(f"{path}:{line}:    total = add(total, {line})\n" for path, line in hits))

    last = told.text.split("\n")[:-1]
    at = last.index("src/part_59.py")
    assert last[at : at + 3] == [
        "src/part_59.py",
        " 1770:total = add(total, 1770)",
        f" [9 more: {' '.join(str(n * 3) for n in range(591, 600))}]",
    ]
    assert sum(line.startswith("src/part_") for line in last) == 60


@pytest.mark.feature("compression.shell-output")
def test_of_many_hits_the_rest_of_a_file_is_told_with_the_names_that_it_declares(short):
    lines = [f"src/cart.rs:{n}:    pub fn total_of_{n}(&self, limit: usize) -> Result<Total> {{ // of a cart" for n in range(1, 69)]
    told = short("rg -n 'fn .*Result' src", "\n".join([*lines, "src/cart.rs:70:    // each fn that gives a Result is told"]) + "\n")

    rest = told.text.split("\n")[7]
    assert rest.startswith(" [63 more: 7 total_of_7 8 total_of_8 ")
    assert rest.endswith(" 68 total_of_68 70]")


@pytest.mark.feature("compression.shell-output")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"def {'a' * 61}(self):", f" {'a' * 61}"),
        (f"def {'a' * 62}(self):", ""),
        ("pub trait Priced<T> {", " Priced"),
        ("class Order extends Base {", " Order"),
        ("class Order", " Order"),
        ("func Total[T any](o T) int {", " Total"),
        ("the interface between class Foobar and others", ""),
        ("interface between class Foobar: both", " Foobar"),
        ("# the function that gives a total", ""),
    ],
)
def test_of_hits_a_declared_name_is_told_whole_and_no_word_of_prose(short, text: str, name: str):
    lines = [*(f"src/cart.py:{n}:    total = {n}" for n in range(1, 69)), f"src/cart.py:70:{text}"]

    assert short("rg -n total src", "\n".join(lines) + "\n").text.split("\n")[7].endswith(f" 68 70{name}]")


@pytest.mark.feature("compression.shell-output")
def test_packages_of_go_that_passed_are_named_once_below_the_path_that_files_import(short):
    def ran(names: list[str]) -> str:
        return short("go test ./...", "".join(f"ok  \tacme.io/shop/{name}\t0.{n}s\n" for n, name in enumerate(names)) + "FAIL\n").text

    assert ran(["cart", "cart/total", "order", "stock"]).startswith(
        "[4 lines of passes, in acme.io/shop/: cart cart/total order stock]\nFAIL"
    )
    assert " p10 p11 and 18 more]\n" in ran([f"p{n}" for n in range(30)])
    assert ran(["cart"] * 5).startswith("[5 lines of passes]\n")
    assert ran([".", "cart/", "order//stock", "cart"]).startswith("[4 lines of passes, in acme.io/shop/: . cart order/stock]\nFAIL")
    mixed = "ok  \tacme.io/shop/cart\t0.1s\nok  \tother.org/tool\t0.1s\n" * 4
    assert short("go test ./...", mixed).text.startswith("[8 lines of passes]")


@pytest.mark.feature("compression.shell-output")
def test_what_did_not_run_or_only_started_is_no_pass(short):
    ran = "".join(f"=== RUN   Test{n}\n--- PASS: Test{n} (0.00s)\n" for n in range(9))
    bare = "?   \tacme.io/shop/docs\t[no test files]\nok  \tacme.io/shop/api\t0.1s [no tests to run]\n"
    assert short("go test -v ./...", f"{ran}{bare}FAIL\n").text.startswith("[20 lines of passes, 9 of starts, 2 without tests]\nFAIL")
    told = short("cargo test", "".join(f"test cart::t{n} ... ok\n" for n in range(40)) + "test cart::slow ... ignored\n").text
    assert told.startswith("[40 lines of passes]\ntest cart::slow ... ignored\n")


@pytest.mark.feature("compression.shell-output")
def test_a_file_that_is_printed_beside_a_log_stays_whole_and_one_behind_a_pipe_is_no_file(short):
    text = "".join(f"export NAME_{n}=of-the-file-{n % 7}{n}\n" for n in range(400))
    commits = "".join(f"{n:07x} Round the tax {n}\n" for n in range(9))
    beside = short("sed -n 1,400p pgo.bash && git log --oneline -9", text + commits).text
    assert text in beside
    piped = short("git log --format=%s | sed s/a/b/", text + commits).text
    assert piped.count("\n") < 200
    assert text[:900] in piped


@pytest.mark.feature("compression.shell-output")
def test_a_single_pass_stays_where_its_count_says_no_less(short):
    def between(line: str) -> str:
        passed = "".join(f"test_a.py::t{n} PASSED\n" for n in range(40))
        return short("pytest -v", f"{passed}test_b.py::u FAILED\n{line}\ntest_c.py::v FAILED\n").text

    assert "FAILED\nb.py::w PASSED\ntest_c" in between("b.py::w PASSED")
    assert "FAILED\n[1 line of passes]\ntest_c" in between("test_b.py::test_what_is_long_is_counted PASSED")


@pytest.mark.feature("compression.shell-output")
def test_blank_lines_that_are_not_told_are_in_what_is_kept(short, chosen):
    output = "".join(f"test cart::t{n} ... ok\n" for n in range(40)) + "failures:\n\n\n\n    cart::sum\n"
    told = short("cargo test", output)
    assert "failures:\n\n    cart::sum" in told.text
    assert told.text.endswith("whole of 45 lines]")
    assert kept_outputs.recall(told.handle, chosen).text == output
    with pytest.raises(UsageError, match="before the first one"):
        kept_outputs.recall(told.handle, chosen, first=3, last=2)


@pytest.mark.feature("compression.shell-output")
def test_long_lines_of_json_keep_what_was_looked_for_what_failed_and_what_an_edit_follows(short):
    line = json.dumps({"at": "2026-03-01", "body": "x" * 300, "more": list(range(40)), "error": "connect ECONNREFUSED"})
    assert 400 < len(line) < 1_000
    assert "ECONNREFUSED" in short("grep ECONNREFUSED app.jsonl", f"{line}\n" * 30).text
    assert "ECONNREFUSED" in short("kubectl logs pod", f"{line}\n" * 30).text
    diff = f"@@ -1,3 +1,3 @@\n {line}\n-a\n+b\n"
    assert f" {line}\n" in short("git diff", diff).text


@pytest.mark.feature("compression.shell-output")
def test_a_word_in_a_line_of_any_length_is_found_with_what_stands_around_it(short, chosen):
    text = json.dumps({f"k{n}": "y" * 1_500 for n in range(100)})
    handle = kept_outputs.handle_of(text)
    kept_outputs.keep(text, chosen)
    assert '"k59": "y' in kept_outputs.recall(handle, chosen, pattern='"k59"').text
    assert "characters more: ask for a word in them]" in kept_outputs.recall(handle, chosen).text


@pytest.mark.feature("compression.shell-output")
def test_numbered_lines_of_a_file_lose_the_blanks_before_the_number_and_nothing_else(short):
    lines = [f"    x = {n}  # kept" for n in range(1, 60)]
    told = short("nl -ba src/a.py | sed -n '1,59p'", "".join(f"{n:6}\t{line}\n" for n, line in enumerate(lines, 1)))

    assert told.text == "".join(f"{n}\t{line}\n" for n, line in enumerate(lines, 1))
    assert told.handle == ""
    plain = "".join(f"{n:6}\t{n}\n" for n in range(60))
    assert short("cat table.tsv", plain).text == plain


@pytest.mark.feature("compression.large-output")
def test_of_an_output_too_large_to_keep_the_handle_says_how_much_is_kept_and_the_middle_tells_its_first_failures(chosen, monkeypatch):
    monkeypatch.setattr(shell_output, "HALF", 100_000)
    lines = [f"step {n} {'x' * 50}" for n in range(30_000)]
    lines[15_000] = f"ERROR: the disk is full, key {KEY}"
    lines[15_007] = "worker 3: HTTP 503"
    lines[15_008] = "worker 4: HTTP 503"
    lines[15_009] = "warning: slow"
    told = shorten("./deploy", "\n".join(lines), count=len, settings=chosen).text.split("\n")

    match = re.fullmatch(r"\[ctx_recall ([0-9a-f]{12}): first (\d+) and last (\d+) of 30000 lines\]", told[-1])
    assert match is not None
    first, last = int(match[2]), int(match[3])
    between = f" bytes in the middle of this output, lines {first + 1} to {30_000 - last}, are neither shown nor kept"
    assert told[-4].endswith(f"{between}; of these first tell of a failure:]")
    assert told[-3].startswith(" 15001: ERROR: the disk is full, key ")
    assert KEY not in told[-3]
    assert told[-2] == " 15008: worker 3: HTTP 503"
    assert not any(line.startswith("\\") for line in told)
    kept = [kept_outputs.recall(match[1], chosen, first=at, last=at).text for at in (first, first + 1)]
    assert kept == [lines[first - 1], lines[30_000 - last]]


@pytest.mark.feature("compression.large-output")
@pytest.mark.parametrize("size", [1, 7, 64, 4_000])
def test_a_middle_is_cut_between_lines_however_the_pieces_come_and_counts_every_byte(size):
    data = b"".join(b"line %d failed\n" % n if n == 50 else b"line %d\n" % n for n in range(100))
    kept, middle = bounded((data[n : n + size] for n in range(0, len(data), size)), half=100)

    assert middle is not None
    lines = kept.splitlines()
    assert lines[: middle.first - 1] == data.splitlines()[: middle.first - 1]
    assert lines[middle.first - 1 :] == data.splitlines()[middle.first - 1 + middle.lines :]
    assert (len(kept) + middle.size, len(lines) + middle.lines) == (len(data), 100)
    assert middle.noted == [(51, "line 50 failed")]
    assert bounded([data[:200]], half=100) == (data[:200], None)


@pytest.mark.feature("compression.large-output")
def test_the_failures_noted_of_a_middle_are_few_and_one_line_without_an_end_is_not_held():
    words = ["alpha", "beta", "gamma", "delta"]
    many_failed = "".join(f"{a} {b} {c} failed\n" for a in words for b in words for c in words)
    _, middle = bounded([f"begin\n{many_failed * 3}".encode()], half=10)
    _, long = bounded([b"x" * 50_000] * 40 + [b" fatal: gone "] + [b"y" * 50_000] * 40, half=60_000)

    assert middle is not None
    assert len(middle.noted) == MOST_NOTED
    assert long is not None
    assert [number for number, _ in long.noted] == [1]
    assert "fatal: gone" in long.noted[0][1]
    assert long.extent(1) == f"all but {long.size:,} bytes of 1 lines"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table as these programs print it: columns as wide as their widest cell, three blanks apart."""
    every = [heads, *rows]
    widths = [max(len(row[n]) for row in every) + 3 for n in range(len(heads))]
    return "".join("".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in every)


PODS = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
CONTAINERS = ["CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"]


def running(n: int, status: str = "Running", ready: str = "1/1", restarts: str = "0") -> list[str]:
    return [f"web-7d4b9c6f5-x{n:04}", ready, status, restarts, f"{n}d"]


def up(n: int, status: str = "Up 3 hours (healthy)") -> list[str]:
    return [f"{n:012x}", "registry.example.com/acme/web:1.2", '"docker-entrypoint.s…"', "3 hours ago", status, "", f"web_{n}"]


@pytest.mark.feature("compression.container-tables")
@pytest.mark.parametrize(
    ("command", "heads", "well", "bad"),
    [
        (
            "kubectl get pods -A",
            PODS,
            [running(n) for n in range(40)],
            [
                running(41, "CrashLoopBackOff", "0/1", "17"),
                running(42, ready="1/2"),
                running(43, restarts="3 (5m ago)"),
                running(44, "Completed", "0/1"),
                running(45, "Pending", "0/1"),
            ],
        ),
        (
            "docker ps -a",
            CONTAINERS,
            [up(n) for n in range(40)],
            [
                up(41, "Exited (1) 2 hours ago"),
                up(42, "Up 2 minutes (unhealthy)"),
                up(43, "Restarting (1) 3 seconds ago"),
                up(44, "Created"),
            ],
        ),
        (
            "kubectl get nodes",
            ["NAME", "STATUS", "ROLES", "AGE"],
            [[f"node-{n}", "Ready", "<none>", "1d"] for n in range(40)],
            [["node-40", "NotReady", "<none>", "1d"], ["node-41", "Ready,SchedulingDisabled", "<none>", "1d"]],
        ),
        (
            "kubectl get deployments",
            ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"],
            [[f"web-{n}", "3/3", "3", "3", "1d"] for n in range(40)],
            [["web-40", "2/3", "3", "2", "1d"], ["web-41", "0/0", "0", "0", "1d"]],
        ),
    ],
    ids=["pods", "containers", "nodes", "deployments"],
)
def test_rows_of_which_all_is_well_are_counted_and_the_others_stand_as_they_were_printed(short, command, heads, well, bad):
    printed = table(heads, [*well, *bad, *well[:3]])
    told = short(command, printed)
    rows = printed.splitlines()

    assert "[38 rows that run or are ready, without restarts]" in told.text
    assert [row for row in rows[41 : 41 + len(bad)] if row not in told.text.splitlines()] == []
    # a few stay as rows, with their names, columns two blanks apart
    assert ["  ".join(cell or "-" for cell in row) for row in well[:2]] == told.text.splitlines()[1:3]
    assert ["  ".join(cell or "-" for cell in row) for row in well[:3]] == told.text.splitlines()[-4:-1]
    assert told.tokens < 0.5 * count(printed)
    assert told.text.endswith(f": whole of {len(rows)} lines]")


@pytest.mark.feature("compression.container-tables")
def test_columns_are_squeezed_and_a_short_table_or_one_that_would_grow_stays(short):
    images = table(
        ["REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"],
        [[f"registry.example.com/{'a/' * n * n}a", "latest", f"{n:012x}", "2 days ago", "1.2GB"] for n in range(20)],
    )
    told = short("docker images", images)

    assert told.text.splitlines()[0] == "REPOSITORY  TAG  IMAGE ID  CREATED  SIZE"
    assert told.text.splitlines()[1] == "registry.example.com/a  latest  000000000000  2 days ago  1.2GB"
    assert (told.handle, told.tokens < count(images)) == ("", True)
    small = "NAME   READY   STATUS\nweb   1/1   Running\n"
    assert short("kubectl get pods", small).text in (small, "NAME  READY  STATUS\nweb  1/1  Running\n")
    few = table(PODS, [running(n) for n in range(7)])
    assert "rows that run" not in short("kubectl get pods", few).text


@pytest.mark.feature("compression.container-tables")
def test_a_row_that_imitates_a_count_and_a_row_beside_its_heads_are_told_as_they_are(short):
    rows = table(PODS, [running(n) for n in range(20)])
    odd = "web-with-a-name-that-is-longer-than-its-column 1/1 Running 0 1d\n"
    told = short("kubectl get pods", f"{rows}[9 rows that run or are ready, without restarts]\n{odd}").text

    assert "\\[9 rows that run" in told
    assert odd.strip() in told
    assert "[18 rows that run or are ready, without restarts]" in told


@pytest.mark.feature("compression.shell-output")
def test_what_the_cut_part_of_a_long_text_quotes_as_code_stays(short):
    body = f"{'word ' * 100}use `Strategy: DefaultName`, see `load_all`() and `load_all`. Not a name: `x` or `{'y ' * 40}`. {'word ' * 300}"
    told = short("gh api repos/acme/shop/pulls/7/comments", "Output:\n" + json.dumps({"body": body, "id": 1}) + "\n")

    assert "characters; code in them: Strategy: DefaultName, load_all]" in told.text
    many = " ".join(f"`name_{n}`" for n in range(40))
    told = short(
        "gh api repos/acme/shop/pulls/7/comments", "Output:\n" + json.dumps({"body": f"{'word ' * 100}{many} {'word ' * 300}"}) + "\n"
    )
    assert "name_11]" in told.text
    assert "name_12" not in told.text
    body = f"## Summary\n{'word ' * 100}\n## How to test\n`run_all()`\n### Rollback\n{'word ' * 300}"
    told = short("gh pr view 7 --json body,id", "Output:\n" + json.dumps({"body": body, "id": 1}) + "\n")
    assert "characters; code in them: run_all(); headings in them: How to test, Rollback]" in told.text


_WORDS = (
    *("error", "Errors", "errored", "FAILED", "failures", "fatal", "panicked", "exception", "Traceback", "assertion", "denied", "refused"),
    *("cannot", "can't", "could not", "unable", "undefined", "unresolved", "unexpected", "not found", "no such", "missing", "conflict"),
    *("rejected", "aborted", "timed out", "timeout", "time out", "killed", "warnings", "not ok", "FAIL", "KO", "ValueError", "BackOff"),
    *(
        "ErrImagePull",
        "OOMKilled",
        "unhealthy",
        "HTTP/1.1 500",
        "status: 404",
        "returned 503",
        "GET /x 404",
        '"HTTP/2" 502',
        "429 Too Many",
    ),
    *("E   x", "> x", "✗", "ok", "passed", "0 errors", "no failures", "errors: 0", "12%", "e", "done in 4.5 s", "token", "running"),
)


@pytest.mark.feature("compression.long-lines")
@given(st.lists(st.sampled_from(_WORDS) | st.text(max_size=6), max_size=6), st.sampled_from(["", " ", ": ", "\t", "x"]))
@settings(max_examples=400, deadline=None)
def test_a_line_without_a_sign_of_failure_is_one_that_the_pattern_finds_nothing_in(words, between):
    line = between.join(words)
    assert failure_lines.wrong(line) == told_by_pattern(line)


def told_by_pattern(line: str) -> bool:
    pattern = failure_lines._WRONG
    return bool(pattern.search(line) and pattern.search(failure_lines._NONE_WRONG.sub("", line)))


@pytest.mark.feature("compression.long-lines", "compression.long-outputs")
@given(st.lists(st.lists(st.sampled_from(_WORDS) | st.text(st.characters(exclude_characters="\n"), max_size=6), max_size=4), max_size=12))
@settings(max_examples=300, deadline=None)
def test_lines_looked_at_together_tell_of_failures_as_each_alone_does(made):
    lines = [" ".join(words) for words in made]
    failing = {place for place, line in enumerate(lines) if told_by_pattern(line)}
    assert failure_lines.failures(lines, range(len(lines))) == failing
    assert failure_lines.failures(lines, range(0, len(lines), 2)) == {place for place in failing if place % 2 == 0}


@pytest.mark.feature("compression.long-outputs")
def test_passes_with_numbers_like_statuses_are_told_without_a_look_at_each(short):
    passes = "".join(f"tests/unit/test_{n}.py::test_it[{n % 1000}] PASSED [ {n % 100}%]\n" for n in range(20_000))
    before = failure_lines._wrong.cache_info().misses
    told = short("pytest -v", f"{passes}tests/test_a.py::test_a FAILED\n1 failed, 20000 passed in 9s\n")
    assert "[20000 lines of passes]" in told.text
    assert "test_a FAILED" in told.text
    assert failure_lines._wrong.cache_info().misses - before < 100


@pytest.mark.feature("compression.long-outputs")
def test_tokens_of_a_very_long_output_are_an_estimate_and_marked_as_one(short):
    lines = "".join(f"step {n}: the part with the number {n * 7919 % 10_007} is made\n" for n in range(30_000))
    told = short("make", lines)
    assert (len(lines) > shell_output.COUNTED, told.estimated) == (True, True)
    assert told.raw_tokens == pytest.approx(count(lines), rel=0.03)
    told = short("make", lines[:10_000])
    assert (told.raw_tokens, told.estimated) == (count(lines[:10_000]), False)


@pytest.mark.feature("compression.long-lines")
def test_lines_behind_those_that_fill_an_answer_are_not_looked_at():
    looked = []

    class Lines(list):
        def __getitem__(self, place):
            looked.append(place)
            return super().__getitem__(place)

    lines = Lines(f"error {n}" for n in range(10_000))
    assert list(islice(failure_lines.guarded(lines), 20)) == list(range(20))
    assert len(looked) < 50


@pytest.mark.feature("compression.long-lines")
@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("tests/x.py::test_a PASSED   [ 50%]", True),
        ("ok pkg 0.1s [no tests to run]", True),
        ("12/30 Test #12: a .... Passed 0.01 sec", True),
        ("it PASSED but then it hung", False),
        ("see [no tests to run] above", False),
    ],
)
def test_what_passes_is_told_by_the_beginning_or_the_end_of_a_line(line, passes):
    assert bool(output_filters._passes(line)) == passes


@pytest.mark.feature("compression.shell-output")
def test_no_long_line_is_kept_for_the_next_output():
    kept = failure_lines._wrong.cache_info().currsize
    assert [failure_lines.wrong(f"{start} {'x' * 100_000}") for start in ("error: it broke", "all is well")] == [True, False]
    assert failure_lines._wrong.cache_info().currsize == kept


@pytest.mark.feature("compression.shell-output")
def test_one_line_that_is_left_out_is_one_line():
    found = [f"2026-03-04T10:00:0{n}Z the worker waits for orders" for n in (1, 2)]
    assert logs(found).lines[-1] == "[1 line as above]"
    assert logs([*found, found[0]]).lines[-1] == "[2 lines as above]"
