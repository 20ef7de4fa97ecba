"""An interpreter for RLM that every version of DSPy takes: the model's code runs here, in this process."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from dspy.primitives.code_interpreter import FinalOutput


class _Submitted(Exception):
    pass


class Here:
    """Runs code with ``exec`` and gives back what it printed."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}
        self.output_fields: Any = None
        self._names: dict[str, Any] = {}

    def start(self) -> None:
        """Do nothing."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Return what was printed, or the final output."""

        def submit(**fields: Any) -> None:
            raise _Submitted(fields)

        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(code, self._names | (variables or {}) | self.tools | {"SUBMIT": submit})
        except _Submitted as done:
            return FinalOutput(done.args[0])
        return said.getvalue()

    def shutdown(self) -> None:
        """Do nothing."""


def make() -> Any:
    """Return an interpreter: DSPy's own in a process of its own where it has one, else this one."""
    import dspy

    return dspy.LocalInterpreter() if hasattr(dspy, "LocalInterpreter") else Here()


def rlm(signature: Any, steps: int) -> Any:
    """Return an RLM of at most so many steps, by the names of the installed version."""
    import dspy

    from ctx_pipeline.rot.deep import _versioned

    return dspy.RLM(signature, **_versioned(dspy.RLM, steps, make))
