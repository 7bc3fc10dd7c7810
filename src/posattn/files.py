"""Files that are written whole or not at all."""

import errno
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from posattn.errors import NoSpace, PosattnError, kind_of, require


def read_json(path: Path, *entries: str, fix: str) -> dict[str, Any]:
    """The JSON object in a file, which must have these entries; `fix` says what to do where it has not."""
    try:
        held = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:  # no JSON, no text at all, or nested without end
        raise PosattnError(f"'{path}' cannot be read ({error}): {fix}.") from None
    if not isinstance(held, dict):
        raise PosattnError(f"'{path}' cannot be read ({kind_of(held)}, no object): {fix}.")
    for entry in entries:
        require(entry in held, f"'{path}' cannot be read (it has no '{entry}'): {fix}.")
    return held


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    write_whole(path, json.dumps(value).encode())


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the file, flush to the disk, then rename over it: a reader sees the old file or the new one.

    Only regular files are replaced, and they keep their permissions; a new one has those that the umask leaves. A
    symbolic link stays, and what it points to is written. FIFOs and character devices are written to. Folders, block
    devices and sockets are refused.
    """
    path = Path(path)
    try:
        held = _status(path)
        if held is not None and (stat.S_ISFIFO(held.st_mode) or stat.S_ISCHR(held.st_mode)):
            _write_into(path, content)
        else:
            _check_replaceable(path, held)
            _replace(Path(os.path.realpath(path)), content, None if held is None else stat.S_IMODE(held.st_mode))
    except OSError as error:
        kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else PosattnError
        raise kind(
            f"cannot write '{path}': {error.strerror or error}. Nothing there was changed; check the folder, its "
            "permissions and its free space."
        ) from None


def _status(path: Path) -> os.stat_result | None:
    """What stands there, behind all links; None where nothing does."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _check_replaceable(path: Path, held: os.stat_result | None) -> None:
    if held is None:
        return
    if stat.S_ISDIR(held.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    require(
        stat.S_ISREG(held.st_mode),
        f"cannot write '{path}': it is a block device or a socket, and only files are replaced. Name another file.",
    )
    for stream in (1, 2):
        with suppress(OSError):  # closed
            require(
                not os.path.samestat(os.fstat(stream), held),
                f"cannot write '{path}': what this command prints goes there, too. Name another file.",
            )
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}")
    try:
        # Not by tempfile, whose files are for their owner alone: here the umask decides, as for any new file.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_into(path: Path, content: bytes) -> None:
    """Write to a FIFO or a device, without waiting for somebody to open the FIFO's other end."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        nobody = "nobody reads from it. Start the reader first" if error.errno == errno.ENXIO else error.strerror
        raise PosattnError(f"cannot write to '{path}': {nobody}.") from None
    try:
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise PosattnError(
            f"cannot write to '{path}': {error.strerror or error}. Part of the content may have arrived."
        ) from None


def make_folder(path: str | os.PathLike[str]) -> None:
    """The folder and all above it, if they are not there yet."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else PosattnError
        raise kind(f"cannot make the folder '{path}': {error.strerror}. Choose another place.") from None
