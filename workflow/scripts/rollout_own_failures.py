"""Score the failures that a model made itself under the conditions of the probe."""

from pathlib import Path

from _job import job

with job(snakemake):
    import torch

    from backfire.items import to_table
    from backfire.measures import MEASURE_SCHEMA, measure
    from backfire.own_failures import CONDITIONS, own_items
    from backfire.rollout_jobs import begin
    from backfire.shards import score_items
    from backfire.storage import read_json, read_tables, write_frame, write_table

    torch.set_num_threads(snakemake.threads)
    params = snakemake.params
    ground, starts = begin(params.settings, params.plan, params.seed)
    steps = {Path(path).stem: read_tables([path]).to_pandas() for path in snakemake.input.steps}
    items = own_items(ground, starts, steps)
    card = read_json(snakemake.input.card)
    scores, made = score_items(items, CONDITIONS, params.folder, card, params.store)
    write_table(snakemake.output.drawn, to_table(items))
    write_table(snakemake.output.scores, scores, made)
    measures = measure(scores.to_pandas(), to_table(items).to_pandas())
    write_frame(snakemake.output.measures, measures, MEASURE_SCHEMA)
