"""Time rollouts in lockstep beside the same rollouts one at a time, on the study's own tasks.

    PYTHONPATH=workflow python benchmarks/decoding.py --help

Three ways to write the same greedy turns, in one process, in turn, several times over:

- `lockstep`: all tasks advance together, one forward pass for a token of each;
- `one at a time`: the same decoder, a task after the other, each with its cache from turn to turn;
- `generate`: transformers' own `generate`, a task after the other, its cache cropped to what the
  next prompt shares with it.

All are charged for their prompts, and have to write the same tokens, near-ties apart.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import torch
from transformers import DynamicCache, StoppingCriteriaList

import backfire.rollouts as loop
from backfire.chat import Chat
from backfire.decoding import Decoder, Turn, Written, common_prefix
from backfire.harnesses import HARNESSES
from backfire.models import load_network
from backfire.play import Playground, playground
from backfire.rollout_jobs import turn_ends
from backfire.rollouts import Decoding, Rollout, Start, play, starting


def texts(rollouts: Sequence[Rollout]) -> list[list[str]]:
    return [[step["text"] for step in rollout.steps] for rollout in rollouts]


def counted(rollouts: Sequence[Rollout]) -> int:
    return sum(step["generated_tokens"] for one in rollouts for step in one.steps)


class Generate:
    """Writes each turn with transformers' `generate`, for a single row."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.window = int(network.config.max_position_embeddings)
        self.cache = DynamicCache(config=network.config)
        self.held: tuple[int, ...] = ()

    @torch.inference_mode()
    def write(self, turns: Sequence[Turn]) -> list[Written]:
        if not turns:
            return []
        [turn] = turns
        # A token that neither has, since the common prefix stops short of the whole of any.
        shared = len(common_prefix([(*turn.prompt, -1), (*self.held, -2)]))
        shared = min(shared, len(turn.prompt) - 1)
        excess = self.cache.get_seq_length() - shared
        if excess > 0:
            self.cache.crop(-excess)
        found = self.network.generate(
            torch.tensor([turn.prompt]),
            cache=self.cache,
            do_sample=False,
            max_new_tokens=turn.rule.limit,
            eos_token_id=sorted(turn.rule.stop_ids),
            pad_token_id=0,
            stopping_criteria=StoppingCriteriaList([_Complete(turn.rule, len(turn.prompt))]),
        )[0].tolist()
        self.held = tuple(found[:-1])
        ids = found[len(turn.prompt) :]
        ending = turn.rule.ending(ids[:-1], ids[-1]) or "length"
        kept = tuple(ids[:-1] if ending == "stop" else ids)
        pushed = len(turn.prompt) - shared
        return [
            Written(kept, turn.rule.decode(kept), ending, len(ids), 0, len(turn.prompt), pushed)
        ]


class _Complete:
    """Stops when the text is complete, as a newline after a call makes it."""

    def __init__(self, rule: Any, start: int) -> None:
        self.rule, self.start = rule, start

    def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
        text = self.rule.decode(ids[0, self.start :].tolist())
        return torch.tensor([self.rule.complete(text)])


def ways(
    ground: Playground, starts: Sequence[Start], steps: int, chat: Chat, folder: Path
) -> dict[str, Callable[[], list[Rollout]]]:
    """The ways to play the same tasks; each has a network of its own, as the decoder changes it."""
    harness, decoding, ends = HARNESSES["verbatim"], Decoding(steps), turn_ends(chat, folder)
    network, plain = load_network(folder), load_network(folder)

    def lockstep() -> list[Rollout]:
        return play(ground, starts, harness, decoding, chat, network, ends)

    def alone(make: Callable[[], Any]) -> list[Rollout]:
        """A task after the other, on one decoder, which keeps its cache from task to task."""
        decoder = make()
        with mock.patch.object(loop, "Decoder", lambda network, prefix: decoder):
            return [
                play(ground, [start], harness, decoding, chat, network, ends)[0] for start in starts
            ]

    return {
        "lockstep": lockstep,
        "one at a time": lambda: alone(lambda: Decoder(network)),
        "generate": lambda: alone(lambda: Generate(plain)),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).parents[1]
    add: Callable[..., Any] = parser.add_argument
    add("--model", default=root / "resources/models/bundled/smollm2-135m", type=Path)
    add("--tasks", default=12, type=int)
    add("--steps", default=2, type=int)
    add("--rounds", default=1, type=int)
    add("--threads", default=len(os.sched_getaffinity(0)), type=int)
    add("--seed", default=20260808, type=int)
    add("--out", default=root / "results/benchmark", type=Path)
    options = parser.parse_args(argv)
    logging.disable(logging.INFO)
    torch.set_num_threads(options.threads)
    ground = playground("toolshed", {}, options.seed)
    starts = starting(ground, options.tasks, {"solved": 3})
    chat = Chat.load(options.model)
    contenders = ways(ground, starts, options.steps, chat, options.model)
    rows, written = [], {}
    for number in range(options.rounds):
        for name, run in contenders.items():
            cpu, wall = time.process_time(), time.perf_counter()
            rollouts = run()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            tokens = counted(rollouts)
            written[name] = texts(rollouts)
            row = {"round": number, "way": name, "threads": options.threads, "tokens": tokens}
            rows.append(
                {**row, "wall": wall, "cpu": cpu, "per_second": tokens / wall,
                 "per_cpu_second": tokens / cpu}
            )  # fmt: skip
            print(pd.Series(rows[-1]).to_frame().T.to_string(index=False, header=not number))
    times = pd.DataFrame(rows)
    for measure in ("per_second", "per_cpu_second"):
        wide = times.pivot(index="round", columns="way", values=measure)
        for name in ("one at a time", "generate"):
            ratio = (wide["lockstep"] / wide[name]).median()
            print(f"lockstep over {name}, tokens {measure.replace('_', ' ')}: {ratio:.2f}")
    for name, found in written.items():
        same = sum(a == b for a, b in zip(found, written["lockstep"], strict=True))
        print(f"{name}: {same} of {len(found)} rollouts as in lockstep")
    options.out.mkdir(parents=True, exist_ok=True)
    times.to_csv(options.out / "decoding.csv", index=False)


if __name__ == "__main__":
    main()
