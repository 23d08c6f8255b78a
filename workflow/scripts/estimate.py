"""Put an interval on every measure of a model on an environment."""

from _job import job

with job(snakemake):
    from backfire.estimates import ESTIMATE_SCHEMA, Statistics, estimate
    from backfire.storage import read_tables, write_frame

    names = snakemake.wildcards
    statistics = Statistics(**snakemake.params.statistics)
    measures = read_tables(snakemake.input).to_pandas()
    estimates = estimate(measures, names.model, names.environment, statistics)
    write_frame(snakemake.output[0], estimates, ESTIMATE_SCHEMA, snakemake.params.statistics)
