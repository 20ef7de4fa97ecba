"""Files encrypted to recipients of age, by pyrage: whoever holds the store can write them, and only an identity can read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.storage.snapshots import write_through

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIX = ".age"

_PUBLIC = ("age1", "ssh-")
_HINT = "make a key with age-keygen; its public part begins with age1"


def recipients_of(said: Sequence[str]) -> list[str]:
    """Return recipients (``age1...`` or a public key of SSH) as they were named, or from the lines of the files that were named.

    Raises UsageError for what is none; it never quotes what was given, which may be a private key.
    """
    found: list[str] = []
    for number, one in enumerate(said, 1):
        if one.startswith(_PUBLIC):
            lines, place = [one], f"recipient {number}"
        else:
            try:
                lines, place = Path(one).expanduser().read_text("utf-8").splitlines(), f"the file of recipient {number}"
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"recipient {number} is neither a public key nor a file of them", hint=_HINT) from error
        lines = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if any(not _is_recipient(line) for line in lines):
            raise UsageError(f"{place} holds something else than public keys", hint=_HINT)
        found += lines
    if not found:
        raise UsageError("no recipient is named", hint=_HINT)
    return list(dict.fromkeys(found))


def identities_of(path: Path) -> list[Any]:
    """Return the private keys of a file: lines of ``age-keygen``, or a private key of SSH without a passphrase.

    Raises UsageError for a file that holds none.
    """
    import pyrage

    try:
        content = path.expanduser().read_bytes()
        if content.startswith(b"-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(content)]
        lines = [line.strip() for line in content.decode().splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (OSError, UnicodeDecodeError, pyrage.IdentityError) as error:
        raise UsageError(f"{path} holds no key that can be read", hint="name the file that age-keygen wrote") from error
    if not found:
        raise UsageError(f"{path} holds no key", hint="name the file that age-keygen wrote")
    return found


def seal(source: Path, target: Path, recipients: Sequence[str]) -> str:
    """Write a file encrypted, whole or not at all, for its owner alone; return the SHA-256 of what was written.

    Raises FileNotFoundError where the source is gone.
    """
    import pyrage

    keys = [recipient(one) for one in recipients]
    return write_through(source, target, lambda read, written: pyrage.encrypt_io(read, written, keys))


def unseal(source: Path, target: Path, identities: Sequence[Any], *, modified_ns: int | None = None) -> None:
    """Write the plain text of an encrypted file, whole or not at all, for its owner alone.

    Raises StoreDamaged where none of the keys opens it or where it was changed.
    """
    import pyrage

    try:
        write_through(source, target, lambda read, written: pyrage.decrypt_io(read, written, list(identities)), modified_ns=modified_ns)
    except pyrage.DecryptError as error:
        raise StoreDamaged(
            f"{source} cannot be opened with this key, or was changed", hint="name another key, or use another backup"
        ) from error


def recipient(text: str) -> Any:
    """Return a public key as pyrage takes it; raises what pyrage raises for what is none."""
    import pyrage

    return pyrage.ssh.Recipient.from_str(text) if text.startswith("ssh-") else pyrage.x25519.Recipient.from_str(text)


def _is_recipient(text: str) -> bool:
    import pyrage

    try:
        return text.startswith(_PUBLIC) and recipient(text) is not None
    except pyrage.RecipientError:
        return False
