"""Draw every figure of the study."""

from pathlib import Path

from _job import job

with job(snakemake):
    from backfire.catalogue import FIGURES
    from backfire.results import Results
    from backfire.style import save

    results = Results(Path("results"), snakemake.params.outline)
    for name, draw in FIGURES.items():
        save(draw(results), Path("results/figures") / name)
