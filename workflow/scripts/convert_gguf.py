"""Convert a GGUF file into a transformers folder of float32 weights."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.gguf import convert

    convert(Path(snakemake.input[0]), Path(snakemake.output[0]))
