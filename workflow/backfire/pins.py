"""Pins: which revision of a hub model a study uses, and what its files must hold.

The first download of a model pins it in `models.lock.json` beside the config; later downloads,
there or on another machine, must give the same files. A model's folder keeps its own pin.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from backfire.bundles import sha256_of
from backfire.errors import UserError
from backfire.storage import write_json

LOCK_NAME = "models.lock.json"
HUB = Path("resources/models/hub")
"""Where the folders of hub models lie, each under the name that it is locked by."""

_OWN = "pin.lock"
"""The lock file in a model's own folder; no `.json`, for those decide what a model computes."""


@dataclass(frozen=True)
class File:
    """A file of a model: its SHA-256 in hexadecimal, and its size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Pin:
    """A commit of a model's repository, and the files that are used of it, by name."""

    revision: str
    files: Mapping[str, File]

    def __post_init__(self) -> None:
        if any("/" in name for name in self.files):
            raise ValueError("a file's name leads out of the model's folder")

    def verify(self, folder: str | Path) -> None:
        """
        Raises:
            UserError: a file of the folder is missing, or is not the pinned one.
        """
        for name, file in self.files.items():
            path = Path(folder) / name
            if not path.exists():
                raise UserError(f"{path} is missing: delete the folder, and run again")
            if (found := sha256_of(path)) != file.sha256:
                raise UserError(
                    f"{path}: sha256 is {found}, pinned is {file.sha256}; the file was changed "
                    "after its download: delete the folder, and run again"
                )


def read(lock: str | Path) -> dict[str, Pin]:
    """The pins of a lock file by the models' names, `ORG/NAME` or `ORG/NAME@REVISION`.

    Raises:
        UserError: the file is not a lock file.
    """
    path = Path(lock)
    if not path.exists():
        return {}
    try:
        return {
            name: Pin(
                entry["revision"], {file: File(**known) for file, known in entry["files"].items()}
            )
            for name, entry in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: not a lock file of models ({type(error).__name__}: {error}); restore it, or "
            "delete it to pin all models anew"
        ) from error


def record(lock: str | Path, name: str, pin: Pin) -> None:
    """Add a pin to a lock file, which other downloads may be writing to.

    Raises:
        UserError: the model is pinned to something else.
    """
    with _alone(Path(lock).resolve().parent):
        known = read(lock)
        if known.setdefault(name, pin) != pin:
            raise UserError(f"{lock}: {name} has been pinned to {known[name].revision} meanwhile")
        write_json(lock, {name: asdict(pin) for name, pin in known.items()})


def of_folder(folder: str | Path) -> Pin | None:
    """The pin that a model's folder was made by; None for a model that is not from the hub."""
    return read(Path(folder) / _OWN).get(_OWN)


def mark(folder: str | Path, pin: Pin) -> None:
    """Keep a pin in the folder that was made by it."""
    write_json(Path(folder) / _OWN, {_OWN: asdict(pin)})


def faults(names: Iterable[str], lock: str | Path) -> Iterator[str]:
    """Models on disk that are not what the lock file says, a line each."""
    known = read(lock)
    for name in names:
        pin = of_folder(HUB / name)
        if pin is not None and known.get(name, pin) != pin:
            yield (
                f"{HUB / name} holds revision {pin.revision}, and {lock} pins "
                f"{known[name].revision}: delete the folder to get the pinned one, or the entry "
                "to keep the folder"
            )


def adopt(names: Iterable[str], lock: str | Path) -> None:
    """Pin the models that are on disk and that the lock file does not name yet."""
    for name in sorted(set(names) - set(read(lock))):
        pin = of_folder(HUB / name)
        if pin is not None:
            record(lock, name, pin)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
