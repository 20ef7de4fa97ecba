"""One table of requests against every server of the project, each a real process."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from websockets.sync.client import connect

from ctx_pipeline_tests import processes
from ctx_pipeline_tests.loopback.conftest import (
    DELETE,
    JSON,
    LAUNCH,
    NIGHTLY,
    START,
    Server,
    address_in,
    group,
    let_in,
    materialization,
    started,
)
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

BAD_HOST = {400, 421}
"""The HTTP parser may be the first to refuse a request without one clear Host."""


@dataclass(frozen=True)
class Row:
    """A request that is right but for one thing, and the statuses that may answer it.

    None takes a header out, a list sends it several times.
    """

    name: str
    status: set[int]
    headers: Callable[[Server], dict[str, Any]] = lambda _: {}
    method: str = ""
    path: Callable[[Server], str] = lambda server: server.path


def _with(name: str, value: Any) -> Callable[[Server], dict[str, Any]]:
    return lambda server: {name: value(server) if callable(value) else value}


def _posted(kind: str | None) -> Callable[[Server], dict[str, Any]]:
    return _with("Content-Type", kind)


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
    "Sec-WebSocket-Protocol": "graphql-ws",
    "Content-Type": None,
}


def _socket(**more: Any) -> Callable[[Server], dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return lambda server: {**UPGRADE, "Origin": f"http://{server.host}", **named}


REFUSED = [
    Row("foreign Host", {421}, _with("Host", "evil.example")),
    Row("rebound Host", {421}, _with("Host", lambda s: f"evil.example:{s.port}")),
    Row("Host of another port", {421}, _with("Host", lambda s: f"127.0.0.1:{s.port + 1}")),
    Row("Host without the port", {421}, _with("Host", "127.0.0.1")),
    Row("Host that begins alike", {421}, _with("Host", lambda s: f"{s.host}.evil.example")),
    Row("no Host", BAD_HOST, _with("Host", None)),
    Row("two Hosts", BAD_HOST, _with("Host", lambda s: [s.host, "evil.example"])),
    Row("the same Host twice", BAD_HOST, _with("Host", lambda s: [s.host, s.host])),
    Row("foreign Origin", {403}, _with("Origin", "http://evil.example")),
    Row("Origin of another port", {403}, _with("Origin", lambda s: f"http://127.0.0.1:{s.port + 1}")),
    Row("Origin of another scheme", {403}, _with("Origin", lambda s: f"https://{s.host}")),
    Row("Origin null", {403}, _with("Origin", "null")),
    Row("two Origins", {403}, _with("Origin", lambda s: [f"http://{s.host}", "http://evil.example"])),
    Row("cross-site fetch", {403}, _with("Sec-Fetch-Site", "cross-site")),
    Row("fetch from another port", {403}, _with("Sec-Fetch-Site", "same-site")),
    Row("no token", {401}, _with("Cookie", None)),
    Row("wrong cookie", {401}, _with("Cookie", lambda s: f"{s.cookie.partition('=')[0]}=wrong")),
    Row("the token as the cookie", {401}, _with("Cookie", lambda s: f"{s.cookie.partition('=')[0]}={s.token}")),
    Row("cookie of another port", {401}, _with("Cookie", lambda s: s.cookie.replace(str(s.port), str(s.port + 1)))),
    Row("wrong token", {401}, lambda _: {"Cookie": None, "Authorization": "Bearer wrong"}),
    Row("longer token", {401}, lambda s: {"Cookie": None, "Authorization": f"Bearer {s.token}x"}),
    Row("two tokens", {401}, lambda s: {"Cookie": None, "Authorization": [f"Bearer {s.token}", f"Bearer {s.token}"]}),
    Row("wrong token in the address", {401}, _posted(None), "GET", lambda s: f"{s.opened}?token=wrong"),
    Row("two tokens in the address", {401}, _posted(None), "GET", lambda s: f"{s.opened}?token={s.token}&token={s.token}"),
    Row(
        "token in the address of a POST",
        {401},
        lambda _: {"Cookie": None, "Content-Type": JSON},
        "POST",
        lambda s: f"{s.path}?token={s.token}",
    ),
    Row("form", {415}, _posted("application/x-www-form-urlencoded"), "POST"),
    Row("form with a file", {415}, _posted("multipart/form-data; boundary=x"), "POST"),
    Row("form as text", {415}, _posted("text/plain"), "POST"),
    Row("JSON named in a text", {415}, _posted("text/plain; a=application/json"), "POST"),
    Row("POST of no type", {415}, _posted(None), "POST"),
    Row("socket of a foreign Origin", {403}, _socket(Origin="http://evil.example")),
    Row("socket of Origin null", {403}, _socket(Origin="null")),
    Row("socket of a foreign Host", {403}, _socket(Host="evil.example")),
    Row("socket of a cross-site page", {403}, _socket(Sec_Fetch_Site="cross-site")),
    Row("socket without the cookie", {403}, _socket(Cookie=None)),
]

TAKEN = [
    Row("cookie", {200}),
    Row("cookie among others", {200}, _with("Cookie", lambda s: f"{s.cookie.partition('=')[0]}=old; a=b; {s.cookie}")),
    Row("token", {200}, lambda s: {"Cookie": None, "Authorization": f"Bearer {s.token}"}),
    Row("own page", {200}, lambda s: {"Origin": f"http://{s.host}", "Sec-Fetch-Site": "same-origin"}),
    Row("other name", {200}, lambda s: {"Host": f"localhost:{s.port}", "Origin": f"http://localhost:{s.port}"}),
    Row("typed by a person", {200}, _with("Sec-Fetch-Site", "none")),
]


def _sent(server: Server, row: Row) -> tuple[int, dict[str, str], bytes]:
    asked = {"Host": server.host, "Accept": f"{JSON}, text/event-stream", "Cookie": server.cookie, **row.headers(server)}
    method = "GET" if "Upgrade" in asked else row.method or server.method
    if method == "POST":
        asked = {"Content-Type": JSON, **asked}
    pairs = [(name, one) for name, value in asked.items() if value is not None for one in (value if isinstance(value, list) else [value])]
    return server.ask(method, row.path(server), pairs, (server.body or b"{}") if method == "POST" else None)


@pytest.mark.feature("servers.gate")
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name.replace(" ", "-"))
def test_a_request_that_another_page_could_send_is_refused(server, row):
    """Every row has the right cookie unless it says otherwise: a page of another port of this machine is sent with it."""
    status, headers, body = _sent(server, row)

    assert status in row.status
    assert "set-cookie" not in headers
    assert server.token.encode() not in body


@pytest.mark.feature("servers.gate")
@pytest.mark.parametrize("row", TAKEN, ids=lambda row: row.name.replace(" ", "-"))
def test_the_same_request_of_the_servers_own_page_is_answered(server, row):
    status, headers, body = _sent(server, row)

    assert status in row.status
    assert len(body) > 100
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["cache-control"] == "no-store"


@pytest.mark.feature("servers.first-address")
def test_the_first_address_gives_a_cookie_that_no_script_reads_and_drops_the_token(server):
    path = f"{server.opened}?a=1&token={server.token}&b=%C3%A4"
    status, headers, body = server.ask("GET", path, [("Host", server.host)])
    cookie, *attributes = headers["set-cookie"].split("; ")

    assert (status, headers["location"]) == (303, f"http://{server.host}{server.opened}?a=1&b=%C3%A4")
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert cookie == server.cookie
    assert server.token not in cookie + headers["location"] + body.decode()
    assert server.ask("GET", f"//evil.example/?token={server.token}", [("Host", server.host)])[1]["location"].startswith(
        f"http://{server.host}/"
    )
    assert server.ask("GET", path, [("Host", server.host), ("Sec-Fetch-Site", "cross-site")])[0] == 403


@pytest.mark.feature("servers.page-files")
def test_the_page_gives_files_of_its_folder_and_nothing_else(page):
    def status(path: str) -> int:
        return page.ask("GET", path, [("Host", page.host), ("Cookie", page.cookie)])[0]

    assert status("/index.html") == 200
    assert [status(path) for path in ("/assets/", "/assets", "/../config.toml", "/%2e%2e/ledger.db", "/..%2fledger.db", "/none")] == [
        404
    ] * 6
    assert page.ask("PUT", "/index.html", [("Host", page.host), ("Cookie", page.cookie)], b"{}")[0] == 405


@pytest.mark.feature("ui.get-changes-nothing")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("accept", ["image/*", "text/html", "*/*"])
def test_graphql_by_get_is_refused_whatever_it_carries(ui, method, accept):
    before = ui.state()
    for query in (LAUNCH, START, DELETE, "subscription { x }", "{ version }"):
        asked = urlencode({"query": query, "variables": json.dumps({**materialization(["raw", "segments"]), "schedule": NIGHTLY})})
        headers = [("Host", ui.host), ("Cookie", ui.cookie), ("Accept", accept)]
        assert ui.ask(method, f"/graphql?{asked}", headers)[0] == 405
        assert ui.ask(method, f"/%67raphql?{asked}", headers)[0] == 405
    assert ui.state() == before


@pytest.mark.feature("ui.foreign-graphql")
def test_graphql_of_a_foreign_page_launches_deletes_and_starts_nothing(ui):
    before = ui.state()
    (run, *_), _ = before
    asked = [
        {"query": LAUNCH, "variables": materialization(["raw", "segments"])},
        {"query": DELETE, "variables": {"run": run}},
        {"query": START, "variables": {"schedule": NIGHTLY}},
    ]
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{ui.port + 1}"):
        for body in asked:
            headers = [("Host", ui.host), ("Origin", origin), ("Cookie", ui.cookie), ("Content-Type", JSON)]
            assert ui.ask("POST", "/graphql", headers, json.dumps(body).encode())[0] == 403
    for body in asked:
        as_form = f"/graphql?{urlencode({'query': body['query'], 'variables': json.dumps(body['variables'])})}"
        assert ui.ask("POST", as_form, [("Host", ui.host), ("Cookie", ui.cookie)], b"")[0] == 415
    reported = f"/report_asset_materialization/{quote('raw/segments')}"
    assert ui.ask("POST", reported, [("Host", ui.host), ("Cookie", ui.cookie), ("Content-Type", "text/plain")], b"{}")[0] == 415
    assert ui.state() == before


@pytest.mark.feature("ui.works")
def test_a_person_who_was_let_in_sees_the_graph_and_makes_a_cell(ui):
    nodes = ui.post("{ assetNodes { assetKey { path } } }")
    assert ["warehouse", "duckdb"] in [node["assetKey"]["path"] for node in nodes]

    launched = ui.post(LAUNCH, **materialization(["search", "index"]))

    assert launched["__typename"] == "LaunchRunSuccess", launched
    run = launched["run"]["runId"]
    assert eventually(lambda: ui.state()[0][run] in {"SUCCESS", "FAILURE"}, 200)
    assert ui.state()[0][run] == "SUCCESS"


@pytest.mark.feature("ui.works")
def test_a_socket_of_the_own_page_is_answered(ui):
    headers = {"Cookie": ui.cookie}
    with connect(f"ws://{ui.host}/graphql", origin=f"http://{ui.host}", subprotocols=["graphql-ws"], additional_headers=headers) as talk:
        talk.send(json.dumps({"type": "connection_init"}))
        assert json.loads(talk.recv(60)) == {"type": "connection_ack"}


@pytest.mark.feature("ui.probe")
def test_whoever_has_the_token_learns_whether_the_ui_answers(ui):
    headers = [("Host", ui.host), ("Authorization", f"Bearer {ui.token}")]
    status, _, body = ui.ask("GET", "/server_info", headers)

    assert status == 200
    assert json.loads(body)["dagster_version"]


@pytest.mark.feature("warehouse.fixed-config")
@pytest.mark.parametrize(
    "config",
    [
        {"connection_config": {"custom_extension_repository": "http://127.0.0.1:9", "s3_region": "x"}},
        {"connection_config": {"autoinstall_known_extensions": "true"}},
        {"database": "/tmp/elsewhere.duckdb"},
    ],
)
def test_the_configuration_of_a_run_cannot_reach_duckdb(ui, config):
    before = ui.state()

    answer = ui.post(LAUNCH, **materialization(["warehouse", "duckdb"], config={"resources": {"duckdb": {"config": config}}}))

    assert answer["__typename"] == "RunConfigValidationInvalid"
    assert "unexpected config entry" in answer["errors"][0]["message"]
    assert ui.state() == before


@pytest.mark.feature("ui.only-door")
def test_nothing_of_the_ui_listens_but_the_gate(ui):
    """Code server and daemon speak over sockets in files; those are the person's own."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("this system has no /proc/net")
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    listening = {f"socket:[{row[9]}]": row[1] for row in rows if row[3] == "0A"}
    members = group(ui.group)
    ours = {listening[link] for pid in members for link in _links(pid) if link in listening}

    assert len(members) >= 4
    assert ours == {f"0100007F:{ui.port:04X}"}


def _links(pid: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(file.readlink()))
    return found


@pytest.mark.feature("ui.ends", "dagster.watch-command")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_ui_ends_with_all_that_it_started(store, how):
    with started(store, "ui", "--port", "0", "--watch") as (process, said):
        ui = let_in(process, address_in(said), name="ui", method="POST", path="/graphql", body=None)
        _, schedule = ui.state()
        children = group(ui.group) - {process.pid}
        process.send_signal(how)
        status = process.wait(100)
        ended = [processes.gone(pid) for pid in children]

    assert schedule == "RUNNING"
    assert len(ended) >= 3
    assert (status, all(ended)) == (0, True)


@pytest.mark.feature("servers.port-taken")
@pytest.mark.parametrize("words", [("ui",), ("dashboard", "serve"), ("mcp", "--http")], ids=lambda words: words[0])
def test_a_port_that_is_taken_is_said_at_once(store, page, words):
    folder, environ = store

    done = processes.run([sys.executable, "-m", "ctx_pipeline", *words, "--port", str(page.port)], env=environ, cwd=folder)

    assert done.returncode == 1
    assert f"port {page.port} cannot be used" in done.stderr
    assert "--port 0" in done.stderr
