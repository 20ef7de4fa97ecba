"""``CtxRotCallback``: what is given to ``dspy.configure(callbacks=[...])``.

The one module that imports DSPy when it is loaded, because its class has to be a
subclass of DSPy's; nothing else of this package imports it.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

import dspy
from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback

from ctx_pipeline.rot import database
from ctx_pipeline.rot.recorder import Active, Recorder
from ctx_pipeline.rot.writer import Counts, Writer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


class CtxRotCallback(BaseCallback):  # type: ignore[misc] # DSPy ships no types
    """Records the model and tool calls of a DSPy program in a SQLite store, never in its way.

    ``db_path`` is the store (``CTX_CALLBACK_STORE`` replaces the default). With
    ``store_content`` messages, completions and tool data are kept too, redacted. A run of
    an outermost module is one session; threads, tasks, ``dspy.Parallel`` and nested
    modules join the session of the module that started them. ``redact`` replaces secrets
    in a text before it is stored.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = database.DEFAULT,
        store_content: bool = False,
        *,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        chosen = database.settings()
        self._writer = Writer(database.store_path(db_path, chosen=chosen), chosen.home, redact=redact)
        self._recorder = Recorder(self._writer.put, store_content=store_content, version=f"{dspy.__name__} {dspy.__version__}")
        self._writer.at_close = self._recorder.end_outside
        self._writer.at_fork = self._recorder.forget
        weakref.finalize(self, self._writer.leave).atexit = False

    def __copy__(self) -> Self:
        """Return itself: DSPy copies models and modules with their callbacks, and one program has one store."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself."""
        return self

    @property
    def session_id(self) -> str | None:
        """The session of the call that is running here, else the one that was begun last."""
        return self._recorder.session_of(ACTIVE_CALL_ID.get()) or self._recorder.last_session_id

    @property
    def counts(self) -> Counts:
        """How many rows are written, spilled, waiting and lost."""
        return self._writer.counts

    def flush(self, timeout: float = 10.0) -> bool:
        """Write what is queued; True when everything is in the store within ``timeout`` seconds."""
        return self._writer.flush(timeout)

    def close(self) -> None:
        """End the session of calls outside modules, flush, and close the store; a later call opens it again."""
        self._writer.close()

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002 - DSPy's signature
        """Begin a module, and a session for the outermost one."""
        self._recorder.module_start(call_id, self._parent(), instance)

    def on_module_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:  # noqa: ARG002 - DSPy's signature
        """End a module, and the session with the outermost one."""
        self._recorder.module_end(call_id, exception)

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Begin a model call."""
        self._recorder.lm_start(call_id, self._parent(instance, inputs), instance, inputs)

    def on_lm_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:
        """End a model call."""
        self._recorder.lm_end(call_id, outputs, exception)

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Begin a tool call."""
        self._recorder.tool_start(call_id, self._parent(), instance, inputs)

    def on_tool_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:
        """End a tool call."""
        self._recorder.tool_end(call_id, outputs, exception)

    def _link_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002 - DSPy's signature
        self._recorder.link_start(call_id, self._parent(), instance)

    def _link_end(self, call_id: str, outputs: Any | None, exception: BaseException | None = None) -> None:  # noqa: ARG002 - DSPy's signature
        self._recorder.link_end(call_id)

    on_adapter_format_start = on_adapter_parse_start = _link_start
    on_adapter_format_end = on_adapter_parse_end = _link_end
    on_interpreter_execute_start = on_interpreter_tool_call_start = _link_start
    on_interpreter_execute_end = on_interpreter_tool_call_end = _link_end

    def _parent(self, lm: Any = None, inputs: Any = None) -> Active | None:
        """Return the known call that is active here.

        DSPy before 3.2 does not carry the active call into the threads of Parallel, and no
        version carries it into the threads of RLM's batched queries.
        """
        active = ACTIVE_CALL_ID.get()
        if active is not None:
            return self._recorder.parent_of(active)
        if threading.current_thread() is threading.main_thread():
            return None
        running = self._recorder.open_instances()
        if not running:
            return None
        for module in reversed(list(dspy.settings.get("caller_modules") or ())):
            if id(module) in running:
                return running[id(module)]
        return _batched(running, lm) if lm is not None and inputs is not None else None


def _batched(running: dict[int, Active], lm: Any) -> Active | None:
    """Return the one RLM that can have asked ``lm`` from a thread of its own; None when several can."""
    asking = [a for a in running.values() if type(a.instance).__name__ == "RLM" and getattr(a.instance, "sub_lm", None) in {None, lm}]
    own = [a for a in asking if a.instance.sub_lm is lm]
    fitting = own or asking
    return fitting[0] if len(fitting) == 1 else None
