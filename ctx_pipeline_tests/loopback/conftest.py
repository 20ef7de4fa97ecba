"""The three servers of the project, each a process of its own over one store of the sample sessions."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SECONDS = 250
JSON = "application/json"

LOCATION = "ctx_pipeline.definitions"
REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}

LAUNCH = """
mutation ($executionParams: ExecutionParams!) {
  launchRun(executionParams: $executionParams) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}
"""
START = "mutation ($schedule: ScheduleSelector!) { startSchedule(scheduleSelector: $schedule) { __typename } }"
DELETE = "mutation ($run: String!) { deleteRun(runId: $run) { __typename } }"
RUNS = "{ runsOrError { ... on Runs { results { runId status } } } }"
SCHEDULE = (
    "query ($schedule: ScheduleSelector!) { scheduleOrError(scheduleSelector: $schedule) { ... on Schedule { scheduleState { status } } } }"
)
NIGHTLY = {**REPOSITORY, "scheduleName": "nightly"}


def materialization(*paths: Sequence[str], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the variables of a launch of these assets."""
    selector = {**REPOSITORY, "jobName": "__ASSET_JOB", "assetSelection": [{"path": list(path)} for path in paths]}
    return {"executionParams": {"selector": selector, "mode": "default", "runConfigData": dict(config or {})}}


@dataclass(frozen=True)
class Server:
    """One server: where it is, its token, what it is asked, and the status of a right answer."""

    name: str
    port: int
    token: str
    method: str
    path: str
    body: bytes | None
    first: str
    """the address that lets a browser in"""
    group: int
    """the process group of the server and its children"""
    cookie: str = field(default="", repr=False)

    @property
    def opened(self) -> str:
        """The path of the first address."""
        return self.first.partition("?")[0]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer to exactly these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            # the rest of an opened WebSocket has no end
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, b"" if answer.status == 101 else answer.read()

    def post(self, query: str, **variables: Any) -> Any:
        """Return the answer to GraphQL from a page of the server's own, which has the cookie."""
        headers = [("Host", self.host), ("Origin", f"http://{self.host}"), ("Cookie", self.cookie), ("Content-Type", JSON)]
        status, _, body = self.ask("POST", "/graphql", headers, json.dumps({"query": query, "variables": variables}).encode())
        answer = json.loads(body)
        assert (status, "errors" in answer) == (200, False), answer
        (value,) = answer["data"].values()
        return value

    def state(self) -> tuple[dict[str, str], str]:
        """Return the status of every run and of the nightly schedule."""
        runs = {run["runId"]: run["status"] for run in self.post(RUNS)["results"]}
        return runs, self.post(SCHEDULE, schedule=NIGHTLY)["scheduleState"]["status"]


def let_in(process: subprocess.Popen[str], address: str, **asked: Any) -> Server:
    """Return the server behind a printed address, with the cookie that the address gives."""
    parts = urlsplit(address)
    token = parse_qs(parts.query)["token"][0]
    server = Server(port=parts.port or 0, token=token, first=f"{parts.path}?{parts.query}", group=process.pid, **asked)
    status, headers, _ = server.ask("GET", server.first, [("Host", server.host)])
    assert status == 303
    return replace(server, cookie=headers["set-cookie"].partition(";")[0])


def group(leader: int) -> set[int]:
    """Return the processes of a group."""
    listed = subprocess.run(["ps", "-axo", "pid=,pgid="], capture_output=True, text=True, check=True).stdout
    return {int(pid) for pid, found in map(str.split, listed.splitlines()) if int(found) == leader}


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder and the environment of a store with runs, tables and a page."""
    folder = tmp_path_factory.mktemp("servers")
    environ = copied(folder)
    done = processes.run([sys.executable, "-m", "ctx_pipeline", "run"], env=environ, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, environ


@contextlib.contextmanager
def started(store: tuple[Path, dict[str, str]], *words: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a command for longer than one test; its group ends with the block."""
    folder, environ = store
    said = folder / f"{words[0]}.out"
    command = [sys.executable, "-m", "ctx_pipeline", *words]
    with said.open("w") as out:
        process = subprocess.Popen(
            command, env=environ, cwd=folder, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
    try:
        yield process, said
    finally:
        processes.end(process)


def address_in(said: Path) -> str:
    """Return the address that a server printed, once it did."""
    assert eventually(lambda: "http://" in said.read_text() and said.read_text().endswith("\n")), said.read_text()
    return next(word for word in said.read_text().split() if word.startswith("http://"))


@pytest.fixture(scope="session")
def mcp(store: tuple[Path, dict[str, str]]) -> Iterator[Server]:
    with started(store, "mcp", "--http") as (process, said):
        address = address_in(said)
        token = (Path(store[1]["CTX_HOME"]) / "mcp-token").read_text().strip()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        yield let_in(process, f"{address}?token={token}", name="mcp", method="POST", path="/mcp", body=json.dumps(call).encode())


@pytest.fixture(scope="session")
def page(store: tuple[Path, dict[str, str]]) -> Iterator[Server]:
    with started(store, "dashboard", "serve", "--port", "0") as (process, said):
        yield let_in(process, address_in(said), name="page", method="GET", path="/index.html", body=None)


@pytest.fixture(scope="session")
def ui(store: tuple[Path, dict[str, str]]) -> Iterator[Server]:
    with started(store, "ui", "--port", "0") as (process, said):
        query = json.dumps({"query": "{ assetNodes { id } }"}).encode()
        yield let_in(process, address_in(said), name="ui", method="POST", path="/graphql", body=query)


@pytest.fixture(params=["mcp", "page", "ui"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the three servers."""
    found: Server = request.getfixturevalue(request.param)
    return found
