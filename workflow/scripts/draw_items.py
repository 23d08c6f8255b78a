"""Draw the items of a probe from a pool and assign them to shards."""

from _job import job

with job(snakemake):
    from backfire.items import assign_shards, draw, from_table, to_table
    from backfire.storage import read_tables, write_table

    params = snakemake.params
    pool = from_table(read_tables(snakemake.input))
    drawn = draw(pool, params.n_items, params.per_task, params.seed)
    shards = assign_shards(drawn, params.shards)
    made = {"items": params.n_items, "per_task": params.per_task, "seed": params.seed}
    write_table(snakemake.output[0], to_table(drawn, shards), made)
