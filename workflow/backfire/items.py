"""The probe item, its pool on disk, and the draw of a probe's items from the pool."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from backfire.errors import UserError


class Turn(NamedTuple):
    """One action and the observation that followed it."""

    action: str
    observation: str


@dataclass(frozen=True, slots=True)
class Item:
    """One failed action in its context, with all that the conditions write from.

    `observations` maps the name of a rendering (fail, terse, verbose, echo, succ, neut)
    to its text. `other` is a different failing action for the same step, `unrelated` one
    for another tool that shares no value with this item; `error` is the runtime's own
    structured error. Optional fields that are absent make the conditions and measures
    that need them absent for this item.
    """

    item_id: str
    task_id: str
    system: str
    goal: str
    history: tuple[Turn, ...]
    failed_action: str
    observations: Mapping[str, str]
    gold_action: str | None = None
    distractors: tuple[str, ...] = ()
    tool: str | None = None
    template: str | None = None
    step: int | None = None
    operator: str | None = None
    error_family: str | None = None
    other: Turn | None = None
    unrelated: Turn | None = None
    error: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def candidates(self) -> dict[str, str]:
        """The actions whose probability is compared, by name, without repeated strings."""
        named = {"failed": self.failed_action}
        if self.gold_action is not None:
            named["gold"] = self.gold_action
        for number, action in enumerate(self.distractors, start=1):
            named[f"distractor_{number}"] = action
        distinct: dict[str, str] = {}
        for name, action in named.items():
            if action not in distinct.values():
                distinct[name] = action
        return distinct


_TURN = pa.struct([("action", pa.string()), ("observation", pa.string())])

POOL_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("template", pa.string()),
        pa.field("step", pa.int32()),
        pa.field("operator", pa.string()),
        pa.field("error_family", pa.string()),
        pa.field("tool", pa.string()),
        pa.field("system", pa.string(), nullable=False),
        pa.field("goal", pa.string(), nullable=False),
        pa.field("history", pa.list_(_TURN), nullable=False),
        pa.field("failed_action", pa.string(), nullable=False),
        pa.field("gold_action", pa.string()),
        pa.field("distractors", pa.list_(pa.string()), nullable=False),
        pa.field("observations", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("other", _TURN),
        pa.field("unrelated", _TURN),
        pa.field("error", pa.string()),  # JSON
    ]
)

DRAW_SCHEMA = POOL_SCHEMA.append(pa.field("shard", pa.int32(), nullable=False))


def to_table(items: Iterable[Item], shards: Sequence[int] | None = None) -> pa.Table:
    """Items as a table of `POOL_SCHEMA`, or of `DRAW_SCHEMA` when `shards` is given."""
    rows = []
    for item in items:
        row: dict[str, Any] = {
            name: getattr(item, name)
            for name in POOL_SCHEMA.names
            if name not in ("history", "other", "unrelated", "error", "observations")
        }
        row["distractors"] = list(item.distractors)
        row["history"] = [turn._asdict() for turn in item.history]
        row["observations"] = list(item.observations.items())
        row["other"] = item.other._asdict() if item.other else None
        row["unrelated"] = item.unrelated._asdict() if item.unrelated else None
        row["error"] = None if item.error is None else json.dumps(item.error, sort_keys=True)
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=POOL_SCHEMA)
    if shards is None:
        return table
    return table.append_column(DRAW_SCHEMA.field("shard"), pa.array(shards, pa.int32()))


def from_table(table: pa.Table) -> list[Item]:
    """The items of a table made by `to_table`, in its order."""
    items = []
    for row in table.select(POOL_SCHEMA.names).to_pylist():
        row["history"] = tuple(Turn(**turn) for turn in row["history"])
        row["distractors"] = tuple(row["distractors"])
        row["observations"] = dict(row["observations"])
        row["other"] = Turn(**row["other"]) if row["other"] else None
        row["unrelated"] = Turn(**row["unrelated"]) if row["unrelated"] else None
        row["error"] = None if row["error"] is None else json.loads(row["error"])
        items.append(Item(**row))
    return items


def draw(pool: Sequence[Item], count: int, per_task: int | None, seed: int) -> list[Item]:
    """Draw `count` items: operators in turn, at most `per_task` of one task.

    The order depends on the pool, `per_task` and `seed` alone, so a smaller draw is a
    prefix of a larger one.

    Raises:
        UserError: the pool holds fewer than `count` items under the cap.
    """
    rng = random.Random(f"draw/{seed}")
    queues: dict[str, list[Item]] = {}
    for item in sorted(pool, key=lambda item: item.item_id):
        queues.setdefault(item.operator or "", []).append(item)
    operators = sorted(queues)
    rng.shuffle(operators)
    for operator in operators:
        rng.shuffle(queues[operator])
    taken: Counter[str] = Counter()
    drawn: list[Item] = []
    while len(drawn) < count and operators:
        for operator in list(operators):
            queue = queues[operator]
            while queue and per_task is not None and taken[queue[0].task_id] >= per_task:
                queue.pop(0)
            if not queue:
                operators.remove(operator)
                continue
            item = queue.pop(0)
            taken[item.task_id] += 1
            drawn.append(item)
    if len(drawn) < count:
        cap = "" if per_task is None else f" with at most {per_task} per task"
        raise UserError(
            f"{count} items are asked for and the pool of {len(pool)} gives {len(drawn)}{cap}: "
            "lower the number in the config or enlarge the pool"
        )
    return drawn[:count]


def assign_shards(items: Sequence[Item], n_shards: int) -> list[int]:
    """A shard for each item: whole tasks, each to the shard that holds the fewest items yet."""
    sizes = Counter(item.task_id for item in items)
    loads = [0] * n_shards
    shard_of: dict[str, int] = {}
    for item in items:
        if item.task_id not in shard_of:
            lightest = loads.index(min(loads))
            shard_of[item.task_id] = lightest
            loads[lightest] += sizes[item.task_id]
    return [shard_of[item.task_id] for item in items]
