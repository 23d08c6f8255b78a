"""A local server that imitates the Hugging Face hub, as `huggingface_hub` uses it."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from huggingface_hub.utils.sha import git_hash


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Request:
    path: str
    range: str | None
    token: str | None


@dataclass
class FakeHub:
    """The state of the hub, to be changed by a test.

    Attributes:
        commits: by commit, the files of the repository.
        main: what the main branch is now.
        large: names of the files that are kept on another host, as Git LFS does.
        served: in place of a file's true content, by name.
        refuse: answer everything about files with this status and error code.
        unknown: answer everything about the repository with this status and error code.
        cut: break the connection after so many bytes of a file, then refuse to go on.
    """

    commits: dict[str, dict[str, bytes]]
    main: str
    large: tuple[str, ...] = ("model.safetensors",)
    repository: str = "org/tiny"
    served: dict[str, bytes] = field(default_factory=dict)
    refuse: tuple[int, str] | None = None
    unknown: tuple[int, str] | None = None
    cut: int | None = None
    requests: list[Request] = field(default_factory=list)
    endpoint: str = ""

    def info(self, revision: str) -> dict[str, Any] | None:
        """What the API says of a revision."""
        commit = self.main if revision == "main" else revision
        if commit not in self.commits:
            return None
        siblings = []
        for name, data in self.commits[commit].items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(data)}
            if name in self.large:
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
                entry["blobId"] = git_hash(b"pointer")
            else:
                entry["blobId"] = git_hash(data)
            siblings.append(entry)
        return {"id": self.repository, "sha": commit, "siblings": siblings}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        hub = self.server.hub
        headers = self.headers
        hub.requests.append(Request(self.path, headers["Range"], headers["Authorization"]))
        path = self.path.partition("?")[0]
        if found := re.fullmatch(rf"/api/models/{hub.repository}(?:/revision/([^/]+))?", path):
            info = hub.info(found[1] or "main")
            if hub.unknown or info is None:
                self._refuse(hub.unknown or (404, "RevisionNotFound"))
            else:
                self._send(json.dumps(info).encode())
        elif found := re.fullmatch(rf"/{hub.repository}/resolve/(\w+)/([^/]+)", path):
            self._file(*found.groups())
        elif found := re.fullmatch(r"/cdn/(\w+)/([^/]+)", path):
            self._content(*found.groups())
        else:
            self._refuse((401, "RepoNotFound"))

    def _file(self, commit: str, name: str) -> None:
        hub = self.server.hub
        if hub.refuse:
            self._refuse(hub.refuse)
        elif name not in hub.commits.get(commit, {}):
            self._refuse((404, "EntryNotFound"))
        elif name in hub.large:
            other_host = hub.endpoint.replace("127.0.0.1", "localhost")
            self.send_response(302)
            self.send_header("Location", f"{other_host}/cdn/{commit}/{name}?signature=x")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._content(commit, name)

    def _content(self, commit: str, name: str) -> None:
        hub = self.server.hub
        data = hub.served.get(name, hub.commits[commit][name])
        start = (
            int(self.headers["Range"].removeprefix("bytes=").rstrip("-") or 0)
            if (self.headers["Range"])
            else 0
        )
        if hub.cut is None or len(data) <= hub.cut:
            self._send(data, start)
        elif start >= hub.cut:
            self.close_connection = True  # not even an answer
        else:
            self._send(data, start, until=hub.cut)

    def _send(self, data: bytes, start: int = 0, until: int | None = None) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:until])
        self.close_connection = until is not None

    def _refuse(self, answer: tuple[int, str]) -> None:
        status, code = answer
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: FakeHub


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub at work on a free port, which `endpoint` names."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.hub = hub
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
