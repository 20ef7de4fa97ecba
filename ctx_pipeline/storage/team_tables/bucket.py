"""Objects below one URL (``s3://``, ``gs://``, ``az://`` or a folder), with conditional creation; through obstore.

Credentials come from the provider's own chain (environment, web identity, instance) and are never stored.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from ctx_pipeline.errors import StoreError, StoreLocked, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

_REMOTE = re.compile(r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._/=-]*)?")
_MISSPELLED = re.compile(r"(?:s3a?|gs|az|abfss?):/?(?!/)", re.IGNORECASE)
"""A scheme without its two slashes, which would be the name of a folder."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=%-]*")
_REFUSED = re.compile(r"(?<![\w./-])40[13](?![\w.-])|forbidden|permission|accessdenied")
"""A status of HTTP, and not some figures of a duration or a name, or a word of it."""

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE = re.compile(r"\s*(?:stack backtrace:|backtrace:)?\s*\b0: (?:<unknown>|[\w<].*::).*", re.IGNORECASE)
_OF_THE_SERVER = re.compile(
    r"generic (?:s3|gcs|microsoftazure|azure) error|server returned|status code|timed? ?out|retries"
    # of a folder all but a path that is not there, is no folder, is one, or is a link to itself
    r"|os error (?!(?:2|20|21|40|62)\b)\d"
)
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
_PATIENCE = timedelta(seconds=20)
_AT_ONCE = 16
"""Requests that wait for the bucket at the same time."""


class NotATable(StoreError):
    """What lies there is no table that can be read, or not one of ours: somebody else wrote or removed parts of it."""


class BucketEntry(NamedTuple):
    """One object: its path below the URL, bytes, when the server (not the writer) says it was written, and its version."""

    path: str
    size: int
    modified: datetime
    tag: str


def at_once(function: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """Return what a function returns for each item, in their order, all asked at the same time: they wait for the bucket.

    Raises what the first of them raised, when all have ended; before all else that another process was first.
    """
    with ThreadPoolExecutor(min(max(len(items), 1), _AT_ONCE), "ctx-bucket") as pool:
        asked = [pool.submit(function, item) for item in items]
    errors = [error for one in asked if (error := one.exception())]
    for error in sorted(errors, key=lambda error: not isinstance(error, StoreLocked)):
        raise error
    return [one.result() for one in asked]


def team_url(text: str) -> str:
    """Return the URL of a team's bucket in one form, a folder as its absolute path; raises UsageError."""
    text = text.strip().removeprefix("file://")
    if _MISSPELLED.match(text):
        raise UsageError(f"{text!r} is no address of a bucket", hint="write s3://BUCKET/FOLDER, gs://, az:// or a folder")
    if "://" not in text:
        return str(Path(text).expanduser().absolute())
    if not _REMOTE.fullmatch(text) or ".." in text:
        raise UsageError(f"{text!r} is no address of a bucket", hint="write s3://BUCKET/FOLDER, gs://, az:// or a folder")
    return text.rstrip("/")


class Bucket:
    """The objects of one team by relative name (``a/b/c``)."""

    def __init__(self, url: str) -> None:
        self.url = team_url(url)
        self.is_folder = "://" not in self.url
        self._opened: Any = None

    @property
    def _store(self) -> Any:
        if self._opened is None:
            from obstore.store import LocalStore, from_url

            if self.is_folder:
                self._opened = LocalStore(self.url, mkdir=True)
            else:
                retry: Any = {"max_retries": 3, "retry_timeout": _PATIENCE}
                self._opened = from_url(self.url, retry_config=retry)
        return self._opened

    def is_there(self) -> bool:
        """Tell whether a folder is there; of a remote bucket the first request tells."""
        return not self.is_folder or Path(self.url).is_dir()

    def read(self, path: str) -> bytes | None:
        """Return the bytes of an object; None where there is none."""
        import obstore

        with self.explained(path):
            try:
                return bytes(obstore.get(self._store, _checked(path)).bytes())
            except FileNotFoundError:
                return None

    def write(self, path: str, body: bytes) -> None:
        """Write an object whole, over one that is there."""
        import obstore

        with self.explained(path):
            obstore.put(self._store, _checked(path), body)

    def create(self, path: str, body: bytes) -> bool:
        """Write an object where there is none; False where another writer was first (a conditional put)."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self.explained(path):
            try:
                obstore.put(self._store, _checked(path), body, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is gone already is no error."""
        import obstore

        for path in paths:
            with self.explained(path):
                try:
                    obstore.delete(self._store, _checked(path))
                except FileNotFoundError:
                    continue

    def entries(self, folder: str = "") -> list[BucketEntry]:
        """Return every object below a folder, by path."""
        import obstore

        with self.explained(folder):
            found = [one for page in obstore.list(self._store, f"{_checked(folder)}/" if folder else None) for one in page]
        return sorted(BucketEntry(str(one["path"]), int(one["size"]), one["last_modified"], str(one["e_tag"])) for one in found)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly below one."""
        import obstore

        with self.explained(folder):
            listed = obstore.list_with_delimiter(self._store, f"{_checked(folder)}/")
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in listed["common_prefixes"])

    def table_uri(self, path: str) -> str:
        """Return where the Delta table of a path lies."""
        return f"{self.url}/{_checked(path)}"

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        """Translate what a storage library raises into StoreError with what to do."""
        try:
            yield
        except Exception as error:
            told = self._translated(error, path)
            if told is error:
                raise
            raise told from error

    def _translated(self, error: Exception, path: str) -> Exception:
        module = type(error).__module__.partition(".")[0]
        if isinstance(error, StoreError | MemoryError) or module not in {"obstore", "deltalake", "_internal", "pyarrow", "builtins"}:
            return error
        text = _BACKTRACE.sub("", " ".join(_COLORS.sub("", str(error)).replace("\u21b3", "").split()))
        place = f"{self.url}/{path}".rstrip("/")
        lowered = text.lower()
        if "nosuchbucket" in lowered or "bucket does not exist" in lowered or "containernotfound" in lowered:
            return StoreError(f"there is no bucket {self.url}", hint="create it, or join with its right address: ctx team join URL")
        if any(word in lowered for word in ("requesttimetooskewed", "request time too skewed", "requestexpired")):
            return StoreError(
                f"{self.url} refuses this machine's clock", hint="set the clock (timedatectl set-ntp true), then run the command again"
            )
        if "account must be specified" in lowered:
            return StoreError(f"no storage account is named for {self.url}", hint="set AZURE_STORAGE_ACCOUNT_NAME, and sign in: az login")
        if "scheme is not allowed" in lowered or ("builder error" in lowered and " http://" in lowered):
            return StoreError(
                f"the endpoint of {self.url} is not encrypted (http)",
                hint="name one with https; of a server on this machine or in a closed network: AWS_ALLOW_HTTP=true",
            )
        if any(word in lowered for word in ("credential", "unauthenticated", "169.254.169.254", "/latest/api/token", "metadata.google")):
            return StoreError(
                f"no credentials for {self.url}", hint="sign in with the provider's own tool, or set its variables (AWS_ACCESS_KEY_ID, ...)"
            )
        if any(word in lowered for word in ("error sending request", "connection refused", "dns error", "operation timed out")):
            return StoreError(
                f"{self.url} does not answer",
                hint="see whether the network is there and the endpoint and region are right (AWS_ENDPOINT_URL, AWS_REGION); run it again",
            )
        if _REFUSED.search(lowered):
            return StoreError(
                f"{place} must not be read or written by these credentials",
                hint="a member writes below members/NAME and heads/NAME, a hub reads these and writes below team/",
            )
        text = text.replace(f"{place}/", "")  # the cause comes last
        if module != "obstore" and not _OF_THE_SERVER.search(lowered):
            return NotATable(f"{place}: {text[:200]}", hint="its machine sends all again: ctx publish --all")
        return StoreError(f"{place}: {text[:200]}", hint="what was sent so far stays; run the command again")


def json_object(body: bytes | None) -> dict[str, Any]:
    """Return what an object says; empty where it is missing or is no JSON object that can be read."""
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _checked(path: str) -> str:
    if not all(_NAME.fullmatch(part) and ".." not in part for part in path.split("/")):
        raise StoreError(f"{path!r} is no name inside a team's bucket", path=path)
    return path
