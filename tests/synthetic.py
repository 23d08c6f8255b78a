"""Made-up scores with a known structure, for tests of what is computed from scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

CORE = ("pre", "fail", "succ", "neut", "abstract")
CANDIDATES = ("failed", "gold", "distractor_1", "distractor_2")
EVERY = ("pre", "fail", "abstract")
ACTION = "find_contact(name='Ann')"


def items(n_tasks: int = 12, per_task: Sequence[int] = (1, 2, 3)) -> pd.DataFrame:
    """Items of unequal tasks, two templates, two operators, two error families."""
    rows = []
    for task in range(n_tasks):
        for number in range(per_task[task % len(per_task)]):
            rows.append(
                {
                    "item_id": f"item-{task:02d}-{number}",
                    "task_id": f"task-{task:02d}",
                    "template": ("lookup", "schedule")[task % 2],
                    "step": number,
                    "operator": ("drop_arg", "tool_typo")[number % 2],
                    "error_family": ("missing_argument", "unknown_tool")[number % 2],
                    "failed_action": ACTION,
                }
            )
    return pd.DataFrame(rows)


def scores(
    drawn: pd.DataFrame, conditions: Sequence[str] = CORE, seed: int = 0, n_tokens: int = 6
) -> pd.DataFrame:
    """Scores in which a record lifts the failed action by about 20 nats, 18 of them by form."""
    rng = np.random.default_rng(seed)
    lift = {"pre": 0.0, "abstract": 2.0, "neut": 18.0, "succ": 19.0}
    rows = []
    for item in drawn["item_id"]:
        base = rng.normal(-30, 5)
        for condition in conditions:
            for number, candidate in enumerate(CANDIDATES if condition in EVERY else ("failed",)):
                change = lift.get(condition, 20.0) / (1 + number)
                logprob = base + change + rng.normal(0, 2)
                parts = rng.dirichlet(np.ones(n_tokens)) * logprob
                greedy = bool(condition == "fail" and rng.random() < 0.4)
                rows.append(
                    {
                        "item_id": item,
                        "condition": condition,
                        "candidate": candidate,
                        "logprob": parts.sum(),
                        "refused": None,
                        "n_tokens": n_tokens,
                        "n_bytes": len(ACTION),
                        "context_tokens": 200,
                        "token_ids": [number, *range(10, 9 + n_tokens)],
                        "token_starts": list(range(0, 4 * n_tokens, 4)),
                        "token_logprobs": list(parts),
                        "greedy_match": greedy,
                        "greedy_stop": greedy and rng.random() < 0.5,
                        "min_gap": 0.5,
                        "prompt_sha256": f"{item}/{condition}",
                        "overlap": 0.5,
                        "written": None,
                    }
                )
    return pd.DataFrame(rows)
