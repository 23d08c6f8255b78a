"""What the tests share: the repository, the bundled model, tiny studies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from filelock import FileLock
from studies import Study, config_for

ROOT = Path(__file__).parents[1]

# A shell's background jobs are started deaf to Ctrl-C, and so would be all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Two workers on two cores: threads of their own would only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def bundled_gguf() -> Path:
    """The bundled model's GGUF file, downloaded once into the repository's own folder."""
    from backfire.bundles import fetch_bundle

    path = ROOT / "resources/downloads/smollm2-135m.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # one worker fetches
        if not path.exists():
            fetch_bundle("smollm2-135m", path)
    return path


@pytest.fixture(scope="session")
def bundled_model(bundled_gguf: Path) -> Path:
    """The bundled model as a transformers folder, converted once."""
    from backfire.gguf import convert

    folder = ROOT / "resources/models/bundled/smollm2-135m"
    with FileLock(bundled_gguf.with_suffix(".lock")):
        if not (folder / "config.json").exists():
            convert(bundled_gguf, folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, bundled_model: Path) -> Path:
    """A random two-layer model under the bundled model's tokenizer."""
    from studies import tiny_model

    return tiny_model(tmp_path_factory.mktemp("models") / "tiny", bundled_model)


@pytest.fixture(scope="module")
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny_model: Path
) -> Study:
    """A study that has run to its end: one run for all workers, a copy for each file of tests."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent
    with FileLock(shared / "finished.lock"):
        if (shared / "finished/done").exists():
            study = Study.at(shared / "finished")
        else:
            study = Study(shared / "finished", config_for(tiny_model))
            study.run("all")
            (study.folder / "done").touch()
    return study.copy(tmp_path_factory.mktemp("finished"))
