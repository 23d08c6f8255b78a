"""`make plan` and `make status`: what a study will take, and what of it is there.

python -m backfire.commands plan|status [CONFIG]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from backfire import catalogue, config_file, planning, rollout_config
from backfire import config as study
from backfire.errors import UserError
from backfire.planning import Machine, Stage

UNKNOWN = "?"


def plan(config: study.Config, machine: Machine) -> Iterator[str]:
    """What each stage takes, the whole, and what does not fit the machine; lines of text."""
    measured = planning.measured_rate(config)
    stages = list(planning.plan(config, measured or planning.RATE))
    head = ["model", "stage", "jobs", "done", "CPU time", "memory", "disk"]
    yield from columns([head, *(_row(stage) for stage in stages)])
    yield ""
    left = [stage for stage in stages if stage.ready < stage.jobs]
    known = [stage.seconds * (1 - stage.ready / stage.jobs) for stage in left if stage.seconds]
    side_by_side = max(1, machine.cores // config.get("scoring", {}).get("threads", 1))
    yield (
        f"Left to do: {_time(sum(known))} of one core, so about "
        f"{_time(sum(known) / side_by_side)} on {machine.cores} cores."
    )
    source = "scores that were computed here" if measured else "rates of another machine"
    yield f"Estimated from {source}; expect twice or half. What the store holds costs nothing."
    yield (
        f"This machine: {machine.cores} cores, {_size(machine.memory)} of memory, "
        f"{_size(machine.disk)} of free disk."
    )
    yield from misfits(stages, machine)


def misfits(stages: Sequence[Stage], machine: Machine) -> Iterator[str]:
    """What a machine has too little of, and what cannot be known yet."""
    models = dict.fromkeys(stage.model for stage in stages)
    for model in models:
        needs = [s.memory for s in stages if s.model == model and s.memory]
        if not needs and any(s.model == model and s.seconds is None for s in stages):
            yield f"Not known: the size of {model}, until it lies here; its name does not say."
        elif needs and max(needs) > machine.memory:
            yield (
                f"Does not fit: {model} needs {_size(max(needs))} of memory; give it "
                "`dtype: bfloat16`, or a larger machine."
            )
        elif needs and (fits := int(machine.memory // max(needs))) < machine.cores:
            yield (
                f"{model}: at most {fits} of its jobs at a time fit the memory; Snakemake keeps "
                "to that."
            )
    disk = sum(stage.disk or 0 for stage in stages)
    if disk > machine.disk:
        yield f"Does not fit: {_size(disk)} are written, and {_size(machine.disk)} are free."


def status(config: study.Config) -> Iterator[str]:
    """Which files of a study exist and what is missing; lines of text.

    Whether what exists is up to date is for Snakemake to say: `snakemake -n`.
    """
    missing = 0
    rows = []
    for model, environment in study.cells(config):
        for probe in study.probes_of(config, model, environment):
            there: list[int] = []
            gone: list[int] = []
            for shard in range(study.n_shards(config, probe, environment)):
                paths = study.shard_files(config, probe, model, environment, shard)
                (there if all(map(_exists, paths)) else gone).append(shard)
            missing += len(gone)
            lack = f"missing: {_ranges(gone)}" if gone else ""
            of = f"{len(there)} of {len(there) + len(gone)} shards"
            rows.append([model, f"{probe} on {environment}", of, lack])
    for name, paths in _made_once(config).items():
        gone_files = [path for path in paths if not _exists(path)]
        missing += len(gone_files)
        lack = f"missing: {gone_files[0]}" if gone_files else ""
        if len(gone_files) > 1:
            lack += f" and {len(gone_files) - 1} more"
        rows.append(["", name, f"{len(paths) - len(gone_files)} of {len(paths)} files", lack])
    yield from columns(rows)
    yield ""
    yield f"Missing: {missing}. A run makes them." if missing else "All files are there."
    yield "Whether they are up to date, and this study's, a dry run says: .venv/bin/snakemake -n"


def _made_once(config: study.Config) -> dict[str, list[str]]:
    """The files of a study besides its score shards, by what they are."""
    covered = study.cells(config)
    outline = study.outline(config)
    return {
        "items": [
            f"results/items/{environment}/{name}.parquet"
            for environment in study.environments_in(covered)
            for name in ("pool", *config["probes"])
            if name == "pool" or environment in config["probes"][name]["items"]
        ],
        **{
            part: [f"results/{part}/{m}/{e}.{suffix}" for m, e in covered]
            for part, suffix in {
                "measures": "parquet",
                "estimates": "parquet",
                "checks": "json",
            }.items()
        },
        "summaries": [f"results/models/{m}/summary.md" for m in study.models_in(covered)],
        "tables": [
            f"results/tables/{stem}.csv" for stem in ("estimates", *catalogue.table_stems(outline))
        ],
        "figures": [f"results/figures/{name}.svg" for name in catalogue.figure_stems(outline)],
        "report": ["results/report.html", "results/summary.txt"],
        **_of_rollouts(config),
    }


def _of_rollouts(config: study.Config) -> dict[str, list[str]]:
    played = rollout_config.cells(config)
    if not played:
        return {}
    return {
        kind: [
            f"results/{path}"
            for m, e in played
            for path in rollout_config.files(config, kind, m, e)
        ]
        for kind in ("rollouts", "branches")
    } | {
        "tables of rollouts": [
            f"results/tables/{s}.csv" for s in rollout_config.table_stems(config)
        ],
        "page of rollouts": ["results/rollouts.md"],
    }


def _exists(path: str) -> bool:
    return Path(path).exists()


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in rising order as `0-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows of text, in columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(stage: Stage) -> list[str]:
    return [
        stage.model,
        stage.name,
        str(stage.jobs),
        str(stage.ready),
        UNKNOWN if stage.seconds is None else _time(stage.seconds),
        _size(stage.memory) if stage.memory else UNKNOWN if stage.seconds is None else "-",
        UNKNOWN if stage.disk is None else _size(stage.disk),
    ]


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size(megabytes: float) -> str:
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="backfire", description=__doc__)
    parser.add_argument("command", choices=["plan", "status"])
    parser.add_argument("config", nargs="?", default="config.yaml")
    asked = parser.parse_args(arguments)
    try:
        config = config_file.read(asked.config)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    lines = plan(config, Machine.here()) if asked.command == "plan" else status(config)
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
