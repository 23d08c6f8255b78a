"""Time the scorer beside what people would use instead, on the study's own items and model.

    PYTHONPATH=workflow python benchmarks/run.py --help

All methods score the same requests in one process, in turn, several times over, and must agree.
The peers (lm-eval, minicons) are optional: see README.md beside this file.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import methods
import pandas as pd
import psutil
import pyarrow.parquet as pq
import replay
import torch

from backfire.chat import Chat
from backfire.environments import KINDS
from backfire.items import Item, draw, from_table
from backfire.models import load_network
from backfire.scores import ask
from backfire.scoring import Request
from backfire.scoring.engine import Engine

CORE = ("pre", "fail", "succ", "neut", "abstract")


def requests_of(items: Sequence[Item], conditions: Sequence[str], chat: Chat) -> list[Request]:
    asked = (question.request for question in ask(items, conditions, chat))
    return [request for request in asked if request is not None]


class Watch:
    """Wall time, CPU time and the growth of memory while it is entered."""

    def __enter__(self) -> Watch:
        self._process = psutil.Process()
        self._base = self._peak = self._process.memory_info().rss
        self._running = True
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu
        self._running = False
        self._thread.join()
        self.grown = self._peak - self._base

    def _sample(self) -> None:
        while self._running:
            self._peak = max(self._peak, self._process.memory_info().rss)
            time.sleep(0.05)


def compare(
    network: Any,
    chat: Chat,
    items: Sequence[Item],
    rounds: int,
    naive_items: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per round and method or replay; and how far the methods' scores lie apart."""
    conditions = CORE
    requests = requests_of(items, conditions, chat)
    subset = requests_of(items[:naive_items], conditions, chat)
    engine = Engine(network)
    pack_shapes = replay.shapes(engine, requests)
    operations = replay.operations(network, pack_shapes)
    contenders: dict[str, tuple[methods.Method, Sequence[Request], int]] = {
        "packed": (methods.packed(network), requests, len(items)),
        "prefix cache": (methods.prefix_cache(network), requests, len(items)),
        "naive loop": (methods.naive(network), subset, naive_items),
    }
    for name, make in (("lm-eval", methods.lm_eval), ("minicons", methods.minicons)):
        try:
            contenders[name] = (make(network, chat.tokenizer), subset, naive_items)
        except ImportError as error:
            print(f"{name} is left out: {error}")
    floors = {library: replay.replay(network, library) for library in replay.LIBRARIES}
    trial = {}
    for library, floor in floors.items():
        floor(pack_shapes[:1])
        with Watch() as watch:
            floor(pack_shapes[:2])
        trial[library] = watch.wall
    fastest = min(trial, key=trial.__getitem__)
    for method, _, _ in contenders.values():
        method(subset[:2])
    rows, answers = [], {}
    for number in range(rounds):
        for name, (method, asked, count) in contenders.items():
            for library in floors if name == "packed" else [fastest]:
                with Watch() as watch:
                    floors[library](pack_shapes)
                row = {"round": number, "method": f"products, {library}", "beside": name}
                rows.append({**row, **_measured(watch, len(items), operations)})
            with Watch() as watch:
                answers[name] = method(asked)
            row = {"round": number, "method": name, "beside": name}
            row["tokens_per_item"] = methods.tokens_pushed(name, asked) / count
            rows.append({**row, **_measured(watch, count, None)})
            print(f"round {number}: {name}: {watch.wall / count:.3f} s/item", flush=True)
    reference = answers["naive loop"]
    differences = pd.DataFrame(
        [
            {
                "method": name,
                "pairs": len(reference),
                "largest_difference": max(
                    abs(a - b) for a, b in zip(values, reference, strict=False)
                ),
            }
            for name, values in answers.items()
        ]
    )
    return pd.DataFrame(rows), differences


def _measured(watch: Watch, count: int, operations: int | None) -> dict[str, float | None]:
    return {
        "wall_per_item": watch.wall / count,
        "cpu_per_item": watch.cpu / count,
        "gflops": operations and operations / watch.wall / 1e9,
        "grown_mb": watch.grown / 1e6,
    }


def summarise(times: pd.DataFrame) -> pd.DataFrame:
    """Medians over the rounds; ratios are taken within a round, then their median."""
    floors = times[times.method.str.startswith("products")]
    fastest = floors.method.iloc[-1]
    # The replay just before a method is the one that it is set against.
    beside = floors[floors.method == fastest].set_index(["round", "beside"]).wall_per_item
    packed = times[times.method == "packed"].set_index("round").wall_per_item
    ours = times[~times.method.str.startswith("products")].copy()
    ours["over_products"] = ours.wall_per_item / [
        beside[key] for key in zip(ours["round"], ours.method, strict=True)
    ]
    ours["over_packed"] = ours.wall_per_item / ours["round"].map(packed)
    both = pd.concat([ours, floors])
    summary = both.groupby("method", sort=False)[
        ["wall_per_item", "cpu_per_item", "tokens_per_item", "over_packed", "over_products",
         "gflops", "grown_mb"]
    ].median()  # fmt: skip
    return summary.sort_values("wall_per_item").reset_index()


def scaling(network: Any, chat: Chat, items: Sequence[Item]) -> pd.DataFrame:
    """How the engine's cost grows with items, conditions, candidates and context length."""
    some = items[:4]
    variants: list[tuple[str, int, list[Request]]] = []
    for count in (1, 2, 4, 8):
        variants.append(("items", count, requests_of(items[:count], CORE, chat)))
    for count in (1, 2, 3, 5):
        variants.append(("conditions", count, requests_of(some, CORE[:count], chat)))
    for count in (1, 2, 4):
        asked = requests_of(some, CORE, chat)
        by_context: dict[tuple[int, ...], list[Request]] = {}
        for request in asked:
            by_context.setdefault(request.context_ids, []).append(request)
        kept = [request for group in by_context.values() for request in group[:count]]
        variants.append(("candidates", count, kept))
    filler = requests_of(items[-1:], CORE[:1], chat)[0].context_ids
    for length in (0, 1000, 2000, 4000):
        prefix = (filler * (length // len(filler) + 1))[:length]
        longer = [Request(prefix + c, a) for c, a in requests_of(some, CORE, chat)]
        variants.append(("context tokens added", length, longer))
    method = methods.packed(network)
    rows = []
    for what, value, asked in variants:
        with Watch() as watch:
            method(asked)
        pushed = methods.tokens_pushed("packed", asked)
        row = {"grows": what, "value": value, "requests": len(asked), "tokens": pushed}
        rows.append({**row, "wall": watch.wall, "cpu": watch.cpu, "grown_mb": watch.grown / 1e6})
    return pd.DataFrame(rows)


def draw_figure(summary: pd.DataFrame, growth: pd.DataFrame, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid", context="paper")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    sns.barplot(summary, x="wall_per_item", y="method", ax=left, color="#0072B2")
    left.set(xscale="log", xlabel="wall seconds per item", ylabel="")
    for what, rows in growth.groupby("grows", sort=False):
        right.plot(rows.tokens, rows.wall, marker="o", label=f"more {what}")
    right.set(xlabel="distinct tokens", ylabel="wall seconds", xlim=(0, None), ylim=(0, None))
    right.legend()
    figure.savefig(path)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).parents[1]
    add: Callable[..., Any] = parser.add_argument
    add("--model", default=root / "resources/models/bundled/smollm2-135m", type=Path)
    add("--drawn", type=Path, help="results/items/ENVIRONMENT/PROBE.parquet; else ToolShed's draw")
    add("--items", default=8, type=int)
    add("--naive-items", default=1, type=int, help="items for the slow methods")
    add("--rounds", default=3, type=int)
    add("--threads", default=len(os.sched_getaffinity(0)), type=int)
    add("--seed", default=20260808, type=int)
    add("--out", default=root / "results/benchmark", type=Path)
    options = parser.parse_args(argv)
    logging.disable(logging.INFO)
    torch.set_num_threads(options.threads)
    if options.drawn:
        items = from_table(pq.read_table(options.drawn))[: options.items]
    else:
        pool = KINDS["toolshed"].build_pool({}, options.seed)
        items = draw(pool.items, options.items, 3, options.seed)
    network, chat = load_network(options.model), Chat.load(options.model)
    times, differences = compare(network, chat, items, options.rounds, options.naive_items)
    summary, growth = summarise(times), scaling(network, chat, items)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, table in (
        ("times", times), ("summary", summary), ("agreement", differences), ("scaling", growth)
    ):  # fmt: skip
        table.to_csv(options.out / f"{name}.csv", index=False)
        if name != "times":
            print(f"\n{table.to_string(index=False, float_format='{:.4g}'.format)}")
    draw_figure(summary, growth, options.out / "figure.pdf")
    draw_figure(summary, growth, options.out / "figure.png")


if __name__ == "__main__":
    main()
