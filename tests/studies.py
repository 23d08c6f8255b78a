"""Small real studies: a copy of the workflow in a folder of its own, and snakemake on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).parents[1]


def tiny_model(folder: Path, tokenizer: Path, seed: int = 0) -> Path:
    """A random two-layer Llama under the bundled model's tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)
    return folder


def config_for(model: Path, items: int = 8) -> dict[str, Any]:
    """A study of one model on two environments, one shard each."""
    return {
        "seed": 1,
        "models": {"tiny.v1+x": {"source": f"path:{model}"}},
        "environments": {
            "toolshed": {"kind": "toolshed", "per_task": 3},
            "terminal": {"kind": "items", "path": "resources/examples/terminal.jsonl"},
        },
        "probes": {
            "core": {
                "conditions": ["pre", "fail", "succ", "neut", "abstract"],
                "items": {"toolshed": items, "terminal": 10},
            }
        },
        "statistics": {"resamples": 500, "confidence": 0.95},
        "checks": {"pairs": 4},
        "scoring": {"threads": 1},
        "shard_size": 10,
    }


class Study:
    """A working copy of the workflow with a configuration of its own."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        self.variables: dict[str, str] = {}
        for name in ("workflow", "profiles", "envs", "resources"):
            ignored = shutil.ignore_patterns("__pycache__", "models", "downloads")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        shutil.copy(ROOT / "Snakefile", folder / "Snakefile")
        self.configure(config)

    @classmethod
    def at(cls, folder: Path) -> Study:
        """The study that lies in a folder."""
        study = cls.__new__(cls)
        study.folder = folder
        study.variables = {}
        study.config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        return study

    def copy(self, folder: Path) -> Study:
        """This study as it stands, in another folder."""
        ignored = shutil.ignore_patterns(".cache")
        shutil.copytree(self.folder, folder, ignore=ignored, dirs_exist_ok=True)
        return Study.at(folder)

    def configure(self, config: dict[str, Any]) -> None:
        self.config = config
        text = yaml.safe_dump(config, sort_keys=False)
        (self.folder / "config.yaml").write_text(text, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]

    def environment(self) -> dict[str, str]:
        # Source caching must not reach across the copies.
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder / ".cache"), **self.variables}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """snakemake in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *arguments: str, expect: int = 0) -> str:
        """Run snakemake to its end; its output."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == expect, output
        return output

    def planned(self, *arguments: str) -> dict[str, int]:
        """The rules that a run would execute, and how often."""
        output = self.run(*arguments, "--dry-run")
        jobs: dict[str, int] = {}
        for line in output.splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit() and words[0] != "total":
                jobs[words[0]] = int(words[1])
        return jobs

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} holds {text.count(old)} times {old!r}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def frames(self) -> dict[str, Any]:
        """Every estimate, measure and score of the study, as plain Python values."""
        return {
            str(path.relative_to(self.folder)): pq.read_table(path).to_pylist()
            for part in ("scores", "measures", "estimates")
            for path in sorted((self.folder / "results" / part).rglob("*.parquet"))
        }

    def scoring_counts(self) -> dict[str, int]:
        """How many scores the last job of each shard computed and reused."""
        totals = {"computed": 0, "reused": 0}
        for path in (self.folder / "results/scores").glob("*/*/*/pre/*.parquet"):
            made = json.loads(pq.read_schema(path).metadata[b"backfire"])
            for key in totals:
                totals[key] += made[key]
        return totals


def jobs_of(study: Study) -> list[psutil.Process]:
    """The processes that run the study's scripts."""
    scripts = str(study.folder / ".snakemake/scripts")
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(scripts in word for word in process.info["cmdline"] or [])
    ]
