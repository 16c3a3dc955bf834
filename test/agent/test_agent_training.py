"""docs/training.md, done: the exported files load with `datasets`, and TRL trains on them."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from agent_fixtures import EVALUATE, SUBMIT, write_pass
from test_agent_export import GOOD, export, run

for name in ("trl", "datasets", "transformers", "tokenizers"):
    pytest.importorskip(name, reason=f"no {name}: pip install -e '.[train]'")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every format of one run: two tasks of one attempt, one of several scores."""
    source = run(
        tmp_path_factory.mktemp("train") / "run",
        {
            "good": GOOD,
            "other": [write_pass(speedup=2.0), EVALUATE, write_pass(speedup=3.0), EVALUATE, SUBMIT],
        },
    )
    files = {}
    for form in ("openai", "trl", "r2e", "dpo", "grpo"):
        assert export(source, form)[1] == 0
        files[form] = source.with_name(f"{form}.jsonl")
    return files


def load(path: Path, cache: Path) -> Any:
    import datasets

    return datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache))


@pytest.mark.parametrize("form", ["openai", "trl", "r2e", "dpo", "grpo"])
def test_every_format_loads_with_datasets(exported: dict[str, Path], form: str, tmp_path: Path) -> None:
    loaded = load(exported[form], tmp_path)
    assert len(loaded) == len(exported[form].read_text().splitlines()) > 0


def tiny_model(texts: list[str]) -> tuple[Any, Any]:
    """A byte-level tokenizer made from the texts, and a randomly initialised model of 2 layers."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", chat_template=TEMPLATE
    )
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        pad_token_id=fast.pad_token_id,
        eos_token_id=fast.eos_token_id,
    )
    return LlamaForCausalLM(config), fast


def test_trl_takes_sft_steps_on_the_cpu(exported: dict[str, Path], tmp_path: Path) -> None:
    import torch
    from trl import SFTConfig, SFTTrainer

    torch.manual_seed(0)
    loaded = load(exported["trl"], tmp_path / "cache").select_columns(["prompt", "completion"])
    texts = [message["content"] for line in loaded for message in (*line["prompt"], *line["completion"])]
    model, tokenizer = tiny_model(texts)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    arguments = SFTConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=3,
        per_device_train_batch_size=1,
        max_length=8192,
        learning_rate=1e-2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
    )
    trainer = SFTTrainer(model=model, args=arguments, train_dataset=loaded, processing_class=tokenizer)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 3
    assert all(math.isfinite(loss) and loss > 0 for loss in losses)
    changed = [name for name, value in model.named_parameters() if not torch.equal(value, before[name])]
    assert len(changed) == len(before)


def test_only_the_answers_are_trained_on(exported: dict[str, Path], tmp_path: Path) -> None:
    """The completion of a trl example is one answer of the model and nothing that a tool said."""
    for line in exported["trl"].read_text().splitlines():
        (message,) = json.loads(line)["completion"]
        assert message["role"] == "assistant"
        assert "Score (AS)" not in message["content"]


def test_the_pages_commands_are_ours(repository: Path) -> None:
    page = (repository / "docs" / "training.md").read_text()
    commands = re.findall(r"passagent export .*?--format (\w+)", page)
    assert set(commands) == {"openai", "trl", "r2e", "dpo", "grpo"}
