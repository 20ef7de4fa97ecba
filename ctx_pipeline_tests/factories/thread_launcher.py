"""A launcher of Dagster runs for tests: in this process, and on a thread, since the web server's own runs an event loop."""

from __future__ import annotations

import threading
from typing import Any

from dagster._core.launcher.sync_in_memory_run_launcher import SyncInMemoryRunLauncher


class ThreadRunLauncher(SyncInMemoryRunLauncher):
    """Ends each run before it says that the run was launched."""

    def launch_run(self, context: Any) -> None:
        """Make the run."""
        thread = threading.Thread(target=super().launch_run, args=(context,))
        thread.start()
        thread.join()
