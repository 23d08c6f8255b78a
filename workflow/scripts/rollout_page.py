"""Write the tables, the figures and the page of rollouts."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.estimates import Statistics
    from backfire.rollout_page import Page
    from backfire.storage import write_text
    from backfire.style import save
    from backfire.tabular import csv, latex, markdown

    params = snakemake.params
    statistics = Statistics(**params.statistics)
    page = Page(Path("results"), params.outline, params.probed, statistics)
    for table in page.tables:
        for suffix, render in {"csv": csv, "md": markdown, "tex": latex}.items():
            write_text(f"results/tables/{table.name}.{suffix}", render(table))
    for name, figure in page.figures().items():
        save(figure, Path("results/figures") / name)
    write_text(snakemake.output.page, page.text())
