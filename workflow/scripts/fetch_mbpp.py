"""Download the sanitized MBPP problems from their public source."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.environments.coderepair.fetch import MBPP_SHA256, MBPP_URL, fetch_mbpp

    fetch_mbpp(MBPP_URL, MBPP_SHA256, Path(snakemake.output[0]))
