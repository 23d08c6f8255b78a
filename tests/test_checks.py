"""Stored scores are scored again: by the plain loop, and by the scorer of today."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from studies import Study

from backfire.checks import check, drift, statement
from backfire.environments import KINDS
from backfire.items import Item, draw
from backfire.models import card
from backfire.shards import score_items
from backfire.storage import read_json


class Stored:
    def __init__(self, folder: Path, store: Path) -> None:
        self.folder, self.card = folder, card(folder, {"source": f"path:{folder}"})
        self.items: list[Item] = draw(KINDS["toolshed"].build_pool({}, 1).items, 2, 1, 1)
        self.table, self.made = score_items(self.items, ["pre", "fail"], folder, self.card, store)

    def rest(self) -> tuple[Any, ...]:
        return self.items, self.folder, self.card, 6, 1


@pytest.fixture(scope="module")
def stored(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tiny_model, tmp_path_factory.mktemp("store"))


def changed(table: pa.Table, column: str, value: Any) -> pa.Table:
    rows = [{**row, column: value(row[column])} for row in table.to_pylist()]
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_scores_of_this_machine_are_given_again(stored: Stored) -> None:
    again = check(stored.table, *stored.rest())
    assert again["ok"] and again["pairs"] == 6 and again["max_difference"] < 1e-3
    today = drift(stored.table, stored.made, *stored.rest())
    assert today["ok"] and today["pairs"] == 6 and today["max_difference"] < 1e-3
    assert (today["changed"], today["other_prompts"]) == ({}, 0)
    assert statement("m on e", today).endswith("since then nothing changed")


def test_what_has_moved_is_reported(stored: Stored) -> None:
    moved = changed(stored.table, "logprob", lambda value: value + 0.5)
    for result in (check(moved, *stored.rest()), drift(moved, stored.made, *stored.rest())):
        assert not result["ok"]
        assert result["max_difference"] == pytest.approx(0.5, abs=1e-3)
    flipped = changed(stored.table, "greedy_match", lambda value: not value)
    assert drift(flipped, stored.made, *stored.rest())["greedy_differences"] > 0
    made = copy.deepcopy(stored.made)
    made["versions"]["torch"] = "1.0"
    made["model"]["fingerprint"] = "e" * 64
    found = drift(stored.table, made, *stored.rest())
    assert set(found["changed"]) == {"torch", "weights"}
    assert "torch 1.0 → " in statement("m on e", found)


def test_a_prompt_that_is_another_one_today_is_counted(stored: Stored) -> None:
    other = changed(stored.table, "prompt_sha256", lambda value: "0" * 64)
    result = drift(other, stored.made, *stored.rest())
    assert (result["other_prompts"], result["pairs"], result["ok"]) == (6, 0, False)
    tokens = changed(stored.table, "token_ids", lambda value: value[::-1])
    assert drift(tokens, stored.made, *stored.rest())["other_prompts"] > 0
    with pytest.raises(ValueError, match="the stored prompt is another one"):
        check(other, *stored.rest())


@pytest.mark.slow
def test_a_study_tells_its_drift(finished: Study) -> None:
    output = finished.run("drift")
    assert "tiny.v1+x on terminal: 4 stored scores, largest difference" in output
    result = read_json(finished.folder / "results/drift/tiny.v1+x/toolshed.json")
    assert result["ok"] and result["pairs"] == 4 and result["changed"] == {}
    assert finished.planned("drift") == {}
