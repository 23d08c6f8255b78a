"""Write the exact prompts of one item under every condition of the study."""

from _job import job

with job(snakemake):
    from backfire.chat import Chat
    from backfire.export import as_text, find_item
    from backfire.items import from_table
    from backfire.storage import read_json, read_tables, write_text

    params, drawn = snakemake.params, snakemake.input.drawn
    item = find_item(from_table(read_tables([drawn])), snakemake.wildcards.item, drawn)
    card = read_json(snakemake.input.card)
    chat = Chat.of(params.folder, card)
    conditions = [name for names in params.conditions.values() for name in names]
    write_text(snakemake.output[0], as_text(item, chat, conditions))
