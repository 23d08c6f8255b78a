"""Chat templates that the config declares for a model in place of its own.

A base model has none. It is scored only when the config says how a transcript is written for it:
`chat_template: plain`, or the path of a Jinja file.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

from backfire.errors import UserError

OWN = "own"
"""The template that comes with the tokenizer."""

PLAIN = """\
{%- set names = {"system": "System", "user": "User", "assistant": "Assistant"} -%}
{%- for message in messages -%}
{%- if message["role"] not in names -%}
{{- raise_exception("the plain template has no role " ~ message["role"]) -}}
{%- endif -%}
{{- names[message["role"]] ~ ":\\n" ~ message["content"] ~ "\\n\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- "Assistant:\\n" -}}
{%- endif -%}
"""
"""Speakers by name. A turn begins on a line of its own, so that its first token stands alone."""


def files(name: str | None) -> list[str]:
    """The files that a declared template is read from."""
    return [] if name in (None, OWN, "plain") else [str(name)]


def read(name: str) -> str | None:
    """The text of a declared template; None for the tokenizer's own.

    Raises:
        UserError: the file cannot be read.
    """
    if name == OWN:
        return None
    if name == "plain":
        return PLAIN
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot read the chat template ({error})") from error


_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")


def pin_date(template: str, day: datetime) -> str:
    """The template with `day` in place of today.

    It is written into the text, since transformers hands no function on to a template.

    Raises:
        UserError: the template asks for the date in a way that is not known here.
    """
    pinned = _TODAY.sub(lambda call: json.dumps(day.strftime(call[2])), template)
    if "strftime_now(" in pinned:
        raise UserError("the chat template shows today's date, and it cannot be pinned")
    return pinned
