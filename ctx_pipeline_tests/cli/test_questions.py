"""Questions of a user, each answered by one command that ``ctx help questions`` names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ctx_pipeline.cli.help.questions import PLACEHOLDERS, QUESTIONS
from ctx_pipeline_tests.cli.conftest import Ctx

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = {
    "ctx": r"\$0\.10, 1 min in turns, 1 session; a usual week is \$0\.13",
    "ctx cost": r"\nall +46 .* \$0\.61 +100%",
    "ctx usage monthly": r"\n2026-10 .* 21 .*\$0\.17\ntotal .* 46 ",
    "ctx usage weekly": r"\n2026-10-19 .*\ntotal .* 46 ",
    "ctx usage project": r"\nbookshop-api .* \$0\.54 +89%\ntrail-map .* \$0\.06 ",
    "ctx usage model": r"\nclaude-opus-4-5-20251101 .* \$0\.28 +46%",
    "ctx usage outcomes --by model": r"\ngpt-5-codex +codex +1 .*\n[\s\S]*no model has 5 sessions yet",
    "ctx gain --period all --model MODEL": r"\nat the prices of claude-haiku-4-5: an estimate\n[\s\S]*\nspent +[\d,]+ +\$",
    "ctx explain latest": r"7 calls\n.*\$0\.097204 at list price[\s\S]*msg_010e9b648f77c4ea9cf46068  \$0\.011806",
    "ctx explain MONTH": r"^month 2026-10: 21 calls\n.*\$0\.17\d+ at list price\n(?s:.*)most of it on: 2026-10-19 \$0\.097\d+ \(56%\)"
    r"(?s:.*)\n *session +project +title +model calls +cost\n",
    "ctx usage thread": r"\nsubagent .* 3 .* \$0\.06 +10%",
    "ctx usage tool": r"\nBash +15 .* \$0\.23 +38%\nEdit [\s\S]*\nuses are what counted model calls asked for; .*: ctx work\n",
    "ctx usage server": r"\n\(no MCP server\) +0 .* \$0\.61 +100%",
    "ctx usage skill": r"\n\(no skill\) +0 .* \$0\.61 +100%",
    "ctx usage hour": r"\n13:00 +claude .* \$0\.28 +46%",
    "ctx usage limits": r"^no record says that a limit was reached\n",
    "ctx usage blocks --active": r"^no five-hour window is open\nthe last one began .*: \w+, .* tokens, \$|^start .*\n",
    "ctx usage daily --cache": r"\n2026-09-14 .* 93% ",
    "ctx hints": r"43% of the cost, \$0\.26, was context sent again from the cache",
    "ctx explain MONTH --against ccusage": r"\nhere +21 .*\$0\.173777\nrules of ccusage +21 .*\$0\.173777\n",
    "ctx resume": r"^cd /home/sam/code/bookshop-api && claude --resume 0333c65c-ea52-4669-ae2b-0497866d8840\n",
    "ctx resume SESSION": r"^cd /home/sam/code/bookshop-api && claude --resume c823d9cd-f224-448f-a457-16b4882b2710\n",
    "ctx session load latest": r"^Restored session .*, claude 0333c65c-[\s\S]*\nTask: .*  \(from a prompt\)",
    "ctx hooks preview": r"nothing is told when a session starts in \S+",
    "ctx hooks status": r"\neach new chat begins with .*: ctx hooks install claude --handoff\n",
    "ctx search --fixed WORDS": r"\n  then ran: `uv add --dev freezegun`\n[\s\S]*\n  passed: `uv run pytest -q ",
    "ctx search WORDS": r"^claude 51b369cc-0a63-4a24-aa2a-c6ba8b05c225  Fix rounding in discount codes\n",
    "ctx search WORDS --sessions": r"\n\d+ hits in \d sessions?\b",
    "ctx search WORDS --prompts --sessions": r"^nothing found; nothing holds: ",  # it is an error that no prompt names
    "ctx list --file FILE": r"\n51b369cc-0a63-4a24-aa2a-c6ba8b05c225 .* 1 change, 1 read ",
    "ctx files ./FILE": r"51b369cc-0a63-4a24-aa2a-c6ba8b05c225 .* 1 +\+\d+ -\d+\n",
    "ctx show latest --turns": r"I said that before\n  interrupted, 4 tool calls: 2 Edit, 2 Bash\n  changed Dockerfile\n",
    "ctx list --signal subagent_count": r"^session .*subagent_count.*\nc823d9cd-f224-448f-a457-16b4882b2710 .* 1 subagent ",
    "ctx show SESSION": r"\nsubagent +a1c9e77 +explorer .*\n[\s\S]*: ctx history c823d9cd-f224-448f-a457-16b4882b2710 --thread ID\n",
    "ctx files latest": r"/home/sam/code/bookshop-api/Dockerfile +0 +2 +\+2 -2",
    "ctx session status latest": r"\nTests: none were run",
    "ctx list --signal failed_test_run_count": r"^session .*failed_test_run_count.*\n\S+ .* \d runs? ",
    "ctx list --signal tests_failing_at_end": r"^no session fits; tests_failing_at_end was measured in [1-6] sessions? in all\n",
    "ctx list --not-passed": r"^\d+ sessions? ended without passing tests: failed \d+, never tested 1, unknown \d+\n[\s\S]* never tested ",
    "ctx history latest": r"\nend +17 .* 28\.1 k",
    "ctx signal evidence compaction_count": r"CSV export for orders\n  compacted by the agent itself at 158,211 tokens\n",
    "ctx heatmap --all --sort reads": r"\nbookshop-api: tests/test_search\.py .* 3 ",
    "ctx work --sort failed": r"\nprogram .*\npytest +9 +4 +44% +\d+\.\d s",
    "ctx work --flaky": r"no flaky test: \d+ tests? looked at\ntests are named by the output of \d+ of \d+ runs of tests",
    "ctx work --time": r"\n14 min in 13 turns of 6 sessions\n[\s\S]*\n6 min +45% +the model answered\n[\s\S]*\n +7 s +019a72be +apply",
    "ctx work --time --days 7": r"^no turns in this range; the newest turn is from 20\d\d-|\n\d+ \w+ in \d+ turns? of ",
    "ctx work --by-day": r"\n2026-09-22 Tue +2 min +13:40 ",
    "ctx list --signal idle_seconds": r"\nc823d9cd-f224-448f-a457-16b4882b2710 .* 1 min +captured",
    "ctx work --errors": r"\n +1 +1 +pytest +ModuleNotFoundError: No module named 'freezegun' +51b369cc",
    "ctx list --unchecked": r"\n0333c65c-ea52-4669-ae2b-0497866d8840 .* Dockerfile ",
    "ctx list --uncommitted": r"^no session fits\n",
    "ctx signal evidence user_correction_count": r"\n  agent before: Bash: docker compose.*\n  wait, stop\.",
    "ctx learn --all --agents-md": r"\n- Use uv instead of pip in the Dockerfile too\.",
    "ctx render latest --share": r"\[REDACTED:database-url\]",
    "ctx doctor --redactions": r"\ndatabase-url +\d+ +1\n",
    "ctx doctor": r"\n6 sessions, \d+ sources captured\n(?:.*\n)*retention: .* keeps transcripts for \d+ years .*; all \d+ captured\n",
}


# what a person writes in place of the words in capitals
MEANT = {
    "WORDS": "ModuleNotFoundError freezegun",
    "FILE": "discounts.py",
    "SESSION": "CSV export",
    "MODEL": "claude-haiku-4-5",
    "MONTH": "2026-10",
}


@pytest.mark.feature("cli.questions")
def test_help_names_a_command_for_every_question_and_the_page_too(ran: Ctx):
    printed = ran("help", "questions").stdout
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")

    assert len(QUESTIONS) >= 20
    assert list(dict.fromkeys(command for _, command in QUESTIONS)) == list(ANSWERS)
    assert printed == "".join(f"{question}\n  {command}\n" for question, command in QUESTIONS) + f"{PLACEHOLDERS}\n"
    assert all(f"| {question} | `{command}` |" in page for question, command in QUESTIONS)
    assert "ctx help questions" in ran("--help").stdout


@pytest.mark.feature("cli.questions")
def test_a_command_of_the_help_names_nothing_of_the_sample_history():
    printed = "\n".join(command for _, command in QUESTIONS)

    assert not [word for word in MEANT.values() if word in printed]
    assert set(re.findall(r"\b[A-Z]{4,}\b", printed)) == set(MEANT)


@pytest.mark.slow
@pytest.mark.feature("cli.questions")
@pytest.mark.parametrize(("question", "command"), QUESTIONS)
def test_the_command_answers_the_question(ran: Ctx, question: str, command: str):
    printed = ran(*shlex.split(re.sub(r"\b[A-Z]{4,}\b", lambda word: MEANT[word[0]], command))[1:]).stdout

    assert re.search(ANSWERS[command], printed), f"{question}\n{printed}"


@pytest.mark.feature("cli.questions")
def test_a_shared_session_names_neither_home_nor_secret(ran: Ctx):
    shared = ran("render", "latest", "--share").stdout

    assert "/home/sam" not in shared
    assert "shop:" not in shared or "shop:[REDACTED" in shared


@pytest.mark.feature("explain.sessions")
def test_the_dollars_of_a_month_are_told_by_session_before_its_calls(ran: Ctx):
    head, sums, *more = ran("explain", "2026-09", "--limit", "0").stdout.splitlines()
    start = next(n for n, line in enumerate(more) if line.startswith("session "))
    days, names, rows = " ".join(more[:start]), more[start], more[start + 1 :]
    told = [re.search(r"\$([\d.]+) +([\d.]+)%$", line) for line in rows if "$" in line]
    costs = [float(found[1]) for found in told if found]

    assert [round(100 * cost / sum(costs)) for cost in costs] == [round(float(found[2])) for found in told if found]
    assert names.split() == ["session", "project", "title", "model", "calls", "cost"]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) > 1
    assert sum(costs) == pytest.approx(float(re.search(r"\$([\d.]+)", sums)[1]))
    assert "Fix rounding in discount codes" in "\n".join(rows)
    assert head.startswith("month 2026-09: ")
    shares = [int(share) for share in re.findall(r"2026-09-\d\d \$[\d.]+ \((\d+)%\)", days)]
    assert shares == sorted(shares, reverse=True)
    assert ("most of it on: " in days, len(shares) > 1) == (True, True)
    each = [float(cost) for cost in re.findall(r"^20\S+ \S+ .* \$([\d.]+)", ran("explain", "2026-09").stdout, re.MULTILINE)]
    assert len(each) > 5
    assert each == sorted(each, reverse=True)
    assert "title" not in ran("explain", "latest", "--limit", "0").stdout
