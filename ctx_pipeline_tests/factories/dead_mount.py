"""A mount whose server takes no request: whoever looks below it waits until this program ends. Prints what came of mounting."""

from __future__ import annotations

import ctypes
import os
import sys

_DETACH = 2


def main(folder: str) -> None:
    """Mount, wait for standard input to end, unmount."""
    calls = ctypes.CDLL(None, use_errno=True)
    try:
        handle = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        print(error.strerror, flush=True)  # noqa: T201
        return
    options = f"fd={handle},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if calls.mount(b"dead", folder.encode(), b"fuse", 0, options.encode()):
        print(os.strerror(ctypes.get_errno()), flush=True)  # noqa: T201
        return
    print("mounted", flush=True)  # noqa: T201
    sys.stdin.read()
    calls.umount2(folder.encode(), _DETACH)
    os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1])
