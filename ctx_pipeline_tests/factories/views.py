"""Session views by hand: ``view().prompt("fix it").shell("pytest", exit=1, text="E  boom").answer("done").build()``."""

from __future__ import annotations

from ctx_pipeline.model.examples import SECOND, START, Builder, session

__all__ = ["SECOND", "START", "Builder", "view"]


def view(
    session_id: str = "s1", *, host: str = "claude", cwd: str | None = "/w/app", repository: str | None = None, start: int = START
) -> Builder:
    """Begin a session; each step is one second after the one before."""
    return session(session_id, host=host, cwd=cwd, repository=repository, start=start)
