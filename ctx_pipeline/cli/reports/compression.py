"""``ctx compress`` and ``ctx analyze``: compress files and report what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import counted, emit, json_option, say, table
from ctx_pipeline.cli.session_names import complete_sessions

if TYPE_CHECKING:
    from ctx_pipeline.compression.analysis import Analysis
    from ctx_pipeline.compression.benchmark import Page


_FORMS = ("raw", "aggressive", "entropy", "signatures", "map", "best")
FORM_COLUMNS = {"form": "form", "tokens": "tokens", "saved": "saved", "quality": "quality", "structure": "structure", "risk": "risk"}


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--session", "-s", metavar="SESSION", help="What this session had in its context window.", shell_complete=complete_sessions)
@click.option("--at", metavar="MOMENT", help="The window at this moment (see ctx history); the end by default.")
@click.option("--thread", help="The window of this thread; the main one by default.")
@click.option("--form", type=click.Choice(_FORMS), help="Print each file in this form in place of a checkpoint.")
@click.option("--signatures/--no-signatures", default=True, show_default=True, help="Signatures of each file in the checkpoint.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1, 100), help="Signatures of a file.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Files of a folder.")
@json_option
def compress(
    paths: tuple[Path, ...],
    session: str | None,
    at: str | None,
    thread: str | None,
    form: str | None,
    signatures: bool,
    top: int,
    limit: int,
    as_json: bool,
) -> None:
    """Print files in a few lines each, to take along into a fresh session.

    PATHS are files and folders. Without any it is what the last session of this folder that
    did something had in its context window at its end, from what was captured.

    Each file is cut to its most important signatures: exported ones, and those that other
    files name. They are written as words or as signs (explained in the second line),
    whichever takes fewer tokens.
    """
    from ctx_pipeline.cli.homes import for_reading
    from ctx_pipeline.compression import compress as compression

    if paths and (session or at or thread):
        raise click.UsageError("--session, --at and --thread are about a captured session: leave the paths out")
    settings = for_reading()
    left_out: dict[str, int] = {}
    origin: dict[str, Any] = {}
    if paths:
        sources, left_out = compression.sources_at(paths, limit=limit, settings=settings)
    else:
        host, name = compression.session_named(session, settings) if session else compression.session_here(Path.cwd(), settings)
        found = compression.captured(host, name, at=at, thread=thread, settings=settings)
        sources = found.sources
        origin = {
            "host": found.host,
            "session_id": found.session_id,
            "thread_id": found.thread_id,
            "reads": found.reads,
            "hits": found.hits,
        }
    if form:
        told = compression.in_form(sources, form)
        if as_json:
            emit({**told, "notation": None, "saved_tokens": max(0, told["raw_tokens"] - told["tokens"]), **_about(origin, left_out)})
            return
        _forms(told)
    else:
        made = compression.compress(sources, signatures=signatures, top=top, reads=origin.get("reads"), hits=origin.get("hits", 0))
        if as_json:
            emit({**compression.checkpoint_row(made), **_about(origin, left_out)})
            return
        say(made.text)
    if left_out:
        say(f"left out: {', '.join(f'{count:,} {reason}' for reason, count in left_out.items())}", err=True)


def _about(origin: dict[str, Any], left_out: dict[str, int]) -> dict[str, Any]:
    return {"session": origin or None, "left_out": left_out}


def _forms(told: dict[str, Any]) -> None:
    if told["book"]:
        say("\n".join(f"§{number} {line}" for number, line in enumerate(told["book"], 1)) + "\n")
    several = len(told["files"]) > 1
    for row in told["files"]:
        if several:
            say(f"==> {row['path']} ({row['form']}, {row['raw_tokens']} → {row['tokens']} tokens) <==", bold=True)
        say(row["text"], nl=not row["text"].endswith("\n"))
    if not several:
        return
    say(f"{told['raw_tokens']} → {told['tokens']} tokens", err=True)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def analyze(path: Path, as_json: bool) -> None:
    """Measure a file: how much its lines say, and what every form of it costs and keeps.

    Entropy is given per character and per token. Quality is measured by reading what a form
    produced: declarations found again, and names. Risk is what a reader may miss: none,
    low (comments or copies), high (bodies are gone: read the file before an edit).
    """
    from ctx_pipeline.compression import compress as compression

    found = compression.analyze(path)
    if as_json:
        emit(compression.analysis_row(str(path), found))
        return
    _analysis(str(path), found)


def _analysis(path: str, found: Analysis) -> None:
    said = f", {found.language}" if found.language else ""
    say(f"{path} ({counted(found.lines, 'line')}, {counted(found.tokens, 'token')}{said})", bold=True)
    say("\nEntropy of its lines")
    for spread in (found.chars, found.by_token):
        of = spread.lines or 1
        say(
            f"  mean {spread.mean:.2f} bits/{spread.unit}; below {spread.low_below}: {spread.low} ({spread.low / of:.0%}); "
            f"above {spread.high_above}: {spread.high} ({spread.high / of:.0%})"
        )
    say(f"  compressibility {found.compressibility}: a general compressor reaches {found.ratio:.0%} of its bytes")
    if found.repeats:
        say("\nBlocks that repeat an earlier one")
        for repeat in found.repeats[:20]:
            block, original = repeat.block, repeat.of
            say(f"  lines {block.first}-{block.last} are like {original.first}-{original.last} ({repeat.likeness:.0%})")
        if len(found.repeats) > 20:
            say(f"  … {len(found.repeats) - 20} more: --json has all")
    say("")
    table([form_cells(row) for row in found.rows], FORM_COLUMNS)
    say(f"\nRead it as: {found.recommended} ({found.reason})")


def form_cells(row: Any) -> dict[str, Any]:
    """Return the cells of one form, shares in percent."""
    kept = row.quality
    return {
        "form": row.form,
        "tokens": row.tokens,
        "saved": f"{row.saved:.0%}" if row.saved else "",
        "quality": "" if kept is None else f"{kept.score:.0%}",
        "structure": "" if kept is None else f"{kept.structure:.0%}",
        "risk": row.risk if row.tokens is not None else "nothing to say",
    }


# ctx benchmark: every form of a file or a project, and what they would have saved in real sessions.


@click.command()
@click.argument("words", nargs=-1, metavar="[run|report] [PATH]")
@click.option("--files", default=50, show_default=True, type=click.IntRange(1, 1000), help="Files of the sample of a folder.")
@click.option("--seed", default=0, show_default=True, type=int, help="Which sample is drawn; the same seed draws the same files.")
@click.option(
    "--runs",
    default=5,
    show_default=True,
    type=click.IntRange(0, 100),
    help="How often each form is made to measure its time; 0 measures none.",
)
@click.option("--session", "-s", "sessions", multiple=True, metavar="SESSION", help="Replay a session in place of measuring files.")
@click.option("--replay", type=click.IntRange(1, 1000), metavar="N", help="Replay the N newest captured sessions.")
@click.option(
    "--format", "form", default="terminal", show_default=True, type=click.Choice(["terminal", "markdown", "json"]), help="How to print it."
)
@json_option
def benchmark(
    words: tuple[str, ...], files: int, seed: int, runs: int, sessions: tuple[str, ...], replay: int | None, form: str, as_json: bool
) -> None:
    """Measure every form of a file, or of a sample of a folder: tokens, what is kept, time.

    The sample is drawn over languages and sizes; totals are weighted by tokens, and the
    interval is that of the total over files. Quality is measured by reading what a form
    produced. A cache hit is the notice that a file is in the context already.

    A replay goes through what real sessions read and tells what shorter forms would have
    saved: certain (nothing new was read), likely (read once, not changed), upper (all).

    run is what happens without a word; report prints Markdown.
    """
    from ctx_pipeline.compression import benchmark as api
    from ctx_pipeline.compression.benchmark import page_of_file, page_of_project

    asked = words[0] if words and words[0] in ("run", "report") and not (len(words) == 1 and Path(words[0]).exists()) else ""
    rest = words[1:] if asked else words
    if len(rest) > 1:
        raise click.UsageError(f"one path is measured at a time, not {len(rest)}")
    path = Path(rest[0] if rest else ".")
    form = "markdown" if asked == "report" and form == "terminal" else form
    as_json = as_json or form == "json"
    if sessions or replay:
        _replayed(sessions, replay, form, as_json=as_json)
        return
    if path.is_dir():
        found = api.benchmark_project(path, files=files, seed=seed, runs=runs)
        told, page = api.benchmark_row(found), page_of_project(found)
    else:
        one = api.benchmark_file(path, runs=runs)
        told, page = api.file_row(one), page_of_file(one)
    if as_json:
        emit(told)
    else:
        show(page, form)


def _replayed(names: tuple[str, ...], count: int | None, form: str, *, as_json: bool) -> None:
    from ctx_pipeline.cli.homes import for_reading
    from ctx_pipeline.compression import replay as api
    from ctx_pipeline.compression.benchmark import page_of_replay
    from ctx_pipeline.compression.compress import session_named

    settings = for_reading()
    chosen = [session_named(name, settings) for name in names] + (api.newest(count, settings=settings) if count else [])
    rows = [api.replay(host, name, settings=settings) for host, name in dict.fromkeys(chosen)]
    if as_json:
        emit(api.replay_row(rows))
    else:
        show(page_of_replay(rows), form)


def show(page: Page, form: str) -> None:
    """Print a page for a terminal, or as Markdown."""
    if form == "markdown":
        from ctx_pipeline.compression.benchmark import markdown

        say(markdown(page), nl=False)
        return
    say(page.title, bold=True)
    if page.note:
        say(page.note)
    for rows, columns in page.tables:
        say("")
        table(rows, columns)
    if page.ending:
        say(f"\n{page.ending}")
