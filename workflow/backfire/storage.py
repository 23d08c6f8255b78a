"""Files on disk: every write is whole or absent, and says how it was made."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_MADE = b"backfire"
_TEMPORARY = re.compile(r"\..+\.(\d+)-[0-9a-f]{8}\.tmp")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well.

    The name cannot clash with another process's; file or folder, nothing of it stays behind
    when the block raises. A folder replaces an older one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if temporary.is_dir() and path.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def sweep(folder: str | Path) -> int:
    """Remove the temporary files and folders that killed writers left; how many there were.

    For when nothing writes on other machines; a writer that lives on this one keeps its own.
    """
    named = [(path, _TEMPORARY.fullmatch(path.name)) for path in Path(folder).rglob(".*.tmp")]
    left = [path for path, name in named if name and not _lives(int(name[1]))]
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return len(left)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with `\\n` line ends."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_table(path: str | Path, table: pa.Table, made: Mapping[str, Any] | None = None) -> None:
    """Write a Parquet file; `made` (JSON) says how, and is kept in its metadata."""
    kept = dict(table.schema.metadata or {})
    kept[_MADE] = json.dumps(made or {}, sort_keys=True).encode()
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata(kept), temporary, compression="zstd")


def write_frame(
    path: str | Path,
    frame: pd.DataFrame,
    schema: pa.Schema,
    made: Mapping[str, Any] | None = None,
) -> None:
    """Write a data frame as Parquet under `schema`."""
    write_table(path, pa.Table.from_pandas(frame, schema=schema, preserve_index=False), made)


def read_tables(paths: Iterable[str | Path]) -> pa.Table:
    """Parquet files of one schema, one after the other, without how they were made."""
    tables = [pq.read_table(path).replace_schema_metadata(None) for path in paths]
    return pa.concat_tables(tables)


def read_made(path: str | Path) -> dict[str, Any]:
    """How a Parquet file was made."""
    metadata = pq.read_schema(path).metadata or {}
    made: dict[str, Any] = json.loads(metadata.get(_MADE, b"{}"))
    return made
