"""Write the pictures of the README, docs/images/page.png and docs/images/graph.png, from the sample sessions.

    python .ci/pictures.py

Needs Chromium and about a minute: it runs `ctx run --demo` and `ctx ui` in a temporary store and photographs both.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = {"width": 1280, "height": 800}


def main() -> int:
    """Write both pictures."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CTX_", "CLAUDE_", "CODEX_", "DAGSTER_"))}
        environment = {**kept, "HOME": folder, "CTX_HOME": f"{folder}/store"}
        command = [sys.executable, "-m", "ctx_pipeline"]
        subprocess.run([*command, "run", "--demo"], env=environment, check=True, stdout=subprocess.DEVNULL)
        demo = Path(folder, "store", "demo")
        IMAGES.mkdir(exist_ok=True)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto((demo / "site" / "index.html").as_uri())
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / "page.png")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            [*command, "ui", "--port", str(port)],
            env=environment | {"CTX_HOME": str(demo)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            lines = iter(server.stdout or ())
            address = next(found[0] for line in lines if (found := re.search(r"http://\S+token=\S+", line)))
            page.set_viewport_size({"width": 1400, "height": 840})
            page.goto(address)
            page.get_by_text("Hide navigation").click(timeout=60_000)
            page.wait_for_timeout(12_000)
            page.screenshot(path=IMAGES / "graph.png", clip={"x": 68, "y": 0, "width": 1332, "height": 640})
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
