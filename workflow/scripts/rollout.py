"""Let a model act on every task under one harness."""

from _job import job

with job(snakemake):
    import torch

    from backfire.rollout_jobs import begin, decoding_of, roll_out
    from backfire.storage import read_json, write_table

    torch.set_num_threads(snakemake.threads)
    names, params = snakemake.wildcards, snakemake.params
    ground, starts = begin(params.settings, params.plan, params.seed)
    decoding = decoding_of(names.decoding, params.steps, params.temperature, params.seed)
    card = read_json(snakemake.input.card)
    table, made = roll_out(ground, starts, names.harness, decoding, params.folder, card)
    write_table(snakemake.output[0], table, made)
