"""The probe item on disk, the draw, and the shards."""

from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfire.errors import UserError
from backfire.items import (
    DRAW_SCHEMA,
    POOL_SCHEMA,
    Item,
    Turn,
    assign_shards,
    draw,
    from_table,
    to_table,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TURNS = st.builds(Turn, TEXT, TEXT)
ITEMS = st.builds(
    Item,
    item_id=TEXT,
    task_id=TEXT,
    system=TEXT,
    goal=TEXT,
    history=st.lists(TURNS, max_size=2).map(tuple),
    failed_action=TEXT,
    observations=st.dictionaries(TEXT, TEXT, max_size=3),
    gold_action=st.none() | TEXT,
    distractors=st.lists(TEXT, max_size=2).map(tuple),
    tool=st.none() | TEXT,
    step=st.none() | st.integers(0, 9),
    operator=st.none() | TEXT,
    other=st.none() | TURNS,
    unrelated=st.none() | TURNS,
    error=st.none() | st.dictionaries(TEXT, st.none() | TEXT | st.integers() | st.lists(TEXT)),
)


def make(task, number, operator=None):
    return Item(f"{task}.{number}", task, "", "", (), "x", {"fail": "y"}, operator=operator)


def pools(max_tasks=12):
    """Pools of up to 12 tasks, with up to 5 items each, of up to 4 operators."""
    operators = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=5)
    return st.lists(operators, min_size=1, max_size=max_tasks).map(
        lambda tasks: [
            make(f"task{task}", number, operator)
            for task, drawn in enumerate(tasks)
            for number, operator in enumerate(drawn)
        ]
    )


@given(st.lists(ITEMS, max_size=3))
def test_a_table_gives_its_items_back(items):
    table = to_table(items)
    assert table.schema == POOL_SCHEMA
    assert from_table(table) == items


def test_a_file_gives_its_items_and_shards_back(tmp_path):
    items = [make("a", 1), make("b", 1, "typo")]
    pq.write_table(to_table(items, [1, 0]), tmp_path / "draw.parquet")
    table = pq.read_table(tmp_path / "draw.parquet")
    assert table.schema == DRAW_SCHEMA
    assert from_table(table) == items
    assert table["shard"].to_pylist() == [1, 0]


def test_candidates_are_named_and_never_repeated():
    item = Item("a", "t", "", "", (), "x", {}, gold_action="y", distractors=("x", "y", "z"))
    assert item.candidates == {"failed": "x", "gold": "y", "distractor_3": "z"}
    assert make("t", 1).candidates == {"failed": "x"}


@given(pools(), st.integers(0, 5), st.randoms())
def test_a_draw_ignores_the_pools_order_and_a_smaller_one_is_its_prefix(pool, seed, random):
    every = draw(pool, len(pool), None, seed)
    assert sorted(item.item_id for item in every) == sorted(item.item_id for item in pool)
    shuffled = random.sample(pool, len(pool))
    for count in range(len(pool)):
        assert draw(shuffled, count, None, seed) == every[:count]


@given(pools(), st.integers(1, 3), st.integers(0, 5))
def test_a_draw_keeps_the_cap_and_says_what_the_pool_gives(pool, per_task, seed):
    most = sum(min(per_task, count) for count in Counter(item.task_id for item in pool).values())
    drawn = draw(pool, most, per_task, seed)
    assert max(Counter(item.task_id for item in drawn).values()) <= per_task
    with pytest.raises(UserError, match=f"{most + 1} items are asked for") as caught:
        draw(pool, most + 1, per_task, seed)
    assert f"gives {most} with at most {per_task} per task" in str(caught.value)


def test_a_draw_balances_operators():
    pool = [make(f"t{n}", k, "abcd"[k]) for n in range(30) for k in range(4)]
    drawn = draw(pool, 41, 2, 7)
    assert sorted(Counter(item.operator for item in drawn).values()) == [10, 10, 10, 11]
    assert {item.operator for item in drawn[:4]} == set("abcd")


def test_seeds_draw_differently():
    pool = [make(f"t{n}", 0) for n in range(50)]
    draws = {tuple(item.item_id for item in draw(pool, 10, None, seed)) for seed in range(5)}
    assert len(draws) == 5


@given(pools(), st.integers(1, 6))
def test_shards_hold_whole_tasks_and_are_even(items, n_shards):
    shards = assign_shards(items, n_shards)
    assert len(shards) == len(items)
    assert set(shards) <= set(range(n_shards))
    homes = {item.task_id: set() for item in items}
    for item, shard in zip(items, shards, strict=True):
        homes[item.task_id].add(shard)
    assert all(len(home) == 1 for home in homes.values())
    sizes = Counter(shards)
    largest = max(Counter(item.task_id for item in items).values())
    assert max(sizes.values()) - min(sizes[shard] for shard in range(n_shards)) <= largest
