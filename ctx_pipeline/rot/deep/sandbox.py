"""Whether DSPy's sandbox for the model's code works here: found out before anything is spent."""

from __future__ import annotations

import shutil
import threading
from importlib.util import find_spec
from typing import Any

from ctx_pipeline.errors import CtxError

START_SECONDS = 120.0
"""How long the sandbox may take to start; its first start fetches a Python for WebAssembly."""


class DeepAnalysisRefused(CtxError, RuntimeError):
    """The analysis cannot start here: there is no interpreter for the model's code."""


def has_deno() -> bool:
    """Tell whether DSPy's sandbox finds Deno: the Python package of it, or the program."""
    return find_spec("deno") is not None or shutil.which("deno") is not None


def try_out(dspy: Any) -> None:
    """Start the sandbox once and run a line in it. Raises DeepAnalysisRefused, within two minutes, when it does not work."""
    found: list[str] = ["it did not start in time"]
    thread = threading.Thread(target=_run, args=(dspy, found), name="ctx-sandbox", daemon=True)
    thread.start()
    thread.join(START_SECONDS)
    if found:
        raise DeepAnalysisRefused(
            f"Deno is there, but the sandbox for the model's code does not work: {found[0]}",
            hint="start it once where the network can be reached (Deno fetches Pyodide), or give an interpreter_factory",
        )


def _run(dspy: Any, found: list[str]) -> None:
    try:
        interpreter = dspy.PythonInterpreter()
        try:
            interpreter.execute("print(1)")
        finally:
            interpreter.shutdown()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from working
        found[:] = [f"{type(error).__name__}: {error}"[:300]]
    else:
        found.clear()
