"""A GGUF file of any family becomes the network that it was written from."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf_files import vocabulary, write_gguf
from safetensors.numpy import load_file
from studies import Study, config_for
from tiny_models import tiny_model
from transformers import AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from backfire.errors import UserError
from backfire.gguf import convert
from backfire.models import check_folder, folder_of, inputs_of, load_network
from backfire.storage import read_json

FAMILIES = {
    "llama": ("llama", "llama-bpe"),
    "llama3": ("llama", "llama-bpe"),
    "qwen2": ("qwen2", "qwen2"),
    "qwen3": ("qwen3", "qwen2"),
    "olmo2": ("olmo2", "dbrx"),
    "gemma3": ("gemma3", ""),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_converted_file_gives_the_networks_logits(tmp_path: Path, family: str) -> None:
    network = tiny_model(family)
    architecture, split = FAMILIES[family]
    write_gguf(tmp_path / "tiny.gguf", network.requires_grad_(False), architecture, split)
    folder = tmp_path / "model"
    convert(tmp_path / "tiny.gguf", folder)
    check_folder(folder)
    again = load_network(folder)
    assert type(again) is type(network)
    ids = torch.arange(60)[None]  # longer than the sliding window
    with torch.inference_mode():
        torch.testing.assert_close(again(ids).logits, network(ids).logits, atol=1e-4, rtol=1e-4)
    if architecture != "olmo2":  # transformers' own reading of the weights
        found = load_file(folder / "model.safetensors")
        theirs = load_gguf_checkpoint(
            tmp_path / "tiny.gguf", return_tensors=True, model_to_load=network
        )["tensors"]
        for name, array in found.items():
            np.testing.assert_array_equal(array, theirs[name].numpy(), err_msg=name)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    kind = "llama" if architecture == "gemma3" else "gpt2"
    tokens, _ = vocabulary(kind)
    begins = ["<bos>"] if kind == "llama" else []
    text = "abc ab(d)=c<eos>"
    expected = [*begins, "abc", tokens[-1], "(", "d", ")", "=", "c", "<eos>"]
    expected[len(begins) + 1] = ("▁" if kind == "llama" else "Ġ") + "ab"
    assert tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) == expected
    assert tokenizer.decode(tokenizer(text).input_ids) == "".join(begins) + text


def change(path: Path, key: str, value: object) -> None:
    """Overwrite a number, or a string by one of its length, inside a GGUF file."""
    reader = gguf.GGUFReader(path, "r+")
    part = reader.fields[key].parts[reader.fields[key].data[0]]
    part[:] = np.frombuffer(value.encode(), np.uint8) if isinstance(value, str) else value
    reader.data.flush()


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("general.architecture", "lama2", "GGUF architecture is 'lama2'; known are llama, qwen2"),
        ("tokenizer.ggml.pre", "qwen9", "GGUF pre-tokenizer is 'qwen9'; known are smollm"),
        ("qwen2.block_count", 2, "12 tensors are missing or have no place in Qwen2ForCausalLM"),
        ("qwen2.embedding_length", 48, "is expected"),
    ],
)
def test_what_is_not_known_is_one_line(tmp_path: Path, key: str, value: object, line: str) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_model("qwen2").requires_grad_(False), "qwen2")
    change(path, key, value)
    with pytest.raises(UserError, match=line) as caught:
        convert(path, tmp_path / "model")
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model").exists()


def test_a_key_that_nobody_understands_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_model("gemma3").requires_grad_(False), "gemma3")
    content = path.read_bytes()
    path.write_bytes(
        content.replace(b"gemma3.attention.sliding_window_p", b"gemma3.attention.sliding_window_q")
    )
    with pytest.raises(UserError, match=r"sliding_window_qattern: not known here"):
        convert(path, tmp_path / "model")
    path.write_bytes(b"not a model")
    with pytest.raises(UserError, match="cannot be read as a GGUF file"):
        convert(path, tmp_path / "model")


def test_a_gguf_file_has_a_folder_of_its_own() -> None:
    one, other = (folder_of(f"path:{path}") for path in ("a/x.gguf", "b/x.gguf"))
    assert one == "resources/models/gguf/a--x.gguf" != other
    assert inputs_of("path:a/x.gguf") == [one]


@pytest.mark.slow
def test_a_study_takes_a_gguf_file_and_a_base_model_with_a_declared_template(
    tmp_path: Path,
) -> None:
    write_gguf(tmp_path / "base.gguf", tiny_model("qwen2").requires_grad_(False), "qwen2")
    config = config_for(tmp_path)
    config["models"] = {"base": {"source": f"path:{tmp_path / 'base.gguf'}"}}
    config["models"]["base"]["chat_template"] = "plain"
    study = Study(tmp_path / "study", config)
    card = "results/models/base/model.json"
    study.run(card)
    said = read_json(study.folder / card)
    assert (said["architecture"], said["weights"]) == ("qwen2", "F32 weights")
    assert (said["chat"]["template"], said["chat"]["system"]) == ("plain", "native")
