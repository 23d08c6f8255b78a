"""Let a model act on from the first failures of its greedy rollouts, under one harness."""

from _job import job

with job(snakemake):
    import torch

    from backfire.rollout_jobs import begin, branch_out, decoding_of
    from backfire.storage import read_json, read_tables, write_table

    torch.set_num_threads(snakemake.threads)
    names, params = snakemake.wildcards, snakemake.params
    ground, starts = begin(params.settings, params.plan, params.seed)
    decoding = decoding_of(names.decoding, params.steps, params.temperature, params.seed)
    greedy = read_tables([snakemake.input.greedy]).to_pandas()
    card = read_json(snakemake.input.card)
    table, made = branch_out(ground, starts, greedy, names.harness, decoding, params.folder, card)
    write_table(snakemake.output[0], table, made)
