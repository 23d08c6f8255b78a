"""An independent witness: llama.cpp on the GGUF file that the bundled model was converted from.

    PYTHONPATH=workflow python benchmarks/witness.py --pairs 5

llama.cpp shares no code with torch or transformers, and reads the GGUF file itself. It scores the
same token ids twice: from the file as it is, where its kernels round activations to eight bits
beside four-bit weights, and from a copy whose weights are expanded to float32, where nothing but
the order of sums should differ. It needs `pip install llama-cpp-python`, which compiles it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
import torch
from run import CORE, requests_of

from backfire.chat import Chat
from backfire.environments import KINDS
from backfire.items import draw
from backfire.models import load_network
from backfire.scoring import Refusal, Request, score

ROOT = Path(__file__).parents[1]


def expand(source: Path, target: Path) -> None:
    """Copy a GGUF file with all of its tensors in float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(gguf.LlamaFileType.ALL_F32) if name == "general.file_type" else field.contents()
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, field.types[0], sub_type)
    for tensor in reader.tensors:
        expanded = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, expanded)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def witness(path: Path, requests: Sequence[Request], threads: int) -> Iterator[float]:
    """The log-probability of each continuation, nats, by llama.cpp."""
    from llama_cpp import Llama

    longest = max(len(context) + len(continuation) for context, continuation in requests)
    model = Llama(
        str(path),
        n_ctx=longest,
        n_threads=threads,
        logits_all=True,
        type_k=gguf.GGMLQuantizationType.F32,  # the cache would be in half precision
        type_v=gguf.GGMLQuantizationType.F32,
        verbose=False,
    )
    for context, continuation in requests:
        model.reset()
        model.eval([*context, *continuation])
        first = len(context) - 1
        logits = np.array(model.scores[first : first + len(continuation)], dtype=np.float64)
        best = logits.max(axis=1)
        total = best + np.log(np.exp(logits - best[:, None]).sum(axis=1))
        yield float((logits[np.arange(len(continuation)), continuation] - total).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=ROOT / "resources/models/bundled/smollm2-135m")
    parser.add_argument("--gguf", default=ROOT / "resources/downloads/smollm2-135m.gguf", type=Path)
    parser.add_argument("--pairs", default=5, type=int)
    parser.add_argument("--seed", default=20260808, type=int)
    parser.add_argument("--threads", default=torch.get_num_threads(), type=int)
    options = parser.parse_args()
    items = draw(KINDS["toolshed"].build_pool({}, options.seed).items, 20, 3, options.seed)
    requests = requests_of(items, CORE, Chat.load(options.model))
    requests = requests[:: len(requests) // options.pairs][: options.pairs]
    results = score(load_network(options.model), requests)
    ours = [result.logprob for result in results if not isinstance(result, Refusal)]
    with tempfile.TemporaryDirectory() as folder:
        expanded = Path(folder) / "float32.gguf"
        expand(options.gguf, expanded)
        exact = list(witness(expanded, requests, options.threads))
    quantised = list(witness(options.gguf, requests, options.threads))
    print("tokens  backfire  llama.cpp float32  llama.cpp as shipped")
    for request, *values in zip(requests, ours, exact, quantised, strict=True):
        print(f"{len(request.continuation_ids):6}", *(f"{value:12.5f}" for value in values))
    for name, values in (("float32", exact), ("as shipped", quantised)):
        difference = np.abs(np.subtract(ours, values))
        print(f"{name}: largest difference {difference.max():.2g}, mean {difference.mean():.2g}")


if __name__ == "__main__":
    main()
