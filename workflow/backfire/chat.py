"""Messages to token ids: chat templates under a declared policy, and the seam after a prompt.

What a template refuses is mended the same way for every condition, and the policy that was
needed is recorded: a system prompt moves to the front of the first user message, messages of
one role in a row are joined, the date is pinned, thinking is off unless asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jinja2.exceptions import TemplateError
from transformers import AutoTokenizer

from backfire import chat_templates
from backfire.conditions import Message
from backfire.errors import UserError
from backfire.scoring import Refusal

PINNED_DATE = datetime(2026, 1, 1)
"""Shown by templates that print today's date, so that prompts do not change overnight."""

_JOINT = "\n\n"


class Encoded(NamedTuple):
    """A prompt and a continuation as token ids, split where the prompt's ids end.

    `starts` holds, for each token of the continuation, the offset of its first character in
    the continuation's text.
    """

    context_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True)
class Policy:
    """What is done about a template's limits; part of every shard's metadata."""

    system: str  # "native", or "folded" into the first user message
    same_role: str  # "native", or "joined" where two messages of a role follow each other
    thinking: str  # "absent" from the template, "off", "on"
    date: str  # "absent" from the template, or the date that is shown
    bos: str  # "none", "template" or "added"


class Chat:
    """The tokenizer and chat template of one model."""

    def __init__(
        self,
        tokenizer: Any,
        options: Mapping[str, Any] | None = None,
        template: str = chat_templates.OWN,
    ) -> None:
        """`options` are passed to the template, such as `{"enable_thinking": False}`.

        Args:
            template: the tokenizer's own, or a declared one of `chat_templates`.

        Raises:
            UserError: the tokenizer has no chat template and none is declared, or that one
                is not right.
        """
        declared = chat_templates.read(template)
        if declared is None and not tokenizer.chat_template:
            raise UserError(
                f"{tokenizer.name_or_path}: the tokenizer has no chat template (a base model?); "
                "use the instruct checkpoint, or declare a template in the model's entry: "
                "`chat_template: plain`, or the path of a Jinja file"
            )
        self.tokenizer = tokenizer
        self.source = template
        self.template: str = declared or tokenizer.get_chat_template()
        self._pinned = chat_templates.pin_date(self.template, PINNED_DATE)
        self._options: dict[str, Any] = dict(options or {})
        if "enable_thinking" in self.template:
            self._options.setdefault("enable_thinking", False)
        try:
            self.policy = self._find_policy()
        except TemplateError as error:
            place = tokenizer.name_or_path if template == chat_templates.OWN else template
            raise UserError(f"{place}: the chat template is not right: {error}") from error

    @classmethod
    def load(
        cls,
        folder: str | Path,
        options: Mapping[str, Any] | None = None,
        template: str = chat_templates.OWN,
    ) -> Chat:
        return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True), options, template)

    @classmethod
    def of(cls, folder: str | Path, card: Mapping[str, Any]) -> Chat:
        """The chat of the model in `folder`, as its card describes it."""
        chat = card["chat"]
        return cls.load(folder, chat["template_options"], chat["template"])

    def describe(self) -> dict[str, Any]:
        """Where the template is from, its hash, options and policy: for metadata and the report."""
        return {
            "template": self.source,
            "template_sha256": hashlib.sha256(self.template.encode()).hexdigest(),
            "template_options": dict(sorted(self._options.items())),
            **asdict(self.policy),
        }

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt up to where the assistant's next turn begins."""
        return self._apply(self._fold(messages))

    def altered(self, messages: Sequence[Message], prompt: str) -> str | None:
        """Why `prompt` does not carry the messages as they are, or None when it does.

        A template may trim a message, and a message may hold the text of a chat marker,
        which the tokenizer would take for the marker itself.
        """
        position = 0
        for message in messages:
            found = prompt.find(message["content"], position)
            if found < 0:
                return f"the chat template alters the text of a {message['role']} message"
            position = found + len(message["content"])
            if self.has_marker(message["content"]):
                return f"a {message['role']} message holds a special token of the tokenizer"
        return None

    def has_marker(self, text: str) -> bool:
        """Whether the text holds one of the tokenizer's special tokens."""
        return any(marker in text for marker in self._markers)

    def encode(self, prompt: str, continuation: str) -> Encoded | Refusal:
        """Tokenise both together and split where the prompt's own ids end.

        Refused when the ids differ across the seam: a token that spans it belongs to
        neither part.
        """
        context = self._ids(prompt)
        encoding = self.tokenizer(
            prompt + continuation, add_special_tokens=False, return_offsets_mapping=True
        )
        offset = self._leading_bos(prompt)
        whole = [*offset, *encoding["input_ids"]]
        if whole[: len(context)] != context:
            return Refusal("tokens merge across the end of the prompt")
        tail = len(context) - len(offset)
        starts = tuple(start - len(prompt) for start, _ in encoding["offset_mapping"][tail:])
        return Encoded(tuple(context), tuple(whole[len(context) :]), starts)

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text that stands alone."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def has_tool_role(self) -> bool:
        """Whether the template renders the role `tool` in a way of its own.

        A template that prints any role name as it stands has none.
        """
        head: list[Message] = [
            {"role": "user", "content": "goal"},
            {"role": "assistant", "content": "call"},
        ]
        try:
            tool, other = (
                self._apply([*head, {"role": role, "content": "seen"}]).replace(role, "\0")
                for role in ("tool", "zebra")
            )
        except (TemplateError, TypeError, ValueError):
            return self._renders([*head, {"role": "tool", "content": "seen"}])
        return tool != other and "seen" in tool

    def native_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """A tool call as the template writes it in an assistant turn.

        None where the template has no form for calls, or loses some of it.
        """
        user = {"role": "user", "content": "goal"}
        shown = "\x00shown\x00"
        function = {"name": tool, "arguments": dict(arguments)}
        call = {"type": "function", "id": "call00000", "function": function}
        try:
            plain = self._apply([user, {"role": "assistant", "content": shown}])
            written = self._apply(
                [user, {"role": "assistant", "content": "", "tool_calls": [call]}]
            )
        except (TemplateError, TypeError, ValueError):
            return None
        head, found, tail = plain.partition(shown)
        if not (found and written.startswith(head) and written.endswith(tail)):
            return None
        text = written[len(head) : len(written) - len(tail)].strip()
        parts = [tool, *arguments]
        return text if text and all(part in text for part in parts) else None

    @cached_property
    def _markers(self) -> list[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        return sorted({str(token) for token in added if token.special})

    def _ids(self, prompt: str) -> list[int]:
        ids = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return [*self._leading_bos(prompt), *ids]

    def _leading_bos(self, prompt: str) -> list[int]:
        """The BOS that the model wants at position 0 and the template did not write."""
        tokenizer = self.tokenizer
        if not self._wants_bos or prompt.startswith(tokenizer.bos_token):
            return []
        return [tokenizer.bos_token_id]

    @cached_property
    def _wants_bos(self) -> bool:
        bos = self.tokenizer.bos_token_id
        return bos is not None and self.tokenizer("a").input_ids[0] == bos

    def _apply(self, messages: Sequence[Mapping[str, Any]]) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(messages),
            chat_template=self._pinned,
            tokenize=False,
            add_generation_prompt=True,
            **self._options,
        )
        return text

    def _renders(self, messages: Sequence[Message]) -> bool:
        """Whether the template takes the messages and shows each of them."""
        try:
            text = self._apply(messages)
        except (TemplateError, TypeError, ValueError):
            return False
        return all(message["content"] in text for message in messages)

    def _find_policy(self) -> Policy:
        user: Message = {"role": "user", "content": "first question"}
        again: Message = {"role": "user", "content": "second question"}
        system: Message = {"role": "system", "content": "be exact"}
        thinking = self._options.get("enable_thinking")
        bos = "none"
        prompt = self._apply([user])
        if self._wants_bos:
            bos = "added" if self._leading_bos(prompt) else "template"
        return Policy(
            system="native" if self._renders([system, user]) else "folded",
            same_role="native" if self._renders([user, again]) else "joined",
            thinking="absent" if thinking is None else ("on" if thinking else "off"),
            date=PINNED_DATE.date().isoformat() if "strftime_now" in self.template else "absent",
            bos=bos,
        )

    def _fold(self, messages: Sequence[Message]) -> list[Message]:
        folded: list[Message] = []
        for message in messages:
            role, content = message["role"], message["content"]
            if role == "system" and self.policy.system == "folded":
                if not content:
                    continue
                role = "user"
            previous = folded[-1] if folded else None
            system_in_front = len(folded) == 1 and messages[0]["role"] == "system"
            if (
                previous is not None
                and previous["role"] == role
                and (
                    self.policy.same_role == "joined"
                    or (self.policy.system == "folded" and system_in_front)
                )
            ):
                folded[-1] = {"role": role, "content": previous["content"] + _JOINT + content}
            else:
                folded.append({"role": role, "content": content})
        return folded
