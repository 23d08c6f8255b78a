"""Turn the scores of a model on an environment into measures per item."""

from _job import job

with job(snakemake):
    from backfire.measures import MEASURE_SCHEMA, measure
    from backfire.storage import read_tables, write_frame

    items = read_tables(snakemake.input.drawn).to_pandas().drop_duplicates("item_id")
    scores = read_tables(snakemake.input.scores).to_pandas()
    write_frame(snakemake.output[0], measure(scores, items), MEASURE_SCHEMA)
