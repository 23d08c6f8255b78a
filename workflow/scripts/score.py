"""Score the items of a shard under all conditions of their probe."""

from _job import job

with job(snakemake) as terminal:
    import pyarrow.compute as pc
    import torch

    from backfire.items import from_table
    from backfire.shards import score_items
    from backfire.storage import read_json, read_tables, write_table

    torch.set_num_threads(snakemake.threads)
    params = snakemake.params
    drawn = read_tables([snakemake.input.drawn])
    shard = drawn.filter(pc.field("shard") == int(snakemake.wildcards.shard))
    card = read_json(snakemake.input.card)
    table, made = score_items(
        from_table(shard), params.conditions, params.folder, card, params.store
    )
    for condition, path in zip(params.conditions, snakemake.output, strict=True):
        write_table(path, table.filter(pc.field("condition") == condition), made)
