"""Build every table of the study, and write it in three formats."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.catalogue import build_tables
    from backfire.results import Results
    from backfire.storage import write_text
    from backfire.tabular import csv, latex, markdown

    results = Results(Path("results"), snakemake.params.outline)
    folder = Path("results/tables")
    for tables in build_tables(results).values():
        for table in tables:
            for suffix, render in {"csv": csv, "md": markdown, "tex": latex}.items():
                write_text(folder / f"{table.name}.{suffix}", render(table))
    estimates = results.estimates.to_csv(index=False, lineterminator="\n")
    write_text(folder / "estimates.csv", estimates)
