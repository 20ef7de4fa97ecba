"""Session views by hand: ``view().prompt("fix it").shell("pytest", exit=1, text="E  boom").answer("done").build()``."""

from __future__ import annotations

from ctx_pipeline.model.examples import SECOND, START, Builder
from ctx_pipeline.model.examples import session as view

__all__ = ["SECOND", "START", "Builder", "view"]
