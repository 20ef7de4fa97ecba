"""``ctx verify``: whether every stage holds what it promises, and every session its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say, table

if TYPE_CHECKING:
    from ctx_pipeline.maintenance.verify import Verification


@click.command()
@click.option("--history", "past", type=click.IntRange(1, 1000), help="Show the last so many verifications instead.")
@click.option("--summary", is_flag=True, help="Four lines.")
@click.option("--no-record", is_flag=True, help="Do not keep what is found.")
@json_option
def verify(past: int | None, summary: bool, no_record: bool, as_json: bool) -> None:
    """Check every stage and the limits over all sessions; exit 1 where one does not hold.

    A check without data says so and is no pass. Limits stand in slos.toml of the store:
    [[slo]] with name, metric, threshold, direction = "max" or "min" and action = "warn" or
    "fail". Metrics: session_context_tokens, session_cost_usd, tool_calls_total,
    failed_tool_calls.
    """
    from ctx_pipeline.maintenance import verify as api

    settings = for_reading()
    if past is not None:
        rows = api.history(past, settings=settings)
        if as_json:
            emit({"history": rows})
            return
        shown = [{**r, "at": r["at"][:16].replace("T", " "), "rate": _percent(r["pass_rate"])} for r in rows]
        table(shown, {"at": "time", "pass": "pass", "fail": "fail", "no_data": "no data", "rate": "rate", "violated": "limits violated"})
        return
    found = api.verify(settings=settings)
    if not no_record:
        from ctx_pipeline.cli.session.writing import act

        counts = found.counts
        violated = sum(bool(v.violated) for v in found.limits)
        act(
            "verified",
            figures={
                "pass": counts["pass"],
                "fail": counts["fail"],
                "no_data": counts["no data"],
                "pass_rate": found.rate,
                "violated": violated,
            },
        )
    if as_json:
        emit(found.to_json())
    elif summary:
        _summary(found)
    else:
        table(
            [{**c._asdict(), "status": c.status} for c in found.checks],
            {"stage": "stage", "name": "check", "checked": "checked", "failed": "failed", "status": "status"},
        )
        for c in found.checks:
            for example in c.examples:
                say(f"  {c.stage}: {one_line(example, 160)}")
        for v in found.limits:
            worst = f", worst {plain(v.worst[0])} with {v.worst[1]:g}" if v.worst else ""
            of = f"{v.violated} of {counted(v.sessions, 'session')}"
            limit = f"{v.limit.metric} {v.limit.direction} {v.limit.threshold:g}"
            say(f"limit {plain(v.limit.name)}: {limit}: {v.status} ({of}{worst}; {v.limit.action})")
        _summary(found)
    if found.failed:
        raise SystemExit(1)


def _summary(found: Verification) -> None:
    counts = found.counts
    say(f"checks: {counts['pass']} pass, {counts['fail']} fail, {counts['no data']} without data")
    say(f"pass rate: {_percent(found.rate)}")
    say(f"limits: {len(found.limits)}, violated: {sum(bool(v.violated) for v in found.limits)}")
    say("not verified" if found.failed else "no data" if found.rate is None else "verified")


def _percent(rate: float | None) -> str:
    return "no data" if rate is None else f"{100 * rate:.1f} %"
