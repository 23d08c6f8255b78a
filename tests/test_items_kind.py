"""A pool of the user's own: what is accepted, and what is said about what is not."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfire.conditions import CONDITIONS
from backfire.environments import KINDS
from backfire.environments.items.schema import faults
from backfire.errors import UserError
from backfire.items import to_table

EXAMPLE = Path(__file__).parent.parent / "resources" / "examples" / "terminal.jsonl"
MINIMAL = {
    "item_id": "a",
    "task_id": "t",
    "system": "",
    "goal": "List the files.",
    "history": [],
    "failed_action": "sl",
    "observations": {"fail": "sl: command not found"},
}
FULL = MINIMAL | {
    "template": "shell",
    "step": 2,
    "operator": "typo",
    "error_family": "unknown_command",
    "tool": "sl",
    "history": [{"action": "cd /srv", "observation": ""}],
    "gold_action": "ls",
    "distractors": ["pwd", "cat"],
    "other": {"action": "ks", "observation": "ks: command not found"},
    "unrelated": None,
    "error": {"status": 127},
}


def build(path):
    return KINDS["items"].build_pool({"kind": "items", "path": str(path)}, 1).items


def write(path, *lines):
    path.write_bytes(
        b"\n".join(
            line
            if isinstance(line, bytes)
            else (line if isinstance(line, str) else json.dumps(line)).encode()
            for line in lines
        )
    )
    return path


def complaints(path):
    with pytest.raises(UserError) as caught:
        build(path)
    return str(caught.value).replace(f"{path}: ", "").splitlines()


def test_the_example_is_ten_items_of_which_some_lack_what_is_optional():
    items = build(EXAMPLE)
    assert len(items) == 10
    assert [len(item.candidates) for item in items].count(4) == 6
    assert any(item.gold_action is None for item in items)
    assert any(item.gold_action and not item.distractors for item in items)
    for name in ("pre", "fail"):
        assert all(CONDITIONS[name].write(item, None) for item in items)
    for name in ("succ", "neut", "abstract"):
        written = [CONDITIONS[name].write(item, None) for item in items]
        assert 0 < written.count(None) < len(items)


def test_the_guide_names_every_key_of_an_item():
    guide = (EXAMPLE.parent / "README.md").read_text(encoding="utf-8")
    for key in FULL:
        assert f"| `{key}` |" in guide or f"`{key}`, " in guide or f", `{key}`" in guide


def test_items_are_what_the_file_says(tmp_path):
    (item,) = build(write(tmp_path / "mine.jsonl", FULL))
    assert item.history[0].action == "cd /srv"
    assert item.other.observation == "ks: command not found"
    assert item.candidates == {
        "failed": "sl",
        "gold": "ls",
        "distractor_1": "pwd",
        "distractor_2": "cat",
    }
    assert (item.step, item.unrelated, item.error) == (2, None, {"status": 127})


def test_order_blank_lines_marks_and_unicode_are_kept_or_ignored_as_they_should(tmp_path):
    second = MINIMAL | {"item_id": "Ä\u2028b", "goal": "x"}
    raw = json.dumps(second, ensure_ascii=False).encode()
    path = write(
        tmp_path / "mine.JSONL", "\ufeff" + json.dumps(MINIMAL) + "\r", b"", raw, b"  ", b""
    )
    assert [item.item_id for item in build(path)] == ["a", "Ä\u2028b"]


def test_pools_of_other_environments_can_be_read_back(tmp_path):
    pool = KINDS["toolshed"].build_pool({}, 1).items[:30] + build(EXAMPLE)
    pq.write_table(to_table(pool), tmp_path / "pool.parquet")
    assert build(tmp_path / "pool.parquet") == pool


def test_a_parquet_file_from_pandas_is_read(tmp_path):
    told = {"fail": "sl: command not found", "neut": "Received."}
    rows = [FULL | {"error": None}, MINIMAL | {"item_id": "b", "observations": told}]
    pd.DataFrame(rows).to_parquet(tmp_path / "pool.parquet")
    one, two = build(tmp_path / "pool.parquet")
    assert one.step == 2
    assert two.step is None
    assert one.observations == MINIMAL["observations"]
    assert two.observations == told


TWENTY_FAULTS = [
    (b'{"item_id": "a", ', "line 1: the line: found no JSON at column 18 (Expecting property name"),
    (b'{"item_id": "\xff"}', "line 2: the line: found byte 0xff at position 14; UTF-8 is right"),
    ([1], "line 3: the line: found a list; an object with item_id, task_id, template"),
    (b'{"step": NaN}', "line 4: the line: found JSON that cannot be used (NaN is no number"),
    (
        b'{"step": 1, "step": 2}',
        "line 5: the line: found JSON that cannot be used (the key 'step' ",
    ),
    ({"gaol": "x"}, "line 6: gaol: found an unknown key; did you mean goal?"),
    ({"zzz": 1}, "line 7: zzz: found an unknown key; known are item_id, task_id"),
    ({"goal": None}, "line 8: goal: found null; it is required"),
    ({"failed_action": " \n"}, "line 9: failed_action: found empty text; text with something"),
    ({"system": 7}, "line 10: system: found a number (7); text is right"),
    ({"goal": "\ud800"}, "line 11: goal: found text with a lone surrogate; text that UTF-8"),
    ({"history": "ls"}, "line 12: history: found text; a list of {action, observation} is right"),
    ({"history": ["ls"]}, "line 13: history[0]: found text; an object with action, observation"),
    ({"history": [{"action": "ls"}]}, "line 14: history[0].observation: found nothing; it is requ"),
    ({"observations": "no"}, "line 15: observations: found text; an object of texts by name is ri"),
    ({"observations": {}}, "line 16: observations.fail: found nothing; the failure as it was reco"),
    (
        {"observations": {"fail": "x", "succ": 1}},
        "line 17: observations.succ: found a number (1); ",
    ),
    ({"distractors": ["ls", None]}, "line 18: distractors[1]: found null; text is right"),
    ({"gold_action": "sl"}, "line 19: gold_action: found the same text as in failed_action; anoth"),
    ({"step": True}, "line 20: step: found true or false; a whole number from 0 up is right"),
    ({"error": "127"}, "line 21: error: found text; an object is right"),
    ({"item_id": "item 20"}, "line 22: item_id: found the id of line 20 again; each has its own"),
    ({"other": {"action": "", "observation": "x"}}, "line 23: other.action: found empty text; "),
    ({"step": -1}, "line 24: step: found a number (-1); a whole number from 0 up is right"),
]


def test_every_fault_gets_its_line_in_one_go(tmp_path):
    lines = [
        MINIMAL | {"item_id": f"item {number}"} | line if isinstance(line, dict) else line
        for number, (line, _) in enumerate(TWENTY_FAULTS, start=1)
    ]
    path = write(tmp_path / "mine.jsonl", *lines)
    found = complaints(path)
    assert len(found) == len(TWENTY_FAULTS) >= 20
    for said, (_, expected) in zip(found, TWENTY_FAULTS, strict=True):
        assert said.startswith(expected)
        assert said.isprintable()


def test_one_line_may_have_many_faults(tmp_path):
    found = complaints(write(tmp_path / "mine.jsonl", {"item_id": "", "step": "2"}))
    keys = [line.split(": ")[1] for line in found]
    required = ["task_id", "system", "goal", "history", "failed_action", "observations"]
    assert sorted(keys) == sorted(["item_id", "step", *required])


def test_a_file_of_another_kind_does_not_flood_the_screen(tmp_path):
    found = complaints(write(tmp_path / "mine.jsonl", *["prose"] * 1000))
    assert len(found) == 201
    assert "800 more" in found[-1]


def test_deep_and_huge_json_are_faults(tmp_path):
    lines = ["[" * 100_000, '{"step": ' + "9" * 5000 + "}", FULL | {"step": 10**30}]
    found = complaints(write(tmp_path / "mine.jsonl", *lines))
    assert [line.split(": ")[0] for line in found] == ["line 1", "line 2", "line 3"]
    assert all(len(line) < 300 for line in found)


def test_files_that_cannot_be_a_pool_are_named_in_one_line(tmp_path):
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "text.parquet").write_text("no parquet")
    write(tmp_path / "empty.jsonl", "")
    twice = pa.table(
        {
            "observations": pa.array(
                [[("fail", "x"), ("fail", "y")]], pa.map_(pa.string(), pa.string())
            )
        }
    )
    pq.write_table(twice, tmp_path / "twice.parquet")
    for name, said in {
        "none.jsonl": "cannot be read (No such file or directory)",
        "none.parquet": "cannot be read",
        "folder.jsonl": "cannot be read (Is a directory)",
        "text.parquet": "found no usable Parquet",
        "twice.parquet": "found no usable Parquet",
        "empty.jsonl": "found no items",
        "items.csv": "found the suffix '.csv'; .jsonl or .parquet is right",
    }.items():
        with pytest.raises(UserError) as caught:
            build(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: {said}")
        assert "\n" not in str(caught.value)


def test_parquet_rows_are_checked_alike(tmp_path):
    rows = [FULL | {"goal": " ", "error": "{"}, FULL | {"step": 1.5, "error": "[]"}]
    pd.DataFrame(rows).to_parquet(tmp_path / "pool.parquet")
    assert complaints(tmp_path / "pool.parquet") == [
        "row 1: goal: found empty text; text with something in it is right",
        "row 1: error: found text; an object is right",
        "row 2: step: found a number (1.5); a whole number from 0 up is right",
        "row 2: error: found a list; an object is right",
        "row 2: item_id: found the id of row 1 again; each has its own",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*FULL, "observation", "x"]), JSON))
def test_any_json_is_judged_and_each_fault_fits_a_line(row):
    said = [str(fault) for fault in faults(FULL | row)]
    assert all(line.isprintable() for line in said)
    assert not list(faults(FULL))
