"""Estimate the unweighted mean over models on an environment."""

from _job import job

with job(snakemake):
    from backfire.estimates import ESTIMATE_SCHEMA, Statistics, estimate_all_models
    from backfire.storage import read_tables, write_frame

    params = snakemake.params
    measures = {
        model: read_tables([path]).to_pandas()
        for model, path in zip(params.models, snakemake.input, strict=True)
    }
    environment = snakemake.wildcards.environment
    estimates = estimate_all_models(measures, environment, Statistics(**params.statistics))
    write_frame(snakemake.output[0], estimates, ESTIMATE_SCHEMA, params.statistics)
