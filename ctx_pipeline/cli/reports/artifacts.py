"""``ctx artifacts``: what the pipeline made, listed, shown, searched and removed."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, local_time, one_line, plain, say, table
from ctx_pipeline.model.display import size

ACTIONS = ("list", "status", "show", "index", "reindex", "search", "remove")


@click.command()
@click.argument("action", default="list", type=click.Choice(ACTIONS))
@click.argument("words", nargs=-1)
@click.option("--kind", help="Only this kind: snapshot, bundle, report, document.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="Rows or hits.")
@json_option
def artifacts(action: str, words: tuple[str, ...], kind: str | None, limit: int, as_json: bool) -> None:
    """List, show, index, search and remove what the pipeline made.

    Snapshots and bundles register themselves. `index PATH ...` adds documents of your own (files or
    folders), `reindex` rebuilds the index, `search WORDS` brings it up to date and
    searches. `remove ID` takes an artifact away, or a document out of the index; your files
    stay.
    """
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.sessions import artifacts as api

    settings = for_reading()
    if action == "list":
        rows = [a._asdict() for a in api.artifacts(kind=kind, settings=settings)]
        if as_json:
            emit({"artifacts": rows})
            return
        shown = [
            {**r, "size": size(r["bytes"]), "at": local_time(r["at"], settings.timezone), "name": one_line(r["name"], 60)}
            for r in rows[-limit:]
        ]
        table(shown, {"artifact_id": "id", "kind": "kind", "at": "made", "size": "size", "name": "name"}) if rows else say(
            "nothing was made yet" if kind is None else f"nothing of the kind {plain(kind)} is there"
        )
    elif action in ("status", "index", "reindex"):
        if action == "index" and words:
            from ctx_pipeline.cli.session.writing import act

            act("documents", paths=api.documents_below(list(words)))
        synced, counts = api.indexed(afresh=action == "reindex", settings=settings)
        told = {**counts, **synced._asdict()}
        if as_json:
            emit(told)
        else:
            say(f"{counted(counts['documents'], 'document')} in {counted(counts['chunks'], 'chunk')}")
            say(", ".join(f"{number} {name}" for name, number in synced._asdict().items()))
    elif action == "search":
        hits = api.search(" ".join(words), limit=limit, settings=settings)
        if as_json:
            emit({"query": " ".join(words), "results": [h._asdict() for h in hits]})
            return
        for h in hits:
            say(f"{plain(h.document)}  {plain(h.name)}:{h.line}  {one_line(h.heading, 80)}", bold=True)
            say(f"  {one_line(h.snippet, 160)}")
        if not hits:
            say("nothing found")
    else:
        if len(words) != 1:
            raise UsageError(f"{action} takes one id", hint="ctx artifacts list")
        if action == "show":
            one, text = api.content(words[0], settings=settings)
            if as_json:
                emit({**one._asdict(), "text": text})
            else:
                say(text, nl=not text.endswith("\n"))
            return
        from ctx_pipeline.cli.session.writing import act

        told = act("remove", **api.of_id(words[0], settings=settings))
        if as_json:
            emit(told)
        else:
            say(f"{plain(told['artifact_id'])} removed")
