"""Download a model from the Hugging Face hub, or the rest of it, as the lock file pins it."""

from _job import job

with job(snakemake) as terminal:
    from backfire.hub import fetch_model

    fetch_model(
        snakemake.wildcards.hub,
        snakemake.output[0],
        snakemake.params.lock,
        say=lambda line: print(line, file=terminal, flush=True),
    )
