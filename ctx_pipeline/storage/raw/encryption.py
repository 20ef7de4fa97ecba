"""Raw objects encrypted at rest to a key of age, by pyrage; the key's file lies where the person keeps it, never in the store.

What says so is a file of the store with the public key and the path of the private one.
Names, sizes and origins of objects stay readable, so that the ledger can tell what there is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import RawLocked, StoreDamaged, UsageError

if TYPE_CHECKING:
    from ctx_pipeline.storage.files import Files

FILE = "raw-encryption.json"

_SEALED = b"age-encryption.org/v1\n"
"""What a file of age begins with (age-encryption.org/v1)."""

_known: dict[tuple[str, tuple[int, int, int]], RawKey] = {}
_opened: dict[tuple[str, int, int], list[Any]] = {}


class RawKey(NamedTuple):
    """To whom objects are encrypted, and where the key lies that opens them."""

    recipient: str
    """public key (``age1...``)"""
    identity: str
    """path of the file with the private key"""
    on: bool = True
    """whether what is written from now on is encrypted"""


def key_of(files: Files) -> RawKey | None:
    """Return the key of a store's raw objects; None where they are not encrypted. Raises StoreDamaged."""
    try:
        status = files.local(FILE).stat()
    except FileNotFoundError:
        return None
    place = (str(files.root), (status.st_mtime_ns, status.st_size, status.st_ino))
    if place not in _known:
        try:
            _known[place] = RawKey(**json.loads(files.read(FILE)))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"{FILE} cannot be read", hint="ctx encrypt --identity FILE says again which key it is") from error
    return _known[place]


def keep_key(files: Files, key: RawKey | None) -> None:
    """Say that objects are encrypted to a key from now on, or to none."""
    if key is None:
        files.remove(FILE)
    else:
        files.write(FILE, json.dumps(key._asdict()).encode())


def key_in(identity: Path) -> RawKey:
    """Return the key that a file of ``age-keygen`` holds; raises UsageError for a file that holds none, or one of SSH."""
    from ctx_pipeline.storage.sealed_copies import identities_of

    public = _public(identities_of(identity)[0])
    if not public:
        raise UsageError(f"{identity} is a key of SSH", hint="raw records are encrypted to a key that age-keygen makes")
    return RawKey(public, str(identity.expanduser().absolute()))


def is_sealed(body: bytes | memoryview) -> bool:
    """Tell whether the body of an object is encrypted."""
    return bytes(body[: len(_SEALED)]) == _SEALED


def sealed(files: Files, body: bytes) -> bytes:
    """Return the body of an object as it is to be written: encrypted where the store says so."""
    key = key_of(files)
    if key is None or not key.on:
        return body
    import pyrage

    return bytes(pyrage.encrypt(body, [pyrage.x25519.Recipient.from_str(key.recipient)]))


def unsealed(files: Files, body: bytes | memoryview, rel: str) -> bytes | memoryview:
    """Return what the body of an object holds; raises RawLocked without its key, StoreDamaged for one that was changed."""
    if not is_sealed(body):
        return body
    import pyrage

    key = key_of(files)
    if key is None:
        raise RawLocked(f"{rel} is encrypted, and the store does not say to which key", hint="ctx encrypt --identity FILE")
    try:
        return bytes(pyrage.decrypt(bytes(body), _identities(key)))
    except pyrage.DecryptError as error:
        raise StoreDamaged(f"{rel} cannot be opened with the key in {key.identity}, or was changed", hint="ctx verify --deep") from error


def require(files: Files) -> None:
    """Raise RawLocked where raw objects are encrypted and their key is not there: before anything is begun that needs them."""
    key = key_of(files)
    if key is not None:
        _identities(key)


def _identities(key: RawKey) -> list[Any]:
    from ctx_pipeline.storage.sealed_copies import identities_of

    hint = "put the file back, or say where it lies now: ctx encrypt --identity FILE"
    try:
        status = Path(key.identity).stat()
        place = (key.identity, status.st_mtime_ns, status.st_size)
        if place not in _opened:
            _opened[place] = identities_of(Path(key.identity))
    except (OSError, UsageError) as error:
        raise RawLocked(f"raw records are encrypted, and there is no key in {key.identity}", hint=hint) from error
    except ImportError as error:
        raise RawLocked("raw records are encrypted, and pyrage is not installed", hint="pip install 'ctx-pipeline[encrypt]'") from error
    if not any(_public(one) == key.recipient for one in _opened[place]):
        raise RawLocked(f"raw records are encrypted, and the key in {key.identity} is another one", hint=hint)
    return _opened[place]


def _public(identity: Any) -> str:
    return str(identity.to_public()) if hasattr(identity, "to_public") else ""
