"""What the page finds from disk comes in the order of ``ctx search``, with its numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ctx_pipeline.dashboard
from ctx_pipeline.dashboard.page import scoring
from ctx_pipeline.storage.search_index import SearchIndex
from ctx_pipeline.storage.search_index.query import Asked
from ctx_pipeline.storage.search_index.ranking import ranked
from ctx_pipeline.storage.search_index.tokenize import question, with_words
from ctx_pipeline.storage.search_index.word_forms import forms_of
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.storage.test_search_index import CELL

if TYPE_CHECKING:
    from typing import Any

SCRIPT = Path(ctx_pipeline.dashboard.__file__).parent / "assets" / "ranking.js"
PROMPT, CALL = 0, 5
"""Numbers of two kinds in the documents of a page: one was said, the other done."""

SESSIONS = (
    (
        (PROMPT, "Why does the nightly import skip the last file? The log of the importer ends in the middle."),
        (CALL, "grep -rn import nightly log skip file last file"),
        (PROMPT, "The importers skipped it since the file had no newline at its end."),
        (PROMPT, "Thanks"),
    ),
    (
        (PROMPT, "Import the photos of the last holiday"),
        (CALL, "cp photos/*.jpg archive"),
        (PROMPT, "All photos are in the archive now, none of the files was skipped."),
    ),
    (
        (PROMPT, "Build it at night and publish the log"),
        (PROMPT, "The nightly build runs at two o'clock."),
        (PROMPT, "I find that it's built at night once somebody gets up"),
        (CALL, "crontab -e"),
        (PROMPT, "a file file file file of notes"),
    ),
    ((PROMPT, "Rename parse_header to read_header"), (CALL, "sed -i s/parse_header/read_header/ a.py"), (PROMPT, "Renamed in two files.")),
    (
        (PROMPT, "Does parseHeaderLine skip the last file? I mean parse_header_line."),
        (CALL, "rg onParseHeaderLine src"),
        (PROMPT, "It reads the line of the header, in ParseHeader."),
    ),
)
QUESTIONS = (
    "nightly import skip the last file",
    "importing photos",
    "parse_header",
    "skipped files",
    "the file",
    "log",
    "renaming headers",
    "where do we parse header lines",
    "parseHeaderLine",
    "does ParseHeader skip the last header line",
    "who found out why it isn't built",
    "it's what gets published at night",
    "the import that nobodyknows of files",
    " ".join(f"w{n}" for n in range(30)) + " photos archive",
)

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="the page's script is run with node")


def answered(code: str, *values: Any) -> Any:
    """Return what an expression over ``ctx`` and ``given`` is in the page's script."""
    program = f"const ctx = {{}};\n{SCRIPT.read_text('utf-8')}\nconst given = {json.dumps(values)};\nconsole.log(JSON.stringify({code}));"
    done = processes.run(["node", "-e", program], env={"PATH": "/usr/bin:/bin:/usr/local/bin"})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def told_sessions(folder: Path) -> tuple[SearchIndex, list[dict[str, Any]]]:
    """Return the sessions in an index of the program, and as documents of a page."""
    index = SearchIndex(folder / "search.db")
    index.begin_bulk()
    sessions = []
    for number, said in enumerate(SESSIONS):
        rows = [(n, text if kind == PROMPT else None, None if kind == PROMPT else text) for n, (kind, text) in enumerate(said)]
        index.add_part(CELL, f"p{number}", len(rows), rows, [(f"s{number}", 0, len(rows) - 1)])
        documents = [{"kind": kind, "text": text, "row": n} for n, (kind, text) in enumerate(said)]
        first = 1 + sum(map(len, SESSIONS[:number]))
        sessions.append({"key": f"s{number}", "first": first, "rows": len(said), "documents": documents})
    index.finish()
    return index, sessions


@pytest.mark.feature("dashboard.search")
def test_hits_from_disk_come_in_the_order_of_the_command_with_the_same_scores(tmp_path):
    index, sessions = told_sessions(tmp_path)
    code = """(() => {
        ctx.ranking.use(given[1]);
        const index = new ctx.ranking.Index(0);
        given[0].forEach((session) => index.add(session));
        const found = given[2].map((question) => ctx.ranking.ranked(index, question));
        return found.map(({ rows, scores }) => rows.map((row) => [row, scores.get(row)]));
    })()"""
    found = answered(code, sessions, scoring(), QUESTIONS)

    for asked, hits in zip(QUESTIONS, found, strict=True):
        right = ranked(index.connection, index.rows_of_index, question(asked), None)
        assert right.rows, asked
        assert [row for row, _ in hits] == right.rows, asked
        assert [score for _, score in hits] == pytest.approx([right.scores[row].total for row in right.rows]), asked
    index.close()


@pytest.mark.feature("dashboard.search", "search.typos")
def test_all_texts_are_read_once_for_a_typo_however_often_and_of_whatever_days_it_is_asked(tmp_path):
    index, sessions = told_sessions(tmp_path)
    index.close()
    code = """(() => {
        ctx.ranking.use(given[1]);
        const index = new ctx.ranking.Index(0);
        given[0].forEach((session) => index.add(session));
        let passes = 0;
        const values = index.rows.values.bind(index.rows);
        index.rows.values = () => { passes += 1; return values(); };
        const kinds = [null, null, given[2], 99];
        const found = kinds.map((kept) => ctx.ranking.best(index, "crontap", 20, ({ kind }) => kept === null || kind === kept));
        return [passes, found.map(({ corrected }) => corrected)];
    })()"""
    passes, found = answered(code, sessions, scoring(), CALL)

    assert passes == 1
    assert found == [[["crontap", "crontab"]]] * 3 + [[]]


@pytest.mark.feature("dashboard.search", "search.typos")
def test_the_page_looks_for_the_same_words_in_place_of_typos(tmp_path):
    index, sessions = told_sessions(tmp_path)
    questions = (
        "nigthly",
        "imprters of fotos",
        "Phottos archve",
        "the nightlly hedaer",
        "skiped files",
        "zzqxentry",
        "photos",
        "crontap fille",
        "修复phottos",
    )
    code = """(() => {
        ctx.ranking.use(given[1]);
        const index = new ctx.ranking.Index(0);
        given[0].forEach((session) => index.add(session));
        const kept = ({ kind }) => kind === given[3] || given[3] === null;
        const found = given[2].map((question) => ctx.ranking.best(index, question, 20, kept));
        return found.map(({ hits, corrected }) => [corrected, hits.map((hit) => hit.text)]);
    })()"""
    found = answered(code, sessions, scoring(), questions, None)
    texts = [text for said in SESSIONS for _, text in said]

    for asked, (corrected, hits) in zip(questions, found, strict=True):
        first = ranked(index.connection, index.rows_of_index, question(asked), None)
        near = index.near_words(first.missing, Asked(asked))
        assert dict(corrected) == near, asked
        meant = ranked(index.connection, index.rows_of_index, question(with_words(asked, near)), None)
        assert hits == [texts[row - 1] for row in meant.rows][:20], asked
    assert [bool(corrected) for corrected, _ in found] == [True, True, True, True, False, False, False, True, True]
    ((calls_only, _),) = answered(code, sessions, scoring(), ["crontap"], CALL)
    ((prompts_only, _),) = answered(code, sessions, scoring(), ["crontap"], PROMPT)
    assert (calls_only, prompts_only) == ([["crontap", "crontab"]], [])
    index.close()


@pytest.mark.feature("dashboard.search", "search.word-forms")
def test_the_page_knows_the_same_forms_of_a_word():
    words = ["uploads", "stopped", "stop", "replies", "reply", "cached", "compile", "settings", "e404", "api", "quickly", "class", "needed"]
    words += ["written", "writing", "ran", "people", "went"]
    assert answered("(ctx.ranking.use(given[1]), given[0].map(ctx.ranking.forms))", words, scoring()) == [
        list(forms_of(word)) for word in words
    ]
