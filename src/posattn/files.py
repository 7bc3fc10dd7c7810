"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from posattn.errors import PosattnError


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the file, flush to the disk, then rename over it: a reader sees the old file or the new one."""
    path = Path(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise PosattnError(
            f"cannot write '{path}': {error.strerror or error}. Nothing there was changed; check the folder, its "
            "permissions and its free space."
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def make_folder(path: str | os.PathLike[str]) -> None:
    """The folder and all above it, if they are not there yet."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PosattnError(f"cannot make the folder '{path}': {error.strerror}. Choose another place.") from None
