"""A pool from a file of the user's: JSON Lines or Parquet, one item a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from backfire.environments.base import Pool
from backfire.environments.items.schema import Fault, faults, make_item
from backfire.errors import UserError
from backfire.items import Item

_MAX_FAULTS = 200
"""A file with more faults than these is of another kind altogether; the rest are counted."""


class _Row(NamedTuple):
    """A row and its place in the file; `data` is a Fault where it could not be read."""

    place: str
    data: Any


def build_pool(settings: Mapping[str, Any], seed: int) -> Pool:
    """The items of the file at `settings["path"]`, in its order; `seed` is not needed.

    Raises:
        UserError: the file cannot be read, or rows are at fault; one line for each fault.
    """
    path = Path(settings["path"])
    rows = list(_read(path))
    found: list[str] = []
    first: dict[str, str] = {}
    for place, data in rows:
        wrong = [data] if isinstance(data, Fault) else list(faults(data))
        item_id = data.get("item_id") if isinstance(data, dict) else None
        if isinstance(item_id, str) and first.setdefault(item_id, place) != place:
            wrong.append(Fault("item_id", f"the id of {first[item_id]} again", "each has its own"))
        found += [f"{path}: {place}: {fault}" for fault in wrong]
    if len(found) > _MAX_FAULTS:
        found[_MAX_FAULTS:] = [f"{path}: {len(found) - _MAX_FAULTS} more faults like these"]
    if found:
        raise UserError("\n".join(found))
    if not rows:
        raise UserError(f"{path}: found no items; one line for each item is right")
    return Pool([make_item(data) for _, data in rows])


def first_item(path: str | Path) -> Item | None:
    """The first item of a file, None where that row is at fault or there is none.

    Raises:
        UserError: the file cannot be read.
    """
    row = next(_read(Path(path)), None)
    if row is None or isinstance(row.data, Fault) or any(faults(row.data)):
        return None
    return make_item(row.data)


def _read(path: Path) -> Iterator[_Row]:
    readers = {".jsonl": _read_lines, ".ndjson": _read_lines, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: found the suffix {path.suffix!r}; .jsonl or .parquet is right")
    try:
        return reader(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"{path}: cannot be read ({reason}); `path:` names a file of items"
        ) from error


def _read_lines(path: Path) -> Iterator[_Row]:
    # Split at newlines alone: other separators of Unicode may stand inside a JSON text.
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return (
        _Row(f"line {number}", _parse(line))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    )


def _parse(line: bytes) -> Any:
    try:
        return json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
        return Fault("the line", byte, "UTF-8 is right")
    except json.JSONDecodeError as error:
        return Fault(
            "the line", f"no JSON at column {error.colno} ({error.msg})", "one object is right"
        )
    except (ValueError, RecursionError) as error:
        return Fault("the line", f"JSON that cannot be used ({error})", "one plain object is right")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!a} stands twice in one object")
    return data


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _read_parquet(path: Path) -> Iterator[_Row]:
    try:
        rows = pq.read_table(path).to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowInvalid, KeyError) as error:  # KeyError: a map that holds a key twice
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{path}: found no usable Parquet ({reason})") from error
    return (_Row(f"row {number}", _from_columns(row)) for number, row in enumerate(rows, start=1))


def _from_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON would have it."""
    if isinstance(row.get("error"), str):  # the pools of this project keep it as JSON text
        error = _parse(row["error"].encode("utf-8", "replace"))
        if not isinstance(error, Fault):
            row["error"] = error
    step = row.get("step")
    if isinstance(step, float) and step.is_integer():  # pandas, where some rows have no step
        row["step"] = int(step)
    return row
