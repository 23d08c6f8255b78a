"""Rollouts: what each harness writes, when they end, what is counted, and that they replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from backfire import rollouts as loop
from backfire.chat import Chat
from backfire.conditions import CONDITIONS, INSTRUCTION, Context, Message, before, describe
from backfire.conditions.registry import Condition
from backfire.decoding import Turn, Written
from backfire.environments.coderepair.tasks import FILES
from backfire.estimates import Statistics
from backfire.harnesses import HARNESSES, Harness
from backfire.items import Item
from backfire.models import load_network, stop_ids
from backfire.play import Playground, playground
from backfire.replies import writes_a_speaker
from backfire.rollout_config import faults
from backfire.rollout_metrics import (
    METRICS,
    OUTCOME_SCHEMA,
    branch_metrics,
    estimate_rollouts,
    marked,
    per_rollout,
)
from backfire.rollouts import (
    STEP_SCHEMA,
    Decoding,
    Rollout,
    after_first_failure,
    opening,
    play,
    replay,
    starting,
    tabulate,
)

BAD = 'find_contact(nmae="Ana")'
FAMILY = describe("find_contact", "unexpected_argument")


@pytest.fixture(scope="session")
def chat(bundled_model: Path) -> Chat:
    return Chat.load(bundled_model)


@pytest.fixture(scope="session")
def ground() -> Playground:
    return playground("toolshed", {"kind": "toolshed"}, seed=1)


class Script:
    """A decoder that writes what it is told: the nth turn of each row; keeps the prompts."""

    window = 8192
    texts: Sequence[str] = ()
    prompts: list[str] = []  # noqa: RUF012
    chat: Chat

    def __init__(self, network: Any, prefix: Sequence[int]) -> None:
        self.prefix, self.turns = tuple(prefix), 0
        type(self).prompts = []

    def write(self, turns: Sequence[Turn]) -> list[Written]:
        written = []
        for turn in turns:
            assert turn.prompt[: len(self.prefix)] == self.prefix
            text = self.texts[min(self.turns, len(self.texts) - 1)]
            assert turn.rule.action(text) not in turn.rule.banned
            self.prompts.append(self.chat.tokenizer.decode(turn.prompt))
            written.append(Written((), text, "stop", 5, 0, len(turn.prompt), 3))
        self.turns += 1
        return written


def run(
    ground: Playground,
    chat: Chat,
    monkeypatch: pytest.MonkeyPatch,
    harness: Harness,
    texts: Sequence[str],
    steps: int = 4,
    task: int = 0,
) -> tuple[Rollout, list[str]]:
    """One rollout in which the model writes the texts; and the prompts it saw."""
    monkeypatch.setattr(loop, "Decoder", Script)
    monkeypatch.setattr(Script, "texts", texts)
    monkeypatch.setattr(Script, "chat", chat, raising=False)
    starts = starting(ground, task + 1, {"solved": 2})[task:]
    [rollout] = play(ground, starts, harness, Decoding(steps), chat, None, frozenset())
    return rollout, list(Script.prompts)


def gold(ground: Playground, task: int = 0) -> str:
    call = ground.reference(ground.tasks[task], [])
    assert call is not None
    return call


@pytest.mark.parametrize("name", HARNESSES)
def test_a_harness_writes_failures_its_way_and_successes_as_they_are(
    ground: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    task = 1  # of several calls
    first = gold(ground, task)
    texts = [first, BAD, BAD.replace("Ana", "Tom"), "finish()"]
    rollout, prompts = run(ground, chat, monkeypatch, HARNESSES[name], texts, task=task)
    assert [step["ok"] for step in rollout.steps] == [True, False, False, True]
    error = rollout.steps[1]["observation"]
    last = prompts[-1]
    verbatim, abstract = name.startswith("verbatim"), name.startswith("abstract")
    assert first in last and "OK: " in last.partition(first)[2]
    assert last.count(BAD) == last.count(error) // 2 == (1 if verbatim else 0)
    assert last.count(FAMILY) == (2 if abstract else 0)
    assert (INSTRUCTION in last) == (name == "verbatim+instruct")
    assert (prompts[2] == prompts[1]) == (name == "drop")


def test_a_condition_makes_a_harness(
    ground: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    terse = Harness("terse", "fail_terse", ban=True)
    _, prompts = run(ground, chat, monkeypatch, terse, [BAD, "finish()"])
    assert "Error: unexpected argument." in prompts[-1]
    with pytest.raises(ValueError, match="fail_early cannot record"):
        run(ground, chat, monkeypatch, Harness("early", "fail_early"), [BAD, "finish()"], task=1)


def test_a_harness_of_ones_own_in_rollouts_and_in_the_branch_study(
    ground: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition, which writes the record, and the line that names it."""

    def whispered(item: Item, ctx: Context) -> list[Message]:
        said = (item.error_family or "").replace("_", " ")
        return [*before(item), {"role": "user", "content": f"psst: {said}"}]

    own = Condition("fail_whispered", "the family alone", whispered)
    monkeypatch.setitem(CONDITIONS, "fail_whispered", own)
    harness = Harness("whispering", "fail_whispered", instruct=True)
    monkeypatch.setitem(HARNESSES, "whispering", harness)
    entry = {"harnesses": ["verbatim", "whispering"]}
    config = {"environments": {"e": {"kind": "toolshed"}}, "rollouts": {"e": entry}, "models": {}}
    assert list(faults(config)) == []
    rollout, prompts = run(ground, chat, monkeypatch, harness, [BAD, BAD, "finish()"])
    assert prompts[-1].count("psst: unexpected argument") == 2
    assert BAD not in prompts[-1] and INSTRUCTION in prompts[-1]
    starts = starting(ground, 1, {"solved": 2})
    branches = after_first_failure(ground, starts, tabulate([rollout]).to_pandas())
    [branch] = play(ground, branches, harness, Decoding(1), chat, None, frozenset())
    assert Script.prompts[0].count("psst: unexpected argument") == 1
    assert len(branch.steps) == 1


def test_why_a_rollout_ends(
    ground: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = HARNESSES["verbatim"]
    for texts, stop, count in (
        ([BAD, f"Assistant: {gold(ground)}"], "solved", 2),
        (["finish()"], "finished", 1),
        ([BAD], "steps", 4),
        ([f"<|im_start|>user {BAD}"], "template", 1),
    ):
        rollout, _ = run(ground, chat, monkeypatch, harness, texts)
        assert (rollout.stop, len(rollout.steps)) == (stop, count)
        assert [step["stop"] for step in rollout.steps] == [None] * (count - 1) + [stop]
    monkeypatch.setattr(Script, "window", 1000)
    rollout, _ = run(ground, chat, monkeypatch, harness, [BAD], steps=30)
    assert rollout.stop == "window"
    assert 1 <= len(rollout.steps) < 30


@pytest.fixture(scope="module")
def repair(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    """CodeRepair on six of the built-in problems, three of them shown solved."""
    rows = json.loads(FILES["builtin"].read_text(encoding="utf-8"))[:6]
    path = tmp_path_factory.mktemp("problems") / "six.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return playground("coderepair", {"problems": "mbpp", "path": str(path)}, seed=1)


@pytest.mark.parametrize("name", ["verbatim", "abstract", "drop"])
def test_programs_are_run_until_one_passes(
    repair: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    broken = "def nothing_of_the_kind():\n    return 17"
    right = gold(repair)
    texts = [f"Here it is:\n```python\n{broken}\n```", "no program at all", right]
    rollout, prompts = run(repair, chat, monkeypatch, HARNESSES[name], texts)
    assert rollout.stop == "solved"
    first, second, third = rollout.steps
    assert (first["ok"], first["readable"], first["action"]) == (False, True, broken)
    assert first["error_family"] == "runtime_error"
    assert "NameError" in first["observation"]
    assert (second["ok"], second["readable"]) == (False, False)
    assert third["ok"] and third["solved"]
    last = prompts[-1]
    assert (broken in last, first["observation"] in last) == (name == "verbatim",) * 2
    assert last.count(describe(None, "runtime_error")) == (name == "abstract")
    for shown in repair.demonstrations[:2]:
        assert shown.goal in last and shown.turns[0].action in last
        assert shown.goal not in {task.goal for task in repair.tasks}
    assert (prompts[0] == last) == (name == "drop")
    outcomes = replay(repair, rollout.start, [step["action"] for step in rollout.steps])
    assert [o.observation for _, o in outcomes] == [s["observation"] for s in rollout.steps]


def test_demonstrations_come_from_another_world(ground: Playground) -> None:
    task = ground.tasks[0]
    shown = opening(ground, task, {"solved": 3})
    assert len(shown.history) == 6
    assert [turn.action for turn in shown.history[1::2]] == ["finish()"] * 3
    assert shown.history[-1].observation == f"OK: finished.\n\n{task.goal}"
    offices = {one.task_id.rsplit("-", 1)[1] for one in ground.tasks}
    demonstrated = {text for one in ground.demonstrations for text, _ in one.turns}
    assert len(offices) == 9
    for one in ground.tasks:
        assert ground.reference(one, []) not in demonstrated
    formatted = opening(ground, task, "format")
    assert formatted.goal == task.goal
    assert formatted.system.startswith(ground.system)
    assert formatted.system.endswith(f":\n{ground.example}")


def test_tasks_alternate_and_fewer_are_a_prefix(ground: Playground) -> None:
    single = {"set_reminder", "write_file", "send_message"}
    kinds = [task.template in single for task in ground.tasks[:24]]
    assert kinds == [True, False] * 12
    assert len({task.task_id for task in ground.tasks}) == 81
    assert {task.template for task in ground.tasks[:18]} == {t.template for t in ground.tasks}
    starts = starting(ground, 24, "format")
    assert [start.task for start in starts] == list(ground.tasks[:24])


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, chat: Chat) -> dict[str, Any]:
    return {
        "chat": chat,
        "network": load_network(tiny_model),
        "stop_ids": stop_ids(tiny_model, chat.tokenizer) | {*chat.tokenizer.all_special_ids},
    }


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_the_same_trajectories_in_any_company_and_they_replay(
    ground: Playground, tiny: dict[str, Any], temperature: float
) -> None:
    ground = replace(ground, max_tokens=16)
    starts = starting(ground, 3, "format")
    decoding = Decoding(3, temperature, "1/seed1")
    harness = HARNESSES["verbatim+ban"]
    together = play(ground, starts, harness, decoding, **tiny)
    alone = [play(ground, [start], harness, decoding, **tiny)[0] for start in starts[::-1]]
    for one, other in zip(together, alone[::-1], strict=True):
        for step, same in zip(one.steps, other.steps, strict=True):
            if step["near_ties"] or same["near_ties"]:
                break
            assert step | {"pushed_tokens": 0} == same | {"pushed_tokens": 0}
        outcomes = replay(ground, one.start, [step["action"] for step in one.steps])
        assert [o.observation for _, o in outcomes] == [s["observation"] for s in one.steps]
        failed = [step["action"] for step in one.steps if not step["ok"]]
        assert len(set(failed)) == len(failed), "the ban"
    assert tabulate(together).schema == STEP_SCHEMA


def test_a_branch_starts_right_after_the_first_failure(
    ground: Playground, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = starting(ground, 2, {"solved": 1})
    first = gold(ground, 1)
    rollout, _ = run(ground, chat, monkeypatch, HARNESSES["verbatim"], [first, BAD], task=1)
    steps = tabulate([rollout]).to_pandas()
    [branch] = after_first_failure(ground, starts, steps)
    assert branch.failure is not None and branch.failure[0] == BAD
    assert branch.context.history[-1].action == first
    assert branch.context.history[:-1] == starts[1].context.history
    steps.loc[0, "observation"] = "OK: something else."
    with pytest.raises(ValueError, match="replay shows other observations"):
        after_first_failure(ground, starts, steps)


def steps_of(task: str, *turns: tuple[str, bool], stop: str = "steps") -> pd.DataFrame:
    """Steps from (action, ok) pairs; `X` and `x` mean the same."""
    rows = [
        {
            "harness": "verbatim",
            "decoding": "greedy",
            "task_id": task,
            "step": number,
            "text": action,
            "action": action,
            "canonical": action.lower(),
            "ok": ok,
            "solved": stop == "solved" and number == len(turns),
            "finished": stop == "finished" and number == len(turns),
            "readable": action != "prose",
            "ending": "stop",
            "prompt_tokens": 10 * number,
            "generated_tokens": 4,
            "stop": stop if number == len(turns) else None,
        }
        for number, (action, ok) in enumerate(turns, start=1)
    ]
    return pd.DataFrame(rows)


KEYS = ["harness", "decoding", "task_id"]


def test_what_is_counted() -> None:
    steps = pd.concat(
        [
            steps_of("t1", ("x", False), ("x", False), ("X", False), ("y", True), ("x", False)),
            steps_of("t2", ("y", True), ("y", True), stop="solved"),
            steps_of("t3", ("prose", False), ("finish()", True), stop="finished"),
        ]
    )
    found = per_rollout(marked(steps, KEYS), KEYS).set_index("task_id")
    first = found.loc["t1"]
    assert (first["failed"], first["exact"], first["canonical"]) == (4, 2, 3)
    assert (first["exact_failed"], first["canonical_failed"]) == (2, 3)
    assert (first["opportunities"], first["again"], first["later"]) == (4, 1, 4)
    assert first["loop"] and not first["success"]
    assert first["exact_share"] == 0.5
    assert (first["prompt_tokens"], first["generated_tokens"]) == (150, 20)
    second, third = found.loc["t2"], found.loc["t3"]
    assert second["success"] and second["clean"] and second["again"] == 1 and not second["exact"]
    assert third["false_success"] and third["prose"] == 1 and not third["loop"]
    estimates = estimate_rollouts(
        found.reset_index(),
        METRICS,
        Statistics(1, 200),
        {"model": "m", "environment": "e", "study": "rollouts"},
    ).set_index("metric")
    assert estimates.loc["exact_repeat_rate", "mean"] == pytest.approx(2 / 5)
    assert estimates.loc["canonical_repeat_rate", "mean"] == pytest.approx(3 / 5)
    assert estimates.loc["canonical_repeats_per_rollout", "mean"] == pytest.approx(3 / 8)
    assert estimates.loc["canonical_repeats_per_opportunity", "mean"] == pytest.approx(3 / 5)
    assert estimates.loc["repeats_per_rollout", "mean"] == pytest.approx(0.25)
    assert list(estimates.loc["repeats_per_rollout", ["n", "n_clusters"]]) == [2, 2]
    assert estimates.loc["repeats_per_opportunity", "mean"] == pytest.approx(2 / 5)
    assert estimates.loc["success", "mean"] == pytest.approx(1 / 3)
    assert estimates.loc["context_tokens_per_step", "mean"] == pytest.approx(210 / 9)
    assert estimates.loc["speaker_turns", "status"].startswith("0/3: exact one-sided bound")


def test_a_branch_counts_the_failure_that_it_starts_from() -> None:
    steps = pd.concat(
        [steps_of("t1", ("X", False), ("y", True), stop="solved"), steps_of("t2", ("z", False))]
    )
    failed = pd.DataFrame({"task_id": ["t1", "t2"], "action": ["x", "z"], "canonical": ["x", "z"]})
    rows = per_rollout(marked(steps, KEYS, failed), KEYS, attempts=2).set_index("task_id")
    assert list(rows["first_exact"]) == [False, True]
    assert list(rows["first_canonical"]) == [True, True]
    assert list(rows["any_exact"]) == [False, True]
    assert list(rows["within_1"]) == [False, False]
    assert list(rows["within_2"]) == [True, False]
    assert set(branch_metrics(2)) >= {"repeat", "valid", "success_within_2"}


def test_a_repeat_that_succeeds_is_no_failed_action_that_was_repeated() -> None:
    steps = steps_of("t1", ("x", False), ("y", True), ("x", True), ("x", False))
    [row] = per_rollout(marked(steps, KEYS), KEYS).to_dict("records")
    assert (row["failed"], row["exact"], row["exact_failed"]) == (2, 2, 1)
    assert row["exact_share"] == 0.5


def test_to_be_done_is_no_valid_call() -> None:
    steps = pd.concat(
        [
            steps_of("t1", ("finish()", True), stop="finished"),
            steps_of("t2", ("y", True), ("z", False)),
            steps_of("t3", ("z", False)),
            steps_of("t4", ("y", True), stop="solved"),
        ]
    )
    failed = pd.DataFrame({"task_id": ["t1", "t2", "t3", "t4"], "action": "x", "canonical": "x"})
    rows = per_rollout(marked(steps, KEYS, failed), KEYS, attempts=1).set_index("task_id")
    assert list(rows["first_valid"]) == [False, True, False, True]
    assert list(rows["first_finish"]) == [True, False, False, False]


def test_who_speaks() -> None:
    for text in ("User: do it", "f()\nUser: and?", "f()\nassistant: g()", "\n Result: 4"):
        assert writes_a_speaker(text), text
    for text in ("Assistant: f()", 'f(text="User: no")', "tool call: f()", "f()\ng()"):
        assert not writes_a_speaker(text), text


def test_a_contrast_is_paired_within_tasks() -> None:
    """A harness that differs from `verbatim` by the same on every task differs without doubt."""
    rng = np.random.default_rng(0)
    base = pd.DataFrame({"task_id": [f"t{n}" for n in range(20)], "steps": rng.integers(1, 9, 20)})
    base = base.assign(decoding="greedy", one=1)
    rows = pd.concat(
        [
            base.assign(harness="verbatim"),
            base.assign(harness="drop", steps=base["steps"] + rng.integers(2, 4, 20)),
        ]
    )
    metrics = {"steps": METRICS["steps"]}
    names = {"model": "m", "environment": "e", "study": "rollouts"}
    found = estimate_rollouts(rows, metrics, Statistics(1, 500), names)
    assert list(found.columns) == OUTCOME_SCHEMA.names
    contrast = found[found["contrast"]].iloc[0]
    plain = found[found["harness"] == "drop"].iloc[0]
    assert 2 <= contrast["ci_low"] < contrast["mean"] < contrast["ci_high"] <= 3
    assert plain["ci_high"] - plain["ci_low"] > contrast["ci_high"] - contrast["ci_low"]
