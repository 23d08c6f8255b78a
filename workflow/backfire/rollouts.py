"""Rollouts: a model acts in an environment, under a harness, until it is solved or over.

    open the transcript -> write a turn -> take one action out of it -> execute -> record

`starting` and `after_first_failure` say where rollouts begin, `play` is the loop, and `replay`
gives back every observation from the actions alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from backfire.ban import Rule
from backfire.chat import Chat, Encoded
from backfire.conditions import Message, before
from backfire.decoding import Decoder, Turn, Written, common_prefix
from backfire.harnesses import Harness
from backfire.items import Item
from backfire.items import Turn as Past
from backfire.play import Outcome, Playground, State, Task

Stop = Literal["solved", "finished", "steps", "window", "template"]
"""Why a rollout ended: the goal predicate holds; the model said it was done; the step limit; the
context has no room for another turn; the chat template cannot show what was written."""

STEP_SCHEMA = pa.schema(
    [
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("template", pa.string()),
        pa.field("step", pa.int32(), nullable=False),  # from 1
        pa.field("text", pa.string(), nullable=False),  # all that the model wrote
        pa.field("action", pa.string(), nullable=False),  # what was taken out of it
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("observation", pa.string(), nullable=False),
        pa.field("ok", pa.bool_(), nullable=False),
        pa.field("solved", pa.bool_(), nullable=False),  # the goal predicate, after the step
        pa.field("finished", pa.bool_(), nullable=False),
        pa.field("readable", pa.bool_(), nullable=False),  # whether the action is a call at all
        pa.field("tool", pa.string()),
        pa.field("error_family", pa.string()),
        pa.field("ending", pa.string(), nullable=False),  # stop, complete, length
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("pushed_tokens", pa.int32(), nullable=False),  # of the prompt, not in the cache
        pa.field("generated_tokens", pa.int32(), nullable=False),
        pa.field("near_ties", pa.int32(), nullable=False),
        pa.field("prompt_sha256", pa.string(), nullable=False),
        pa.field("stop", pa.string()),  # on a rollout's last step: why it ended
    ]
)

GROUP = 64
"""At most so many rollouts advance in one batch, which bounds memory."""


@dataclass(frozen=True)
class Decoding:
    """How turns are chosen: greedily, or at a temperature with random numbers from `seed`.

    `steps` is the most turns of a rollout. The numbers of a turn depend on the seed, the task
    and the step, so the same turn of two harnesses meets the same numbers.
    """

    steps: int
    temperature: float = 0.0
    seed: str = ""

    def noise(self, task_id: str, step: int) -> str:
        return f"{self.seed}/{task_id}/{step}"


@dataclass(frozen=True)
class Start:
    """Where a rollout begins: a task, its transcript so far, and a failure to be recorded."""

    task: Task
    state: State
    context: Item
    failure: tuple[str, Outcome] | None = None


@dataclass
class Rollout:
    """A rollout under way."""

    start: Start
    state: State
    transcript: list[Message]
    failed: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    stop: Stop | None = None

    def end(self, reason: Stop) -> None:
        self.stop = reason
        if self.steps:
            self.steps[-1]["stop"] = reason


def opening(playground: Playground, task: Task, demonstrations: Mapping[str, int] | str) -> Item:
    """The context of a task before anything has happened, as an item without a failure.

    Args:
        demonstrations: `format`, for a line in the system prompt that shows a reply alone; or
            `{"solved": k}`, for k solved tasks as turns of the chat. The next goal follows the
            last observation in one message, since many templates want roles to alternate.
    """
    system, goal = playground.system, task.goal
    history: list[Past] = []
    if demonstrations == "format":
        system = f"{system}\n\nA reply looks like this:\n{playground.example}"
    elif isinstance(demonstrations, Mapping):
        goals = [task.goal]
        for shown in reversed(playground.demonstrations[: demonstrations["solved"]]):
            *turns, (action, observation) = shown.turns
            history[:0] = [*turns, Past(action, f"{observation}\n\n{goals[-1]}")]
            goals.append(shown.goal)
        goal = goals[-1]
    return Item(
        item_id=task.task_id,
        task_id=task.task_id,
        template=task.template,
        system=system,
        goal=goal,
        history=tuple(history),
        failed_action="",
        observations={},
    )


def starting(
    playground: Playground, count: int, demonstrations: Mapping[str, int] | str
) -> list[Start]:
    """The first `count` tasks, at their beginning."""
    return [
        Start(task, task.state, opening(playground, task, demonstrations))
        for task in playground.tasks[:count]
    ]


def play(
    playground: Playground,
    starts: Sequence[Start],
    harness: Harness,
    decoding: Decoding,
    chat: Chat,
    network: Any,
    stop_ids: frozenset[int],
) -> list[Rollout]:
    """Every rollout to its end, in the order of `starts`; a task starts once."""
    rollouts = [begin(start, harness, chat) for start in starts]
    rule = Rule(
        decode=lambda ids: str(chat.tokenizer.decode(ids, clean_up_tokenization_spaces=False)),
        stop_ids=stop_ids,
        complete=playground.reply.complete,
        action=playground.reply.action,
        limit=playground.max_tokens,
    )
    for first in range(0, len(rollouts), GROUP):
        group = rollouts[first : first + GROUP]
        decoder = Decoder(network, shared_prefix(chat, [one.transcript for one in group]))
        for step in range(1, decoding.steps + 1):
            turns: list[Turn] = []
            going: list[tuple[Rollout, str]] = []
            for row, rollout in enumerate(group):
                prompt = _prompt(rollout, chat, decoder.window - rule.limit)
                if prompt is None:
                    continue
                text, ids = prompt
                banned = frozenset(rollout.failed if harness.ban else ())
                noise = decoding.noise(rollout.start.task.task_id, step)
                turns.append(Turn(row, ids, rule.banning(banned), decoding.temperature, noise))
                going.append((rollout, text))
            written = decoder.write(turns)
            _act(playground, harness, chat, going, written)
        for rollout in group:
            if rollout.stop is None:
                rollout.end("steps")
    return rollouts


def begin(start: Start, harness: Harness, chat: Chat) -> Rollout:
    """A rollout before its first turn, its failure recorded where there is one."""
    transcript = harness.opening(before(start.context))
    rollout = Rollout(start, start.state, transcript)
    if start.failure is not None:
        action, outcome = start.failure
        rollout.failed.append(action)
        rollout.transcript += harness.failure(action, outcome, chat)
    return rollout


def _prompt(rollout: Rollout, chat: Chat, room: int) -> tuple[str, tuple[int, ...]] | None:
    """The next prompt as text and ids; None where the rollout is over, or has to end here."""
    if rollout.stop is not None:
        return None
    text = chat.render(rollout.transcript)
    if chat.altered(rollout.transcript, text) is not None:
        rollout.end("template")
        return None
    ids = ids_of(chat, text)
    if len(ids) > room:
        rollout.end("window")
        return None
    return text, ids


def _act(
    playground: Playground,
    harness: Harness,
    chat: Chat,
    going: Sequence[tuple[Rollout, str]],
    written: Sequence[Written],
) -> None:
    """Carry out the actions of all rollouts and record what came of them."""
    actions = [playground.reply.action(turn.text) for turn in written]
    outcomes = playground.execute(
        [
            (rollout.start.task, rollout.state, action)
            for (rollout, _), action in zip(going, actions, strict=True)
        ]
    )
    for (rollout, prompt), turn, action, outcome in zip(
        going, written, actions, outcomes, strict=True
    ):
        rollout.steps.append(_row(playground, rollout, prompt, turn, action, outcome))
        rollout.state = outcome.state
        if outcome.ok:
            rollout.transcript += harness.success(action, outcome)
        else:
            rollout.failed.append(action)
            rollout.transcript += harness.failure(action, outcome, chat)
        if outcome.solved:
            rollout.end("solved")
        elif outcome.finished:
            rollout.end("finished")


def _row(
    playground: Playground,
    rollout: Rollout,
    prompt: str,
    turn: Written,
    action: str,
    outcome: Outcome,
) -> dict[str, Any]:
    task = rollout.start.task
    return {
        "task_id": task.task_id,
        "template": task.template,
        "step": len(rollout.steps) + 1,
        "text": turn.text,
        "action": action,
        "canonical": playground.canonical(action),
        "observation": outcome.observation,
        "ok": outcome.ok,
        "solved": outcome.solved,
        "finished": outcome.finished,
        "readable": outcome.readable,
        "tool": outcome.tool,
        "error_family": outcome.error_family,
        "ending": turn.ending,
        "prompt_tokens": turn.prompt_tokens,
        "pushed_tokens": turn.pushed,
        "generated_tokens": turn.generated,
        "near_ties": turn.near_ties,
        "prompt_sha256": hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(),
        "stop": None,
    }


def ids_of(chat: Chat, prompt: str) -> tuple[int, ...]:
    """The token ids of a prompt."""
    encoded = chat.encode(prompt, "")
    assert isinstance(encoded, Encoded)
    return encoded.context_ids


def shared_prefix(chat: Chat, transcripts: Sequence[Sequence[Message]]) -> tuple[int, ...]:
    """The token ids that all prompts of these rollouts begin with, whatever happens in them.

    A transcript only ever grows after its last message, so the prefix ends before that.
    """
    if not transcripts:
        return ()
    *head, last = transcripts[0]
    other: Message = {"role": last["role"], "content": "…"}
    prompts = [chat.render(transcript) for transcript in (*transcripts, [*head, other])]
    return common_prefix([ids_of(chat, prompt) for prompt in prompts])


def tabulate(rollouts: Sequence[Rollout]) -> pa.Table:
    """The steps of all rollouts, as rows of `STEP_SCHEMA`."""
    rows = [step for rollout in rollouts for step in rollout.steps]
    return pa.Table.from_pylist(rows, schema=STEP_SCHEMA)


def replay(
    playground: Playground, start: Start, actions: Sequence[str]
) -> list[tuple[State, Outcome]]:
    """The state before each of the actions, and what comes of it."""
    found, state = [], start.state
    for action in actions:
        [outcome] = playground.execute([(start.task, state, action)])
        found.append((state, outcome))
        state = outcome.state
    return found


def after_first_failure(
    playground: Playground, starts: Sequence[Start], steps: pd.DataFrame
) -> list[Start]:
    """The starts right after the first failure of each rollout that has one, by replay.

    Args:
        steps: rows of `STEP_SCHEMA`, of rollouts from `starts`.

    Raises:
        ValueError: an observation is another than the one that was recorded.
    """
    found = []
    by_task = dict(tuple(steps.sort_values("step").groupby("task_id", sort=False)))
    for start in starts:
        rows = by_task.get(start.task.task_id)
        if rows is None or rows["ok"].all():
            continue
        last = int((~rows["ok"].to_numpy(bool)).argmax())
        rows = rows.iloc[: last + 1]
        played = replay(playground, start, list(rows["action"]))
        if [outcome.observation for _, outcome in played] != list(rows["observation"]):
            raise ValueError(f"{start.task.task_id}: a replay shows other observations")
        past = [
            Past(action, observation)
            for action, observation in zip(rows["action"], rows["observation"], strict=True)
        ]
        context = replace(start.context, history=(*start.context.history, *past[:-1]))
        failure = (past[-1].action, played[-1][1])
        found.append(Start(start.task, played[-1][0], context, failure))
    return found
