"""House style: colours, marks and names, in one place, and how a figure is saved.

The colours are Okabe and Ito's (2008), which stay apart under every common colour blindness;
whatever a colour says, a hatch or a marker says too, so that the figures survive a grey printer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

from backfire.storage import replacing

INK = "#24292f"
SOFT = "#6e7781"
GRID = "#d8dee4"
PAPER = "#ffffff"

# Text that lies on a coloured cell, which does not turn with the page: not one of the above.
ON_LIGHT = "#101010"
ON_DARK = "#fafafa"

DARK = {INK: "#e6edf3", SOFT: "#9aa4ae", GRID: "#3a424b", PAPER: "#14181d"}
"""What the four neutral colours become on a dark page."""

DIVERGING = "RdBu"
"""Below zero red, above zero blue."""


class Mark(NamedTuple):
    """How one series is drawn wherever it appears."""

    label: str
    colour: str
    marker: str
    hatch: str = ""
    line: str = "-"


CONDITIONS: Mapping[str, Mark] = {
    "pre": Mark("pre: no attempt", "#000000", "o", "", "-"),
    "fail": Mark("fail: call and error", "#D55E00", "o", "", "-"),
    "succ": Mark("succ: call and success", "#009E73", "^", "..", "-."),
    "neut": Mark("neut: call, neutral reply", "#0072B2", "s", "//", "--"),
    "abstract": Mark("abstract: described, call removed", "#CC79A7", "D", "xx", ":"),
}

PARTS: Mapping[str, Mark] = {
    "copy": Mark("copy: call in view", "#56B4E9", "s"),
    "sem": Mark("sem: marked as failed", "#E69F00", "s", "////"),
    "total": Mark("total, −G", INK, "D"),
}

_SPARE = ("#E69F00", "#56B4E9", "#F0E442", "#999999", "#332288", "#117733")
_SPARE_MARKERS = ("v", "P", "X", "<", ">", "h")

_RC: Mapping[str, Any] = {
    "figure.dpi": 110,
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "savefig.facecolor": PAPER,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "hatch.linewidth": 0.7,
    "pdf.fonttype": 42,
    "svg.hashsalt": "backfire",
    "svg.fonttype": "path",
}


@contextmanager
def house() -> Iterator[None]:
    """Draw in the house style within the block, whatever the caller's settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        sns.set_theme(context="paper", style="whitegrid", rc=dict(_RC))
        yield


def condition_mark(name: str) -> Mark:
    """The mark of a condition; one without its own gets a spare that depends on its name alone."""
    if name in CONDITIONS:
        return CONDITIONS[name]
    spare = sum(name.encode())
    return Mark(
        name.replace("_", " "),
        _SPARE[spare % len(_SPARE)],
        _SPARE_MARKERS[spare // len(_SPARE) % len(_SPARE_MARKERS)],
        "\\\\",
        "--",
    )


_SERIES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SERIES_MARKERS = ("o", "s", "D", "^", "v", "P", "<", ">")


def series_mark(label: str, at: int) -> Mark:
    """The mark of the series number `at` among models, environments or harnesses."""
    return Mark(label, _SERIES[at % len(_SERIES)], _SERIES_MARKERS[at % len(_SERIES_MARKERS)])


_METADATA: Mapping[str, Mapping[str, str | None]] = {
    "pdf": {"Creator": "Backfire", "Producer": "Backfire", "CreationDate": None},
    "png": {"Software": "Backfire"},
    "svg": {"Creator": "Backfire", "Date": None},
}
FORMATS = tuple(_METADATA)


def save(figure: Figure, stem: str | Path) -> list[Path]:
    """Write the figure as `stem`.pdf, .png and .svg; equal figures give equal bytes."""
    paths = []
    with house():
        for kind, metadata in _METADATA.items():
            path = Path(f"{stem}.{kind}")
            with replacing(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=dict(metadata))
            paths.append(path)
    return paths


def darken(svg: str) -> str:
    """A saved SVG for a dark page: the neutral colours change, the data's colours stay."""
    for light, dark in DARK.items():
        svg = svg.replace(light, dark)
    return svg
