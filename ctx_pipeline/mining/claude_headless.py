"""What Claude Code draws from a session when it is asked without a person."""

from __future__ import annotations

from functools import partial

from ctx_pipeline.mining._asked import told
from ctx_pipeline.model.declared import AGENT, Method

CLAUDE_HEADLESS = Method(
    name="claude_headless",
    version=1,
    describe=(
        "Lessons that Claude Code draws from a session, asked without a person.\n\n"
        "Only when a person names it: `ctx mine claude SESSION --method claude_headless`. The installed `claude` runs once a session "
        "in an empty folder, without tools, settings or a session of its own. It gets the redacted record; its stream, tokens and "
        "cost are kept, and a second run answers from them. Lessons that rest on no event of the session are refused."
    ),
    extract=partial(told, "claude_headless"),
    reads=("events", "tool_calls"),
    deterministic=False,
    kinds=("prompt", "answer", "tool_call", "tool_result", "error"),
    asks=AGENT,
)
