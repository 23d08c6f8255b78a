"""The report: one page that opens offline, made of sections.

To add a section, write a function `(inputs, study) -> values or None` in `sections.py`, a
template of its name in `templates/sections/`, and a line in `sections.SECTIONS`. A section
whose stage has not run gives None and is left out, of the contents too.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from backfire import style
from backfire.cells import Study
from backfire.report_inputs import ReportInputs
from backfire.sections import SECTIONS
from backfire.verdict import Code, Number

TEMPLATES = Path(__file__).parent / "templates"


def render(inputs: ReportInputs) -> str:
    """The page as HTML, self-contained."""
    study = Study(inputs.estimates, inputs.margin, inputs.confidence)
    environment = _environment(inputs)
    shown = []
    for section in SECTIONS:
        values = section.build(inputs, study)
        if values is not None:
            template = environment.get_template(f"sections/{section.name}.html.j2")
            shown.append((section, Markup(template.render(values))))
    return environment.get_template("report.html.j2").render(
        sections=shown,
        style=Markup(_asset("report.css")),
        script=Markup(_asset("report.js")),
    )


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _environment(inputs: ReportInputs) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        source_of=_sources(inputs),
        picture=lambda name, alt: _picture(inputs.figures, name, alt),
    )
    environment.tests["number"] = lambda part: isinstance(part, Number)
    environment.tests["finite"] = math.isfinite
    environment.tests["code"] = lambda part: isinstance(part, Code)
    environment.filters["nats"] = lambda value: f"{value:+.2f}".replace("-", "−")
    return environment


KEYS = ["model", "environment", "group", "measure"]


def _sources(inputs: ReportInputs) -> Callable[[Number], str]:
    """Where a number is found: the first table with its estimate, else the file of estimates."""
    files = dict(inputs.places)
    for table in inputs.showing(*inputs.tables):
        if set(KEYS) <= set(table.data.columns):
            for key in table.data[KEYS].itertuples(index=False, name=None):
                files.setdefault(key, f"tables/{table.name}.csv")
    return lambda number: files.get(
        (number.model, number.environment, number.group, number.measure), inputs.source
    )


def _picture(figures: Mapping[str, str], name: str, alt: str) -> Markup:
    """A figure inside the page, in its light and its dark form; nothing where there is none."""
    svg = figures.get(name)
    if svg is None:
        return Markup("")
    width = re.search(r'<svg[^>]*? width="([\d.]+)pt"', svg)
    if width is None:
        raise ValueError(f"figure {name}: its SVG states no width in points")
    return Markup(
        '<figure style="--w:{width}pt"><div class="scroll"><picture>'
        '<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        '<img src="{light}" alt="{alt}"></picture></div>'
        '<figcaption>{alt} (<a href="figures/{name}.pdf">PDF</a>, '
        '<a href="figures/{name}.png">PNG</a>, <a href="figures/{name}.svg">SVG</a>)</figcaption>'
        "</figure>"
    ).format(
        width=width[1], light=_data_uri(svg), dark=_data_uri(style.darken(svg)), alt=alt, name=name
    )


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
