"""What a number format, or other weights of the same checkpoint, change in each measure.

    PYTHONPATH=workflow python benchmarks/precision.py --items 8
    PYTHONPATH=workflow python benchmarks/precision.py --against FOLDER --dtype float32

Scores the core conditions on ToolShed items under float32 and, for comparison, under another
number format or another folder, and prints per measure: the two means, the mean of the paired
differences, and the largest. `--parity` also sets the packed engine beside the plain loop in the
other format, which says how much of a difference is the order of sums.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from run import CORE, requests_of

from backfire.chat import Chat
from backfire.environments import KINDS
from backfire.items import Item, draw, to_table
from backfire.measures import find, measure
from backfire.models import card, load_network
from backfire.scoring import Score, reference, score
from backfire.shards import score_items

ROOT = Path(__file__).parents[1]


def measured(items: Sequence[Item], folder: Path, dtype: str, device: str) -> pd.DataFrame:
    """The measures of the items, a row for each item and a column for each measure."""
    about = card(folder, {"source": f"path:{folder}", "dtype": dtype}, device)
    with tempfile.TemporaryDirectory() as store:
        table, made = score_items(items, CORE, folder, about, store)
    print(f"{folder}, {dtype} on {about['device']}: {made['seconds']} s", flush=True)
    values = measure(table.to_pandas(), to_table(list(items)).to_pandas())
    return values.pivot(index="item_id", columns="measure", values="value")


def compare(base: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """One row per measure: both means, and the differences paired within items."""
    shared = [name for name in base.columns if name in other.columns]
    difference = other[shared] - base[shared]
    return pd.DataFrame(
        {
            "unit": [find(name).unit for name in shared],
            "items": difference.notna().sum(),
            "float32": base[shared].mean(),
            "other": other[shared].mean(),
            "mean difference": difference.mean(),
            "largest": difference.abs().max(),
        }
    )


def parity(items: Sequence[Item], folder: Path, dtype: str, device: str) -> tuple[float, float]:
    """The mean and the largest difference of packed engine and plain loop, nats per string."""
    requests = requests_of(items, ("pre", "fail"), Chat.load(folder))
    network: Any = load_network(folder, dtype, device)
    answers = (score(network, requests), reference.score(network, requests))
    packed, plain = (np.array([a.logprob for a in one if isinstance(a, Score)]) for one in answers)
    return float(np.abs(packed - plain).mean()), float(np.abs(packed - plain).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bundled = ROOT / "resources/models/bundled/smollm2-135m"
    parser.add_argument("--model", default=bundled, type=Path)
    parser.add_argument("--against", type=Path, help="another folder; the same if absent")
    parser.add_argument("--dtype", default="bfloat16", help="of the other")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--items", default=8, type=int)
    parser.add_argument("--seed", default=20260808, type=int)
    parser.add_argument("--threads", default=torch.get_num_threads(), type=int)
    parser.add_argument("--parity", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pool = KINDS["toolshed"].build_pool({}, options.seed).items
    items = draw(pool, options.items, 3, options.seed)
    other = options.against or options.model
    base = measured(items, options.model, "float32", options.device)
    changed = measured(items, other, options.dtype, options.device)
    print(compare(base, changed).to_string(float_format="{:.4f}".format))
    if options.parity:
        mean, largest = parity(items[:2], other, options.dtype, options.device)
        print(f"packed and plain in {options.dtype}: {mean:.2g} nats apart, at most {largest:.2g}")


if __name__ == "__main__":
    main()
