"""Rebuild the example graphs and sample directories from transformers configurations with random weights.

    pip install transformers==5.24.0
    python samples/build_examples.py [--check]

Everything but the passes is written anew: the graphs below graphs/fusible_subgraphs, the links and the
graph_list.txt of every sample. With --check nothing is changed: exit code 1 if a rebuild would differ.
"""

from __future__ import annotations

import argparse
import filecmp
import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pass_bench.dataset.capture import Captured
from pass_bench.dataset.cut import Cut, cut
from pass_bench.dataset.extract import Origin, capture_as, write_cut
from pass_bench.dataset.listing import Listing, Statement
from pass_bench.dataset.weights import fill_weights

REPOSITORY = Path(__file__).resolve().parent.parent
GRAPHS = Path("graphs/fusible_subgraphs/samples")
SAMPLES = Path("samples/fusible_subgraphs")
SEQUENCE = 128


@dataclass(frozen=True)
class Model:
    """A model of the default size, its depth cut to what the examples need."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]  # batch size -> keyword arguments of forward
    large_batch: int
    tag: str


@dataclass(frozen=True)
class Example:
    """A run of operators in a model: the first place where they stand in this order.

    Statements between them that read none of their results are moved in front of them.
    """

    model: str
    subgraph: str
    operators: tuple[str, ...]


def _text(batch: int, vocabulary: int = 1000, **more: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(123)
    return {"input_ids": torch.randint(0, vocabulary, (batch, SEQUENCE), generator=generator), **more}


def _masked_text(batch: int) -> dict[str, Any]:
    """Tokens with padding at the end of the sequence, so that the attention mask masks something."""
    mask = torch.ones(batch, SEQUENCE, dtype=torch.long)
    mask[:, -9:] = 0
    return _text(batch, attention_mask=mask)


def _image(batch: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(123)
    return {"pixel_values": torch.randn(batch, 3, 224, 224, generator=generator)}


def _bert() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_hidden_layers=1, attn_implementation="eager"))


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(n_layer=1))


def _llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaModel

    # The sizes of Llama 3.2 1B; a small vocabulary, since the embedding is in no example.
    return LlamaModel(
        LlamaConfig(
            num_hidden_layers=1,
            hidden_size=2048,
            intermediate_size=8192,
            num_attention_heads=32,
            num_key_value_heads=8,
            vocab_size=1000,
            rms_norm_eps=1e-5,
        )
    )


def _resnet() -> torch.nn.Module:
    from transformers import ResNetConfig, ResNetModel

    return ResNetModel(ResNetConfig(depths=[1, 1, 1, 1]))


def _regnet() -> torch.nn.Module:
    from transformers import RegNetConfig, RegNetModel

    return RegNetModel(RegNetConfig(depths=[1, 1, 1, 1], layer_type="y"))


def _swin() -> torch.nn.Module:
    from transformers import SwinConfig, SwinModel

    return SwinModel(SwinConfig(depths=[2, 1, 1, 1]))


MODELS = {
    model.name: model
    for model in (
        Model("bert-base-uncased", _bert, _masked_text, 32, "nlp"),
        Model("gpt2", _gpt2, functools.partial(_text, use_cache=False), 16, "nlp"),
        Model("Llama-3.2-1B", _llama, functools.partial(_text, use_cache=False), 16, "nlp"),
        Model("resnet-50", _resnet, _image, 4, "computer_vision"),
        Model("regnet-y-040", _regnet, _image, 8, "computer_vision"),
        Model("swin-tiny-patch4-window7-224", _swin, _image, 8, "computer_vision"),
    )
}

_RMS_NORM = (".to", ".pow", ".mean", "operator.add", "torch.rsqrt", "operator.mul", ".to", "operator.mul")
_ROTATE = (
    "operator.mul",
    "operator.getitem",
    "operator.getitem",
    "operator.neg",
    "torch.cat",
    "operator.mul",
    "operator.add",
)

EXAMPLES = (
    Example(
        "bert-base-uncased",
        "add_layer_norm",
        ("torch.nn.functional.dropout", "operator.add", "torch.nn.functional.layer_norm"),
    ),
    Example(
        "bert-base-uncased",
        "masked_softmax",
        ("operator.mul", "operator.add", "torch.nn.functional.softmax", "torch.nn.functional.dropout"),
    ),
    Example(
        "gpt2",
        "gelu_tanh",
        (
            "operator.mul",
            "torch.pow",
            "operator.mul",
            "operator.add",
            "operator.mul",
            "torch.tanh",
            "operator.add",
            "operator.mul",
        ),
    ),
    Example("Llama-3.2-1B", "add_rms_norm", ("operator.add", *_RMS_NORM)),
    Example("Llama-3.2-1B", "silu_mul", ("torch.nn.functional.silu", "operator.mul")),
    Example("Llama-3.2-1B", "rotary_embedding", (".unsqueeze", ".unsqueeze", *_ROTATE, *_ROTATE)),
    Example("regnet-y-040", "squeeze_excite_scale", ("torch.sigmoid", "operator.mul")),
    Example("resnet-50", "batch_norm_relu", ("torch.nn.functional.batch_norm", "torch.nn.functional.relu")),
    Example(
        "swin-tiny-patch4-window7-224",
        "patch_merging_layer_norm",
        (
            ".view",
            *("operator.getitem",) * 4,
            "torch.cat",
            ".view",
            "torch.nn.functional.layer_norm",
        ),
    ),
    Example(
        "swin-tiny-patch4-window7-224",
        "layer_norm_shifted_windows",
        (
            "torch.nn.functional.layer_norm",
            ".view",
            "torch._C._nn.pad",
            "torch.roll",
            ".view",
            ".transpose",
            ".contiguous",
            ".view",
            ".view",
        ),
    ),
)


def variants(model: Model) -> tuple[tuple[str, int], ...]:
    """dtype and batch size of every graph of a sample."""
    return (("float32", 1), ("float16", 1), ("bfloat16", 1), ("float32", model.large_batch))


def capture_variants(model: Model) -> dict[tuple[str, int], Captured]:
    """Capture a model once per variant; the weights are the same in all."""
    torch.manual_seed(0)
    module = model.make().eval()
    fill_weights(module, seed=0)
    captured = {}
    for dtype, batch in variants(model):
        (graph,) = capture_as(module, model.inputs(batch), name=model.name, dtype=dtype, whole_graph=True)
        captured[dtype, batch] = graph
    return captured


def find(captured: Captured, example: Example) -> Cut:
    """The cut of an example; KeyError if the operators do not stand there in this order."""
    for start in range(len(captured.listing.statements)):
        gathered = gather(captured.listing, start, example.operators)
        if gathered is not None:
            listing, moved = gathered
            return cut(listing, start + moved, start + moved + len(example.operators))
    raise KeyError(f"{example.model} has no {example.subgraph}: {' -> '.join(example.operators)}")


def gather(listing: Listing, start: int, operators: tuple[str, ...]) -> tuple[Listing, int] | None:
    """The listing with these operators in one run from `start`, and how many statements moved before them."""
    wanted: list[Statement] = []
    between: list[Statement] = []
    for statement in listing.statements[start:]:
        results = {picked.result for picked in wanted}
        if statement.op == operators[len(wanted)] and (not between or results & set(statement.reads)):
            wanted.append(statement)
        elif not wanted or results & set(statement.reads) or statement.effect:
            return None
        else:
            between.append(statement)
        if len(wanted) == len(operators):
            break
    else:
        return None
    end = start + len(wanted) + len(between)
    statements = (*listing.statements[:start], *between, *wanted, *listing.statements[end:])
    return replace(listing, statements=statements), len(between)


def build(root: Path) -> None:
    """Write graphs and sample directories below `root`."""
    for model in MODELS.values():
        captured = capture_variants(model)
        origin = Origin("transformers", model.name, model.tag)
        for example in (e for e in EXAMPLES if e.model == model.name):
            listed = []
            for (dtype, batch), graph in captured.items():
                part = find(graph, example)
                name = f"{model.name}_start{part.start}_end{part.end}_0"
                path = GRAPHS / origin.library / model.name / "_decomposed" / f"{name}_{dtype}_batch{batch}"
                write_cut(part, root / path, origin=origin)
                listed.append(str(path))
            write_sample(root / SAMPLES / model.name / example.subgraph, listed)
            print(f"{model.name}/{example.subgraph}: {len(listed)} graphs", flush=True)


def write_sample(folder: Path, graphs: list[str]) -> None:
    """Write graph_list.txt, the links and an empty .ignore in pass_dir; passes that are there stay."""
    (folder / "pass_dir").mkdir(parents=True, exist_ok=True)
    (folder / "pass_dir" / ".ignore").touch()
    (folder / "graph_list.txt").write_text("".join(f"{graph}\n" for graph in graphs))
    up = Path("../../../..")
    links = {
        "entry.sh": up / "entry_scripts" / "entry.sh",
        "graphs": up / "graphs",
        "pass_bench": up / "pass_bench",
    }
    for name, target in links.items():
        link = folder / name
        if not link.is_symlink() or link.readlink() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def differences(built: Path) -> list[str]:
    """Files below `built` that the repository lacks or has otherwise, and graphs it has too many."""
    found = []
    for path in sorted(built.rglob("*")):
        here = REPOSITORY / path.relative_to(built)
        if path.is_symlink():
            same = here.is_symlink() and here.readlink() == path.readlink()
        else:
            same = path.is_dir() or (here.is_file() and filecmp.cmp(path, here, shallow=False))
        if not same:
            found.append(str(path.relative_to(built)))
    for folder in sorted((REPOSITORY / GRAPHS).glob("*/*/_decomposed/*")):
        if not (built / folder.relative_to(REPOSITORY)).is_dir():
            found.append(f"{folder.relative_to(REPOSITORY)} (not built)")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a rebuild differs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.check:
        shutil.rmtree(REPOSITORY / GRAPHS / "transformers", ignore_errors=True)
        build(REPOSITORY)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        found = differences(Path(folder))
    for path in found:
        print(f"differs: {path}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
