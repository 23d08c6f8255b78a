"""Score shards: what is asked of the scorer for each item, and how its answers are stored."""

from __future__ import annotations

import pyarrow as pa

SCORE_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        # failed, gold, distractor_1, distractor_2
        pa.field("candidate", pa.string(), nullable=False),
        pa.field("logprob", pa.float64()),  # nats; null when refused
        pa.field("refused", pa.string()),  # the reason, else null
        pa.field("n_tokens", pa.int32()),
        pa.field("n_bytes", pa.int32(), nullable=False),  # of the candidate, UTF-8
        pa.field("context_tokens", pa.int32()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("token_starts", pa.list_(pa.int32())),  # character offsets into the candidate
        pa.field("token_logprobs", pa.list_(pa.float64())),
        pa.field("greedy_match", pa.bool_()),
        pa.field("greedy_stop", pa.bool_()),
        pa.field("min_gap", pa.float64()),
        pa.field("prompt_sha256", pa.string(), nullable=False),
    ]
)
