"""Repeat a sample of the stored scores with the plain loop and say whether all agree."""

from _job import job

with job(snakemake):
    import torch

    from backfire.checks import check
    from backfire.items import from_table
    from backfire.storage import read_json, read_tables, write_json

    torch.set_num_threads(snakemake.threads)
    params = snakemake.params
    result = check(
        read_tables(snakemake.input.scores),
        from_table(read_tables(snakemake.input.drawn)),
        params.folder,
        read_json(snakemake.input.card),
        params.pairs,
        params.seed,
    )
    write_json(snakemake.output[0], result)
