"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_place(path: str | os.PathLike[str]) -> Path:
    """`path`, where a file can be made: worth asking before long work whose result goes there.

    Raises `OSError` that names what is in the way: a folder of that name, or the file's
    folder, which does not exist or cannot be written to.
    """
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; give the name of a file in it", str(target))
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(folder)!r}; make it first", str(target))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"the folder {str(folder)!r} cannot be written to", str(target))
    return target


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name beside `path`, with its suffix, to write to; what is there at the end takes `path`'s place.

    After an error nothing is left. Raises `OSError` as `check_place` does.
    """
    target = check_place(path)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.partial{target.suffix}")
    try:
        yield partial
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
