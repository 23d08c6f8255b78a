"""Models from the Hugging Face hub: pinned, resumed where a download broke off, verified.

`huggingface_hub` 2 starts a file anew after a download that broke off, so the files are fetched
one by one through its `http_get`, which goes on from a given size.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers
from huggingface_hub.utils.sha import git_hash

from backfire import pins
from backfire.bundles import sha256_of
from backfire.errors import UserError
from backfire.pins import Pin

WANTED = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)
"""What is downloaded of a repository's top folder: no weights twice, nothing to run."""


@dataclass(frozen=True)
class Remote:
    """A file on the hub; it says the SHA-256 of large files, git's own hash of the others."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None = None

    def fault(self, path: Path) -> str | None:
        """How a file on disk differs from what was promised, or None."""
        kind, promised, found = (
            ("git hash", self.git_sha1, git_hash(path.read_bytes()))
            if self.sha256 is None
            else ("sha256", self.sha256, sha256_of(path))
        )
        return None if found == promised else f"{kind} is {found}, {promised} is expected"


def fetch_model(
    name: str, folder: str | Path, lock: str | Path, say: Callable[[str], object] = print
) -> None:
    """Download a model into `folder`, as the lock file pins it, and pin it there if it is new.

    What has arrived is kept beside the folder when the download breaks off, and the next one
    goes on from there. The folder itself is there whole, or not at all.

    Args:
        name: `ORG/NAME`, or `ORG/NAME@REVISION` for a branch, tag or commit.
        say: is given a line of progress now and then.

    Raises:
        UserError: no such model, no access to it, no connection, no space, or files that are
            not what the hub or the lock file promises.
    """
    folder = Path(folder)
    repository, _, revision = name.partition("@")
    shelf = folder.parent / ".partial" / folder.name
    pin = pins.read(lock).get(name)
    with _told_plainly(name, pin.revision if pin else revision or "main"):
        if pin is None:
            commit, files = resolve(repository, revision or None)
        else:
            commit = pin.revision
            files = [Remote(file, known.size, known.sha256) for file, known in pin.files.items()]
        partial = shelf / commit
        for stale in set(shelf.glob("*")) - {partial}:
            shutil.rmtree(stale)
        partial.mkdir(parents=True, exist_ok=True)
        missing = sum(file.size for file in files) - sum(_size(partial / f.name) for f in files)
        _check_space(name, partial, missing)
        progress = Progress(name, missing, say)
        for file in files:
            source = "the hub" if pin is None else str(lock)
            _fetch(file, hf_hub_url(repository, file.name, revision=commit), partial, progress)
            if fault := file.fault(partial / file.name):
                (partial / file.name).unlink()
                raise UserError(
                    f"hub:{name}: {file.name} at {commit[:12]} is not what {source} promises: "
                    f"{fault}; nothing of it is kept"
                )
    made = {file.name: pins.File(sha256_of(partial / file.name), file.size) for file in files}
    pin = pin or Pin(commit, made)
    pins.mark(partial, pin)
    pins.record(lock, name, pin)
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    shelf.rmdir()


def resolve(repository: str, revision: str | None = None) -> tuple[str, list[Remote]]:
    """The commit that a revision (the main branch, if None) is now, and the files wanted of it."""
    api = HfApi()
    info = api.model_info(
        repository,
        revision=revision,
        files_metadata=True,
        timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
    )
    files = [
        Remote(
            entry.rfilename,
            entry.size or 0,
            entry.lfs.sha256 if entry.lfs else None,
            entry.blob_id,
        )
        for entry in info.siblings or []
        if "/" not in entry.rfilename
        and any(fnmatch(entry.rfilename, pattern) for pattern in WANTED)
    ]
    names = {file.name for file in files}
    if "model.safetensors" in names:  # and not the same weights in pieces
        files = [
            file for file in files if not file.name.startswith(("model-", "model.safetensors.i"))
        ]
    if info.sha is None or not any(name.endswith(".safetensors") for name in names):
        raise UserError(f"hub:{repository}: no model.safetensors there; other formats are not read")
    return info.sha, files


class Progress:
    """The bytes of a model that have arrived; `http_get` takes it for its progress bar."""

    def __init__(self, name: str, total: int, say: Callable[[str], object], every: float = 10):
        self.name, self.total, self.say, self.every = name, total, say, every
        self.done, self._told = 0, time.monotonic()

    def bar(self, **_options: Any) -> AbstractContextManager[Progress]:
        return nullcontext(self)

    def update(self, size: int) -> None:
        self.done += size
        if time.monotonic() - self._told >= self.every:
            self._told = time.monotonic()
            megabytes = f"{self.done / 1e6:,.0f} of {self.total / 1e6:,.0f} MB"
            self.say(f"hub:{self.name}: {megabytes} have arrived")


def _fetch(file: Remote, url: str, folder: Path, progress: Progress) -> None:
    """Download a file, or the rest of it."""
    path = folder / file.name
    if _size(path) > file.size:
        path.unlink()
    with path.open("ab") as target:
        http_get(
            url,
            target,
            resume_size=target.tell(),
            headers={**build_hf_headers(), "Accept-Encoding": "identity"},
            expected_size=file.size,
            displayed_filename=file.name,
            tqdm_class=cast(Any, progress.bar),
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_space(name: str, folder: Path, missing: int) -> None:
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise UserError(
            f"hub:{name}: {missing / 1e6:,.0f} MB are to come, and the disk of {folder.parent} has "
            f"{free / 1e6:,.0f} MB left"
        )


@contextmanager
def _told_plainly(name: str, revision: str) -> Iterator[None]:
    """What can go wrong between here and the hub, in one line each."""
    page = f"{constants.ENDPOINT}/{name.partition('@')[0]}"
    token = "set HF_TOKEN, or run `hf auth login`"
    try:
        yield
    except GatedRepoError as error:
        line = f"gated: accept its terms at {page}, then {token}"
        raise UserError(f"hub:{name} is {line}") from error
    except RevisionNotFoundError as error:
        raise UserError(f"hub:{name}: {page} has no revision {revision!r}") from error
    except RemoteEntryNotFoundError as error:
        raise UserError(f"hub:{name}: a file is gone: {error.response.url}") from error
    except RepositoryNotFoundError as error:
        line = f"no model {page}, or a private one: check the name, or {token}"
        raise UserError(f"hub:{name}: {line}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        advice = {401: token, 403: token, 404: "check the name"}.get(status, "try again later")
        raise UserError(f"hub:{name}: {page} answers {status}: {advice}") from error
    except OfflineModeIsEnabled as error:
        raise UserError(f"hub:{name}: HF_HUB_OFFLINE is set: unset it to download") from error
    except HTTPError as error:
        reason = str(error) or type(error).__name__
        line = f"no connection to {constants.ENDPOINT} ({reason}): run again to go on from here"
        raise UserError(f"hub:{name}: {line}") from error
    except OSError as error:  # the disk; or, from `http_get`, fewer bytes than were promised
        reason = error.strerror or str(error).splitlines()[0]
        raise UserError(f"hub:{name}: {reason}: run again to go on from here") from error
