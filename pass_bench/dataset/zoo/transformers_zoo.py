"""All model classes of transformers that build from a configuration, two layers deep, in several widths."""

# ruff: noqa: SIM905
from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pass_bench.dataset.zoo.entry import Built, Entry
from pass_bench.errors import BadInput

LIBRARY = "transformers"
MOST_PARAMETERS = 60_000_000
WIDTHS: Mapping[str, tuple[int, int]] = {
    "w256": (256, 4),
    "w512": (512, 8),
    "w128": (128, 2),
    "w384": (384, 6),
    "w64": (64, 4),
    "w192": (192, 6),
    "w320": (320, 5),
}
_HEADS = (
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
)
_DEPTH = {
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers",
    "num_decoder_layers decoder_num_layers num_hidden_groups depth encoder_num_layers n_encoder_layers",
    "num_block_layers audio_layers detr_layers qformer_layers num_xvector_layers text_layers",
}
DEPTH_NAMES = frozenset(name for line in _DEPTH for name in line.split())
WIDTH_NAMES = frozenset(
    "hidden_size d_model n_embd dim embed_dim embedding_size d_embed emb_dim projection_dim".split()
)
HEAD_NAMES = frozenset(
    "num_attention_heads n_head n_heads encoder_attention_heads decoder_attention_heads num_heads "
    "attention_heads".split()
)
FEED_NAMES = frozenset(
    "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff ffn_dim n_inner d_inner".split()
)
_EXPERTS = frozenset(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"))
_CHOSEN_EXPERTS = frozenset(("num_experts_per_tok", "moe_topk", "top_k", "moe_k", "num_experts_per_token"))


def catalog() -> Iterator[Entry]:
    """Every model class with a configuration: first one entry per class, then other widths."""
    from transformers.models.auto import configuration_auto, modeling_auto

    classes: dict[str, str] = {}
    for mapping in _HEADS:
        for model_type, names in sorted(getattr(modeling_auto, mapping).items()):
            for class_name in names if isinstance(names, tuple | list) else (names,):
                if model_type in configuration_auto.CONFIG_MAPPING_NAMES:
                    classes.setdefault(class_name, model_type)
    base: set[str] = set()
    for names in modeling_auto.MODEL_MAPPING_NAMES.values():
        base.update(names if isinstance(names, tuple | list) else (names,))
    for rank, (width, attention) in enumerate(
        ((None, None), ("w256", "eager"), *((w, None) for w in WIDTHS))
    ):
        for class_name, model_type in classes.items():
            if rank and class_name not in base:
                continue
            suffix = "" if not rank else f"_{width}_{attention}" if attention else f"_{width}"
            settings = {"model_type": model_type, "width": width, "attention": attention}
            yield Entry(
                LIBRARY,
                class_name + suffix,
                class_name,
                settings,
                rank=rank + 1 if rank else int(class_name not in base),
                tag="nlp",
            )


def build(entry: Entry) -> Built:
    """Build the entry's model, two layers deep, with room for weights but none in them.

    Without a width of its own the model has its default width, or 512 where that needs over 60 million
    parameters. Settings with "meta" build it at its default width on the meta device.
    """
    width = entry.settings["width"]
    if entry.settings.get("meta"):
        return _build(entry, None, on_meta=True)
    try:
        return _build(entry, width)
    except _TooLarge:
        return _build(entry, "w512")


class _TooLarge(BadInput):
    """More parameters than are worth having in memory."""


def _build(entry: Entry, width: str | None, on_meta: bool = False) -> Built:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[entry.settings["model_type"]]
    config = config_class(**_overrides(config_class(), WIDTHS[width] if width else None))
    for part in (config, getattr(config, "text_config", None)):
        for name in ("use_cache", "output_attentions", "output_hidden_states"):
            if hasattr(part, name):
                setattr(part, name, False)
        if part is not None and hasattr(part, "_experts_implementation"):
            part._experts_implementation = "batched_mm"
    if entry.settings.get("attention"):
        config._attn_implementation = entry.settings["attention"]
    model_class = getattr(transformers, entry.class_name)
    if width is None:
        with torch.device("meta"):
            module = model_class(config)
        if not on_meta and sum(parameter.numel() for parameter in module.parameters()) > MOST_PARAMETERS:
            raise _TooLarge("too many parameters", path=entry.name)
    if not on_meta:
        with _uninitialised():
            module = model_class(config)
        if sum(parameter.numel() for parameter in module.parameters()) > MOST_PARAMETERS:
            raise BadInput("too many parameters", path=entry.name)
    return _with_inputs(module.eval(), config, entry)


class _uninitialised:  # noqa: N801
    """Leaves weights as allocated; they are filled later, all alike."""

    def __enter__(self) -> None:
        functions = [name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
        self.functions = {name: getattr(torch.nn.init, name) for name in functions}
        for name in functions:
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)

    def __exit__(self, *_: object) -> None:
        for name, function in self.functions.items():
            setattr(torch.nn.init, name, function)


def _overrides(default: Any, width: tuple[int, int] | None) -> dict[str, Any]:
    """Constructor arguments that make a configuration shallow, and `width` wide."""
    values = {name: value for name, value in vars(default).items() if not name.startswith("_")}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            changed[name] = {"model_type": value.model_type, **_overrides(value, width)}
        elif name in DEPTH_NAMES and type(value) is int:
            changed[name] = min(value, 2)
        elif name == "depths" and isinstance(value, list | tuple):
            changed[name] = [min(int(n), 2) if i == 0 else 1 for i, n in enumerate(value)]
        elif name in _EXPERTS and type(value) is int and value > 4:
            changed[name] = 4
        elif name in _CHOSEN_EXPERTS and type(value) is int and value > 2:
            changed[name] = 2
        elif name == "vocab_size" and type(value) is int and value > 1024:
            changed[name] = 1024
        elif name.endswith("_token_id") and type(value) is int and value >= 1024:
            changed[name] = 2
    if width is not None:
        hidden, heads = width
        for name, value in values.items():
            if type(value) is not int:
                continue
            if name in WIDTH_NAMES:
                changed[name] = hidden
            elif name in HEAD_NAMES:
                changed[name] = heads
            elif name == "num_key_value_heads":
                changed[name] = heads if value == values.get("num_attention_heads") else max(1, heads // 2)
            elif name in FEED_NAMES:
                changed[name] = 4 * hidden
            elif name == "head_dim":
                changed[name] = hidden // heads
    return changed


def _with_inputs(module: torch.nn.Module, config: Any, entry: Entry) -> Built:
    signature = inspect.signature(module.forward).parameters
    device = next(module.parameters()).device
    failures: list[str] = []
    for inputs, sequence, has_sequence in _candidates(config, signature, device):
        try:
            with torch.no_grad():
                module(**inputs(1, sequence if device.type != "meta" else 64))
        except Exception as error:
            failures.append(f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}")
            continue
        return Built(module, inputs, 1, sequence, has_sequence)
    raise BadInput(f"no inputs fit: {failures[:1]}", path=entry.name)


def _candidates(
    config: Any, signature: Mapping[str, Any], device: torch.device
) -> Iterator[tuple[Any, int, bool]]:
    """Functions (batch, sequence) -> inputs, most likely first."""
    text = getattr(config, "text_config", None) or config
    vision = getattr(config, "vision_config", None) or config
    vocabulary = int(getattr(text, "vocab_size", 0) or 1024)

    def ids(batch: int, sequence: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(3, max(vocabulary - 1, 4), (batch, sequence), generator=generator).to(device)

    def floats(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)

    def words(batch: int, sequence: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": ids(batch, sequence)}
        if "decoder_input_ids" in signature:
            inputs["decoder_input_ids"] = ids(batch, sequence)
        if "bbox" in signature:
            inputs["bbox"] = torch.zeros(batch, sequence, 4, dtype=torch.int64, device=device)
        if "use_cache" in signature:
            inputs["use_cache"] = False
        return inputs

    def masked(batch: int, sequence: int) -> dict[str, Any]:
        return {
            **words(batch, sequence),
            "attention_mask": torch.ones(batch, sequence, dtype=torch.int64, device=device),
        }

    size = getattr(vision, "image_size", None) or getattr(vision, "img_size", None) or 224
    height, width = (size[0], size[-1]) if isinstance(size, list | tuple) else (size, size)
    channels = int(getattr(vision, "num_channels", 3) or 3)

    def pixels(batch: int, _: int) -> dict[str, Any]:
        return {"pixel_values": floats(batch, channels, int(height), int(width))}

    def smaller_pixels(batch: int, _: int) -> dict[str, Any]:
        return {"pixel_values": floats(batch, channels, 224, 224)}

    def film(batch: int, _: int) -> dict[str, Any]:
        frames = int(getattr(config, "num_frames", 8) or 8)
        return {"pixel_values": floats(batch, frames, channels, int(height), int(width))}

    def both(batch: int, sequence: int) -> dict[str, Any]:
        return {**words(batch, min(sequence, 16)), **pixels(batch, sequence)}

    def samples(batch: int, _: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_values": floats(batch, 4000)}
        if "decoder_input_ids" in signature:
            inputs["decoder_input_ids"] = ids(batch, 16)
        return inputs

    def spectrum(batch: int, _: int) -> dict[str, Any]:
        bins = int(getattr(config, "num_mel_bins", 80) or 80)
        frames = 2 * int(getattr(config, "max_source_positions", 200) or 200)
        inputs: dict[str, Any] = {"input_features": floats(batch, bins, frames)}
        if "decoder_input_ids" in signature:
            inputs["decoder_input_ids"] = ids(batch, 16)
        return inputs

    def frames(batch: int, sequence: int) -> dict[str, Any]:
        names = ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins", "input_dim")
        width = next((int(v) for n in names if (v := getattr(config, n, None))), 80)
        inputs: dict[str, Any] = {"input_features": floats(batch, sequence, width)}
        if "decoder_input_ids" in signature:
            inputs["decoder_input_ids"] = ids(batch, 16)
        return inputs

    if "input_ids" in signature:
        yield words, 64, True
        yield masked, 64, True
    if "pixel_values" in signature:
        yield pixels, 64, False
        yield smaller_pixels, 64, False
        yield film, 64, False
        if "input_ids" in signature:
            yield both, 16, False
    if "input_values" in signature:
        yield samples, 64, False
    if "input_features" in signature:
        yield spectrum, 64, False
        yield frames, 128, True
