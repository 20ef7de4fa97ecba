"""A bucket for tests of a team: a folder, or one of an S3-shaped server on loopback."""

from __future__ import annotations

import io
import logging
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.storage.team_tables.bucket import Bucket

pytest.importorskip("deltalake")
pytest.importorskip("obstore")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3-shaped server with conditional puts."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The URL of an empty bucket."""
    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"team-{abs(hash(request.node.nodeid)) % 10**12}"
    with urllib.request.urlopen(urllib.request.Request(f"{s3_server}/{name}", method="PUT")) as answer:
        assert answer.status == 200
    return f"s3://{name}"


@pytest.fixture
def folder_bucket(tmp_path: Path) -> str:
    """A shared folder."""
    return str(tmp_path / "bucket")


Unpacked = Callable[..., set[str]]


@pytest.fixture
def unpacked() -> Unpacked:
    """Return which of some words stand in any object of a bucket: in its bytes, and in the values of its Parquet files."""

    def found(url: str, *words: str) -> set[str]:
        import pyarrow.parquet as pq

        bucket = Bucket(url)
        said = set()
        for entry in bucket.entries():
            body = bucket.read(entry.path) or b""
            texts = [body.decode("utf-8", "replace"), entry.path]
            if entry.path.endswith(".parquet"):
                texts.append(str(pq.read_table(io.BytesIO(body)).to_pylist()))
            said |= {word for word in words if any(word in text for text in texts)}
        return said

    return found
