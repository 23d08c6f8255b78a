"""One rollout job, and one job of the branch study: from a model's folder to a table of steps.

The branch study starts every harness from the same state, right after the first failure of each
greedy rollout. Without it harnesses cannot be compared: what happens later in a rollout differs
for other reasons too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backfire.chat import Chat
from backfire.harnesses import GREEDY, HARNESSES
from backfire.models import load_network, stop_ids
from backfire.play import Playground, playground
from backfire.provenance import versions
from backfire.rollouts import (
    Decoding,
    Start,
    after_first_failure,
    play,
    starting,
    tabulate,
)
from backfire.storage import read_json

_NEUTRAL = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "transformers_version",
    "_from_model_config",
)


def decoding_of(name: str, steps: int, temperature: float, seed: int) -> Decoding:
    """The decoding called `greedy`, or `seedN` for the Nth sample."""
    if name == GREEDY:
        return Decoding(steps)
    return Decoding(steps, temperature, f"{seed}/{name}")


def begin(
    settings: Mapping[str, Any], plan: Mapping[str, Any], seed: int
) -> tuple[Playground, list[Start]]:
    """The playground of an environment and the beginnings of its rollouts.

    Args:
        settings: the environment's entry in the config.
        plan: its entry under `rollouts`.

    Raises:
        UserError: the environment's own files cannot be read.
    """
    ground = playground(settings["kind"], settings, seed)
    return ground, starting(ground, plan["tasks"], plan["demonstrations"])


def roll_out(
    ground: Playground,
    starts: Sequence[Start],
    harness: str,
    decoding: Decoding,
    folder: str | Path,
    card: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any]]:
    """Rows of `rollouts.STEP_SCHEMA` of a rollout from every start, and how they were made."""
    chat = Chat.of(folder, card)
    network = load_network(folder, card["dtype"], card["device"])
    start = time.perf_counter()
    played = play(
        ground, starts, HARNESSES[harness], decoding, chat, network, turn_ends(chat, folder)
    )
    seconds = time.perf_counter() - start
    table = tabulate(played)
    generated = sum(table["generated_tokens"].to_pylist())
    made = {
        "model": dict(card),
        "versions": versions(),
        "harness": harness,
        "temperature": decoding.temperature,
        "not applied": penalties(folder),
        "rollouts": len(played),
        "near_ties": sum(table["near_ties"].to_pylist()),
        "generated_tokens": generated,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(generated / seconds, 2),
    }
    return table, made


def branch_out(
    ground: Playground,
    starts: Sequence[Start],
    greedy: pd.DataFrame,
    harness: str,
    decoding: Decoding,
    folder: str | Path,
    card: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any]]:
    """As `roll_out`, from right after the first failure of each of the rollouts `greedy`."""
    failures = after_first_failure(ground, starts, greedy)
    return roll_out(ground, failures, harness, decoding, folder, card)


def turn_ends(chat: Chat, folder: str | Path) -> frozenset[int]:
    """The tokens that end a turn: the model's, and every special token, which is no text."""
    added = chat.tokenizer.added_tokens_decoder.items()
    return stop_ids(folder, chat.tokenizer) | {token for token, one in added if one.special}


def penalties(folder: str | Path) -> dict[str, Any]:
    """What the checkpoint's generation config asks for; none of it is applied."""
    path = Path(folder) / "generation_config.json"
    asked = read_json(path) if path.exists() else {}
    return {key: asked[key] for key in sorted(asked) if key not in _NEUTRAL}
