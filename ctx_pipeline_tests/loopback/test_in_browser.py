"""A real browser whose person was let in: foreign pages move nothing, and the servers' own pages work."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest

from ctx_pipeline_tests.browser.conftest import CHROMIUM, NEEDED, SECONDS
from ctx_pipeline_tests.loopback.conftest import DELETE, LAUNCH, NIGHTLY, START, Server, materialization

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext, Page, Response

pytestmark = [pytest.mark.browser, pytest.mark.slow, NEEDED]

ATTACK = """
async ({http, ws, urls, bodies}) => {
  const posted = {method: "POST", credentials: "include"};
  const tried = [], opened = [], read = [];
  const soon = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, 10000))]);
  for (const url of urls) {
    await soon(new Promise((done) => {
      const image = new Image();
      image.onload = () => { opened.push("img " + url); done(); };
      image.onerror = done;
      image.src = url;
    }));
    for (const mode of ["no-cors", "cors"])
      await soon(fetch(url, {mode, credentials: "include"}).then((r) => r.text()).then((t) => t && read.push(t), () => tried.push("get")));
    await soon(new Promise((done) => {
      const script = document.createElement("script");
      script.onload = () => { opened.push("script " + url); done(); };
      script.onerror = done;
      script.src = url;
      document.body.append(script);
    }));
    await soon(new Promise((done) => {
      const frame = document.createElement("iframe");
      frame.onload = done;
      frame.src = url;
      document.body.append(frame);
    }));
    for (const [enctype, name] of [["text/plain", "x"], ["application/x-www-form-urlencoded", "query"], ["multipart/form-data", "query"]])
      for (const body of bodies) {
        const target = document.createElement("iframe");
        target.name = "t" + Math.random();
        const form = document.createElement("form");
        Object.assign(form, {action: url, method: "POST", enctype, target: target.name});
        const input = document.createElement("input");
        const plain = enctype === "text/plain";
        Object.assign(input, {name: plain ? body : name, value: plain ? "" : JSON.parse(body).query || body});
        form.append(input);
        document.body.append(target, form);
        await soon(new Promise((done) => { target.onload = done; form.submit(); }));
      }
    for (const body of bodies) {
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "text/plain;application/json"])
        await soon(fetch(url, {...posted, mode: "no-cors", headers: {"Content-Type": type}, body}).catch(() => {}));
      await soon(fetch(url, {...posted, headers: {"Content-Type": "application/json"}, body})
        .then((r) => r.text()).then((t) => read.push(t), () => tried.push("post")));
      navigator.sendBeacon(url, body);
    }
  }
  await soon(new Promise((done) => {
    const socket = new WebSocket(ws, "graphql-ws");
    socket.onopen = () => { opened.push("socket"); done(); };
    socket.onerror = socket.onclose = done;
  }));
  await new Promise((done) => setTimeout(done, 500));
  return {opened, read, tried: tried.length};
}
"""


class _Page(BaseHTTPRequestHandler):
    """An empty page of another site."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><body></body>")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def foreign_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made.server_port
        made.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    """A browser for which any name of ``.example`` means this machine, as after DNS rebinding."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI needs a Chromium for these tests"
    arguments = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=SECONDS * 1000)
        yield started
        started.close()


@pytest.fixture
def person(chromium) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(SECONDS * 1000)
    yield context
    context.close()


def _letting_in(person: BrowserContext, server: Server) -> Page:
    """Open the printed address, as the person does."""
    page = person.new_page()
    page.goto(f"http://{server.host}{server.first}", wait_until="commit")
    return page


def _bodies(server: Server, run: str) -> list[str]:
    if server.name == "mcp":
        call = {"name": "accept_memory", "arguments": {"memory_id": "m"}}
        return [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})]
    asked = [(LAUNCH, materialization(["raw", "segments"])), (DELETE, {"run": run}), (START, {"schedule": NIGHTLY})]
    return [json.dumps({"query": query, "variables": variables}) for query, variables in asked]


@pytest.mark.feature("servers.foreign-page")
@pytest.mark.parametrize("origin", ["http://127.0.0.1", "http://localhost", "http://evil.example"])
def test_a_foreign_page_moves_and_reads_nothing(person, server, ui, foreign_port, origin):
    before = ui.state()
    bodies = _bodies(server, next(iter(before[0])))
    _letting_in(person, server).close()
    (cookie,) = person.cookies()
    plain = f"http://{server.host}{server.path}"
    urls = [plain, *(f"{plain}?{urlencode({k: v if k == 'query' else json.dumps(v) for k, v in json.loads(b).items()})}" for b in bodies)]
    page = person.new_page()
    statuses: list[int] = []
    page.on("response", partial(_note, server, statuses))
    page.goto(f"{origin}:{foreign_port}/")

    found = page.evaluate(ATTACK, {"ws": f"ws://{server.host}{server.path}", "urls": urls, "bodies": bodies})

    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert found["opened"] == []
    assert found["read"] == []
    assert len(statuses) >= 6, "the browser did send them"
    assert set(statuses) <= {401, 403, 405, 415, 421}
    assert ui.state() == before


def _note(server: Server, statuses: list[int], response: Response) -> None:
    if urlsplit(response.url).port == server.port:
        statuses.append(response.status)


@pytest.mark.feature("servers.foreign-page")
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(person, server):
    _letting_in(person, server).close()
    page = person.new_page()

    answer = page.goto(f"http://rebound.example:{server.port}{server.first}")
    found = page.evaluate("async (path) => { const a = await fetch(path); return [a.status, await a.text()]; }", server.path)

    assert answer.status == found[0] == 421
    assert server.token not in found[1]


@pytest.mark.feature("ui.in-browser", "cli.ui")
def test_the_asset_graph_is_drawn_behind_the_gate(person, ui):
    page = person.new_page()
    sockets: list[str] = []
    refused: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sockets.append(str(frame))))
    page.on("response", lambda response: refused.append(response.url) if response.status >= 400 else None)
    page.goto(f"http://{ui.host}{ui.first}")
    for name in ("signals", "mined", "memory"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.get_by_text("Materialize all").first.wait_for()

    assert page.url == f"http://{ui.host}/asset-groups"
    assert page.evaluate("document.cookie") == ""
    assert any("connection_ack" in frame for frame in sockets)
    assert refused == []


@pytest.mark.feature("dashboard.serve")
def test_the_page_is_drawn_behind_the_gate(person, page):
    opened = person.new_page()
    refused: list[str] = []
    opened.on("response", lambda response: refused.append(response.url) if response.status >= 400 else None)
    opened.goto(f"http://{page.host}{page.first}")
    opened.wait_for_selector("#session-table tbody tr")

    assert opened.url == f"http://{page.host}/index.html"
    assert refused == []


@pytest.mark.feature("search.typos", "search.time-words")
def test_the_search_box_says_which_days_and_words_were_searched_instead(person, page):
    opened = person.new_page()
    opened.goto(f"http://{page.host}{page.first}")
    opened.wait_for_selector("#session-table tbody tr")
    told = opened.locator("#found .searched")
    for query, expected in {
        "exportt": "Nothing holds exportt: export was looked for.",
        "export in January 2001": "Nothing in 2001-01-01 to 2001-01-31: all days were searched",
    }.items():
        opened.locator("#find").fill(query)
        told.filter(has_text=expected).wait_for()
        assert opened.locator("#found mark").count()
    opened.locator("#find").fill("export")
    told.wait_for(state="detached")
    assert opened.locator("#found mark").count()
