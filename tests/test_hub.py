"""Downloads from the hub: whole and as pinned, or not at all and for a reason in one line."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import FakeHub, serving, sha256
from huggingface_hub import constants
from studies import Study

from backfire import pins
from backfire.errors import UserError
from backfire.hub import Progress, fetch_model
from backfire.models import model_files

FIRST, SECOND = "1" * 40, "2" * 40
WEIGHTS = random.Random(0).randbytes(300_000)
FILES = {
    "config.json": b"{}",
    "tokenizer.json": b'{"model": {}}',
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": WEIGHTS,
    "model-00001-of-00001.safetensors": WEIGHTS,
    "pytorch_model.bin": b"a pickle",
    "model.onnx": b"a graph",
    "model-../x-of-y.safetensors": b"elsewhere",
    "README.md": b"# Tiny",
}
NAME = "org/tiny"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    later = {**FILES, "config.json": b'{"changed": true}'}
    with serving(FakeHub({FIRST: dict(FILES), SECOND: later}, main=FIRST)) as hub:
        use(hub.endpoint, monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        yield hub


def use(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_ENDPOINT does, which `huggingface_hub` reads when it is imported."""
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 50_000)  # of 10 MB
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)


class Place:
    """Where a study would keep its lock file and its models."""

    def __init__(self, root: Path) -> None:
        self.root, self.lock = root, root / pins.LOCK_NAME
        self.folder = root / pins.HUB / NAME

    def fetch(self, name: str = NAME) -> None:
        fetch_model(name, self.root / pins.HUB / name, self.lock)

    def refused(self, name: str = NAME) -> str:
        """The line that a download ends with, which leaves nothing to be trusted."""
        with pytest.raises(UserError) as caught:
            self.fetch(name)
        assert not self.folder.exists()
        line = str(caught.value)
        assert line.startswith(f"hub:{name}") and len(line.splitlines()) == 1
        return line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def test_only_what_a_model_needs_is_downloaded_and_pinned(hub: FakeHub, place: Place) -> None:
    place.fetch()
    needed = {name: FILES[name] for name in list(FILES)[:5]}
    found = {path.name: path.read_bytes() for path in place.folder.iterdir()}
    own_pin = found.pop("pin.lock")
    assert found == needed
    assert own_pin and "pin.lock" not in {path.name for path in model_files(place.folder)}
    locked = json.loads(place.lock.read_text(encoding="utf-8"))
    files = {name: {"sha256": sha256(data), "size": len(data)} for name, data in needed.items()}
    assert locked == {NAME: {"revision": FIRST, "files": files}}
    assert sorted(path.name for path in place.folder.parent.glob("*")) == [".partial", "tiny"]
    assert not list((place.folder.parent / ".partial").iterdir())


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub: FakeHub, place: Place) -> None:
    place.fetch()
    tokens = {request.path.startswith("/cdn/"): request.token for request in hub.requests}
    assert tokens == {False: "Bearer hf_secret", True: None}


def test_a_download_that_breaks_off_goes_on_from_there(hub: FakeHub, place: Place) -> None:
    hub.cut = 200_000
    line = place.refused()
    assert f"no connection to {hub.endpoint}" in line and "run again to go on" in line
    assert not place.lock.exists()
    hub.cut, hub.requests = None, []
    place.fetch()
    assert (place.folder / "model.safetensors").read_bytes() == WEIGHTS
    asked = [request for request in hub.requests if request.path.startswith("/cdn/")]
    assert [request.range for request in asked] == ["bytes=200000-"]
    assert not [r for r in hub.requests if r.path.endswith("/config.json")]  # it had arrived


def test_the_rest_of_another_commit_is_not_used(hub: FakeHub, place: Place) -> None:
    hub.cut = 200_000
    place.refused()
    hub.cut, hub.main = None, SECOND
    place.fetch()
    assert (place.folder / "config.json").read_bytes() == hub.commits[SECOND]["config.json"]
    assert not list((place.folder.parent / ".partial").iterdir())


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_wrong_checksum_is_told_and_nothing_of_the_file_is_kept(
    hub: FakeHub, place: Place, name: str
) -> None:
    hub.served[name] = b"x" * len(FILES[name])
    line = place.refused()
    assert f"{name} at {FIRST[:12]} is not what the hub promises" in line
    assert not list(place.root.rglob(name)) and not place.lock.exists()
    del hub.served[name]
    place.fetch()
    assert (place.folder / name).read_bytes() == FILES[name]


def test_a_file_shorter_than_promised_is_told(hub: FakeHub, place: Place) -> None:
    hub.served["model.safetensors"] = WEIGHTS[:-1]
    assert "file should be of size 300000 but has size 299999" in place.refused()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((401, "RepoNotFound"), "no model http://127.0.0.1:"),
        ((404, "RepoNotFound"), "check the name, or set HF_TOKEN"),
        ((401, ""), "answers 401: set HF_TOKEN"),
        ((404, ""), "answers 404: check the name"),
        ((503, ""), "answers 503: try again later"),
    ],
)
def test_a_model_that_is_not_there_is_told(
    hub: FakeHub, place: Place, answer: tuple[int, str], expected: str
) -> None:
    hub.unknown = answer
    assert expected in place.refused()
    assert not list(place.root.rglob("*.*"))


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model_is_told(hub: FakeHub, place: Place, status: int) -> None:
    hub.refuse = (status, "GatedRepo")  # everyone may list its files
    assert f"is gated: accept its terms at {hub.endpoint}/{NAME}, then set HF_TOKEN" in (
        place.refused()
    )
    assert not place.lock.exists()


def test_a_revision_that_is_not_there_is_told(hub: FakeHub, place: Place) -> None:
    assert "has no revision 'v9'" in place.refused(f"{NAME}@v9")


def test_weights_in_another_format_are_told(hub: FakeHub, place: Place) -> None:
    hub.commits[FIRST] = {"config.json": b"{}", "pytorch_model.bin": b"a pickle"}
    assert "no model.safetensors there; other formats are not read" in place.refused()


def test_a_dead_network_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FakeHub({}, main=FIRST)) as hub:
        dead = hub.endpoint
    use(dead, monkeypatch)
    assert f"no connection to {dead} (" in place.refused()
    monkeypatch.setattr(constants, "is_offline_mode", lambda: True)
    assert "HF_HUB_OFFLINE is set" in place.refused()


def test_a_full_disk_is_told_before_the_download(
    hub: FakeHub, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = shutil.disk_usage(place.root)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert "MB are to come, and the disk of" in place.refused()
    assert not [request for request in hub.requests if "/resolve/" in request.path]


def test_the_lock_holds_against_a_branch_that_moves_and_a_file_that_changes(
    hub: FakeHub, place: Place
) -> None:
    place.fetch()
    shutil.rmtree(place.folder)  # as on another machine
    hub.main, hub.requests = SECOND, []
    place.fetch()
    assert (place.folder / "config.json").read_bytes() == FILES["config.json"]
    assert not [request for request in hub.requests if "/api/" in request.path]
    shutil.rmtree(place.folder)
    changed = FILES["tokenizer.json"].replace(b"model", b"medal")
    hub.commits[FIRST]["tokenizer.json"] = changed
    locked = place.lock.read_bytes()
    line = place.refused()
    assert f"tokenizer.json at {FIRST[:12]} is not what {place.lock} promises: sha256 is" in line
    assert place.lock.read_bytes() == locked


def test_a_revision_has_a_folder_and_a_pin_of_its_own(hub: FakeHub, place: Place) -> None:
    place.fetch()
    place.fetch(f"{NAME}@{SECOND}")
    assert {name: pin.revision for name, pin in pins.read(place.lock).items()} == {
        NAME: FIRST,
        f"{NAME}@{SECOND}": SECOND,
    }
    assert (place.folder.parent / f"tiny@{SECOND}" / "config.json").read_bytes() != b"{}"


def test_a_folder_and_a_lock_that_disagree_are_told(hub: FakeHub, place: Place) -> None:
    place.fetch()
    assert list(pins.faults([NAME], place.lock)) == []
    other = pins.Pin(SECOND, pins.read(place.lock)[NAME].files)
    place.lock.unlink()
    pins.record(place.lock, NAME, other)
    [line] = pins.faults([NAME, "org/absent"], place.lock)
    assert line.startswith(
        f"{pins.HUB / NAME} holds revision {FIRST}, and {place.lock} pins {SECOND}"
    )
    with pytest.raises(UserError, match="has been pinned to 2222"):
        pins.record(place.lock, NAME, pins.of_folder(place.folder) or other)


def test_a_lock_file_adopts_what_is_on_disk(hub: FakeHub, place: Place) -> None:
    place.fetch()
    locked = place.lock.read_bytes()
    place.lock.unlink()
    pins.adopt([NAME, "org/absent"], place.lock)
    assert place.lock.read_bytes() == locked


def test_a_file_changed_after_its_download_is_told(hub: FakeHub, place: Place) -> None:
    place.fetch()
    pin = pins.of_folder(place.folder)
    assert pin is not None
    pin.verify(place.folder)
    (place.folder / "chat_template.jinja").write_text("{{ mine }}", encoding="utf-8")
    with pytest.raises(UserError, match=r"chat_template\.jinja: sha256 is .* was changed after"):
        pin.verify(place.folder)


OUTSIDE = '{"org/tiny": {"revision": "1", "files": {"../x": {"sha256": "0", "size": 1}}}}'


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"org/tiny": {"revision": "1"}}', "<<<<<<< HEAD", OUTSIDE]
)
def test_a_broken_lock_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / pins.LOCK_NAME
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="not a lock file of models"):
        pins.read(path)


def test_progress_is_a_line_now_and_then() -> None:
    lines: list[str] = []
    progress = Progress(NAME, 4_000_000, lines.append, every=0)
    progress.update(1_000_000)
    progress.update(2_000_000)
    assert lines[-1] == "hub:org/tiny: 3 of 4 MB have arrived"
    silent = Progress(NAME, 4_000_000, lines.append)
    silent.update(1_000_000)
    assert len(lines) == 2


@pytest.mark.slow
def test_a_study_downloads_its_model(tmp_path: Path, tiny_model: Path) -> None:
    """The whole way: the rule, HF_ENDPOINT, the lock file beside the config, a second run."""
    files = {path.name: path.read_bytes() for path in tiny_model.iterdir()}
    study = Study(tmp_path / "study", CONFIG)
    card = study.folder / "results/models/tiny/model.json"
    lock = study.folder / pins.LOCK_NAME
    with serving(FakeHub({FIRST: files}, main=FIRST)) as hub:
        study.variables["HF_ENDPOINT"] = hub.endpoint
        hub.refuse = (401, "GatedRepo")
        output = study.run(str(card.relative_to(study.folder)), expect=1)
        assert f"error: hub:{NAME} is gated: accept its terms at {hub.endpoint}/{NAME}" in output
        assert "Traceback" not in output and not lock.exists()
        hub.refuse = None
        study.run(str(card.relative_to(study.folder)))
    assert json.loads(card.read_text(encoding="utf-8"))["revision"] == FIRST
    lock.write_text(lock.read_text(encoding="utf-8").replace(FIRST, SECOND), encoding="utf-8")
    output = study.run("all", "--dry-run", expect=1)
    assert f"resources/models/hub/{NAME} holds revision {FIRST}, and " in output


CONFIG = {
    "seed": 1,
    "models": {"tiny": {"source": f"hub:{NAME}"}},
    "environments": {"toolshed": {"kind": "toolshed", "per_task": 3}},
    "probes": {"core": {"conditions": ["pre", "fail"], "items": {"toolshed": 4}}},
    "statistics": {"resamples": 200, "confidence": 0.95},
    "checks": {"pairs": 2},
    "shard_size": 4,
}
