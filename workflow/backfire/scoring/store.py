"""The score store: what was ever computed, by content.

A score is a function of the model, the context and the continuation. The store is a folder of
immutable Parquet files, one per pack of the engine, below a name that stands for all else that
decides a score: the model's fingerprint, its dtype, the scoring code and its libraries. Files
are written whole or not at all and under names that no other job has, so jobs can share it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from transformers import PreTrainedModel

from backfire.digests import digest_of
from backfire.errors import UserError
from backfire.scoring import Refusal, Request, Score
from backfire.scoring.engine import Engine
from backfire.scoring.plan import refusal
from backfire.storage import replacing

log = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(32), nullable=False),
        pa.field("token_logprobs", pa.list_(pa.float64()), nullable=False),
        pa.field("argmax_match", pa.list_(pa.bool_()), nullable=False),
        pa.field("next_argmax", pa.int64(), nullable=False),
        pa.field("min_gap", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Answers:
    """Results in the order of the requests, and where they came from.

    `hits + computed` is the number of distinct requests that have a score.
    """

    results: list[Score | Refusal]
    hits: int
    computed: int


def key_of(request: Request) -> bytes:
    """The SHA-256 of a request's token ids."""
    digest = hashlib.sha256(len(request.context_ids).to_bytes(8, "little"))
    digest.update(np.array(request.context_ids + request.continuation_ids, "<i8").tobytes())
    return digest.digest()


class ScoreStore:
    """The scores of one model, as computed by this code.

    Args:
        root: the folder of all stores.
        fingerprint: what identifies the model's weights and configuration.
        dtype: the dtype that it computes in.
    """

    def __init__(self, root: str | Path, fingerprint: str, dtype: str) -> None:
        self.made = {
            "fingerprint": fingerprint,
            "dtype": dtype,
            "code": digest_of("backfire.scoring.engine"),
            "schema": SCHEMA.to_string(),
            "versions": {name: version(name) for name in ("numpy", "torch", "transformers")},
        }
        written = json.dumps(self.made, sort_keys=True).encode()
        self.folder = Path(root) / hashlib.sha256(written).hexdigest()[:32]

    def read(self, keys: set[bytes]) -> dict[bytes, Score]:
        """The scores that the store holds for `keys`; a file that cannot be read is passed over."""
        found: dict[bytes, Score] = {}
        wanted = pa.array(sorted(keys), pa.binary(32))
        for path in sorted(self.folder.glob("*.parquet")):
            try:
                table = pq.read_table(path, page_checksum_verification=True)
                if not table.schema.equals(SCHEMA):
                    raise pa.ArrowInvalid("unexpected columns")
            except (pa.ArrowException, OSError) as error:
                reason = str(error).partition("\n")[0]
                log.warning("%s: passed over, its scores are recomputed: %s", path, reason)
                continue
            for row in table.filter(pc.is_in(table["key"], wanted)).to_pylist():
                logprobs, matches = map(np.array, (row["token_logprobs"], row["argmax_match"]))
                score = Score(logprobs, matches, row["next_argmax"], row["min_gap"])
                found.setdefault(row["key"], score)
        return found

    def write(self, scores: dict[bytes, Score]) -> None:
        """Add scores, in one file.

        Raises:
            UserError: the file cannot be written, for want of space for example.
        """
        rows = [{"key": key, **asdict(score)} for key, score in scores.items()]
        metadata = {"backfire": json.dumps(self.made, sort_keys=True)}
        table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata(metadata))
        try:
            with replacing(self.folder / f"{secrets.token_hex(16)}.parquet") as temporary:
                pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"{self.folder}: cannot write scores ({error.strerror or error}); "
                "mend that and run again: what is there already is kept"
            ) from error


def cached_score(
    load_network: Callable[[], PreTrainedModel],
    window: int,
    requests: Sequence[Request],
    store: ScoreStore,
    **options: Any,
) -> Answers:
    """Score requests, computing only what the store lacks, each distinct request once.

    Args:
        load_network: called only if something has to be computed.
        window: how many positions the model can see; longer requests are refused, and refused
            requests are not stored.
        store: receives what each pack completes as soon as it is done.
        options: for `Engine`.

    Raises:
        NonFiniteLogits: the model gave NaN or infinite logits.
        UserError: the store cannot be written.
    """
    refusals = [refusal(request, window) for request in requests]
    keys = [key_of(r) if no is None else b"" for r, no in zip(requests, refusals, strict=True)]
    distinct = {key: request for key, request in zip(keys, requests, strict=True) if key}
    scores = store.read(set(distinct))
    hits = len(scores)
    missing = [key for key in distinct if key not in scores]
    log.info("%d requests, %d distinct: %d in the store, %d to compute",
             len(requests), len(distinct), hits, len(missing))  # fmt: skip
    if missing:
        engine = Engine(load_network(), **options)
        for batch in engine.run([distinct[key] for key in missing]):
            done = {missing[i]: s for i, s in batch if isinstance(s, Score)}
            if len(done) < len(batch):
                raise ValueError(f"the model's window is {engine.window}, not {window}")
            store.write(done)
            scores.update(done)
    results = [no or scores[key] for no, key in zip(refusals, keys, strict=True)]
    return Answers(results, hits, len(missing))
