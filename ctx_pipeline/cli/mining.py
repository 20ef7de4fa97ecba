"""``ctx mine``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import StoredCandidate


@click.command()
@click.argument("host", default="*")
@click.argument("session_id", default="*")
@click.option("--method", "names", multiple=True, help="Only this method, or all local ones.")
@click.option("--filter", "filters", multiple=True, help="risk_aware, near_duplicate, contradiction or staleness; several with commas.")
@click.option("--all", "everything", is_flag=True, help="Also what one session saw and no other bears out.")
@click.option("--block", "as_block", is_flag=True, help="Print the best as a block to paste into a prompt, and nothing else.")
@click.option("--budget", type=click.IntRange(1), help="At most so many tokens in the block.")
@json_option
def mine(
    host: str,
    session_id: str,
    names: tuple[str, ...],
    filters: tuple[str, ...],
    everything: bool,
    as_block: bool,
    budget: int | None,
    as_json: bool,
) -> None:
    """Draw memory candidates from sessions and show them; '*' stands for all.

    Only cells whose input or code changed are mined anew. What needs several sessions
    to be true is shown where they agree.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.api.sessions import resolve
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.memory.block import DEFAULT_BUDGET, block
    from ctx_pipeline.mining.filters import FILTERS, filtered
    from ctx_pipeline.stages.mine import candidates
    from ctx_pipeline.stages.mine import mine as stage
    from ctx_pipeline.storage import open_store

    chosen = [name for group in filters for name in group.split(",") if name]
    for name in chosen:
        if name not in FILTERS:
            raise UnknownName("filter", name, FILTERS)
    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        known = discovery.methods()
        methods = [m for m, method in known.items() if method.deterministic] if not names or "all" in names else list(names)
        key = None if host == "*" else discovery.host(host).key
        full = None
        if session_id != "*":
            key, full = resolve(store, host, session_id)
        cells = [c for c in store.ledger.cells() if key is None or c.host == key]
        report = stage(store, settings, methods=methods, cells=cells)
        drawn = [c for name in methods for c in candidates(store, known[name], combined=not everything)]
    found = [c for c in drawn if key in (None, c.host) and full in (None, c.session_id)]
    result = filtered(sorted(found, key=lambda c: (c.method, c.host, c.session_id, c.candidate_id)), chosen)
    source = f"{key or '*'}/{full or '*'}"
    text = block(result.kept, method=",".join(methods), source=source, marks=result.marks, budget=budget or DEFAULT_BUDGET)
    if as_json:
        shown = [{**_plain(c), "marks": result.marks.get(c.candidate_id, [])} for c in result.kept]
        emit({"candidates": shown, "dropped": result.dropped, "block": text, **report.totals})
        return
    if as_block:
        say(text, nl=False)
        return
    for c in result.kept:
        say(f"{c.kind}  {plain(c.method)}  {c.host} {c.session_id}", bold=True)
        say(f"  {one_line(c.text, 400)}")
        if c.when_to_use:
            say(f"  when: {one_line(c.when_to_use, 200)}")
        say(f"  confidence {c.confidence:.2f}, priority {c.priority}, {c.scope}, {c.risk} risk; evidence: {', '.join(c.evidence[:4])}")
        for mark in result.marks.get(c.candidate_id, []):
            say(f"  mind: {one_line(mark, 200)}")
    left = f", {len(result.dropped)} left out" if result.dropped else ""
    say(f"{len(result.kept)} candidates{left}")


def _plain(c: StoredCandidate) -> dict[str, Any]:
    return {**c._asdict(), "structured": c.body or None}
