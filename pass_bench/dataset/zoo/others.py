"""Zoos that give a module by name: timm, torchvision, torchaudio, diffusers and others."""

# ruff: noqa: SIM905
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from pass_bench.dataset.zoo.entry import Built, Entry
from pass_bench.errors import BadInput

VISION = "computer_vision"
_MOST_PARAMETERS = 40_000_000
_PIXELS = 112


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _images(name: str, channels: int, height: int, width: int) -> Callable[[int, int], dict[str, Any]]:
    return lambda batch, _: {name: _floats(batch, channels, height, width)}


def timm_catalog() -> Iterator[Entry]:
    """All timm architectures, by family: the first ones of every family have the lowest rank."""
    import timm
    from timm.models import _registry

    families: dict[str, list[str]] = {}
    for name in timm.list_models():
        families.setdefault(_registry._model_to_module[name], []).append(name)
    for family, names in sorted(families.items()):
        for position, name in enumerate(sorted(names, key=lambda n: (_size_hint(n), len(n), n))):
            yield Entry("timm", name, family, {"name": name}, rank=min(position, 6), tag=VISION)


_SIZES = (
    "atto",
    "femto",
    "pico",
    "nano",
    "test",
    "tiny",
    "xxs",
    "xs",
    "micro",
    "small",
    "_s",
    "050",
    "18",
    "10",
    "b0",
)


def _size_hint(name: str) -> int:
    if "giant" in name or "huge" in name or "large" in name or "gigantic" in name:
        return 99
    return min((i for i, word in enumerate(_SIZES) if word in name), default=len(_SIZES))


def timm_build(entry: Entry) -> Built:
    """A timm model without pretrained weights, on images of up to 112 pixels where it takes them."""
    import timm

    name = entry.settings["name"]
    with torch.device("meta"):
        module = timm.create_model(name)
    parameters = sum(p.numel() for p in module.parameters())
    if parameters > _MOST_PARAMETERS:
        raise BadInput(f"{parameters} parameters are more than {_MOST_PARAMETERS}", path=entry.name)
    channels, height, width = module.default_cfg["input_size"]
    size = min(height, _PIXELS)
    try:
        module = timm.create_model(name, img_size=size)
    except (TypeError, AssertionError, ValueError, RuntimeError):
        module = timm.create_model(name)
        if module.default_cfg.get("fixed_input_size"):
            size = height
    return Built(module.eval(), _images("x", channels, size, size * width // height))


def torchvision_catalog() -> Iterator[Entry]:
    """All torchvision models but the quantised ones; detection models break into several graphs."""
    import torchvision

    seen: dict[str, int] = {}
    for name in torchvision.models.list_models():
        if name.startswith("quantized_"):
            continue
        family = name.rstrip("0123456789_").split("_")[0].rstrip("0123456789")
        seen[family] = seen.get(family, -1) + 1
        yield Entry("torchvision", name, family, {"name": name}, rank=min(seen[family], 6), tag=VISION)


def torchvision_build(entry: Entry) -> Built:
    """A torchvision model without weights, on images or 8 frames of 112 pixels (224 where that is fixed)."""
    import torchvision

    name = entry.settings["name"]
    extra: dict[str, Any] = {}
    builder = torchvision.models.get_model_builder(name)
    if builder.__module__.startswith(("torchvision.models.segmentation", "torchvision.models.detection")):
        extra["weights_backbone"] = None
    module = torchvision.models.get_model(name, weights=None, **extra).eval()
    if sum(p.numel() for p in module.parameters()) > 2 * _MOST_PARAMETERS:
        raise BadInput("too many parameters", path=entry.name)
    if builder.__module__.startswith("torchvision.models.video"):
        size = (16, 224) if "mvit" in name or "swin" in name else (8, 112)
        return Built(module, lambda batch, _: {"x": _floats(batch, 3, size[0], size[1], size[1])})
    if builder.__module__.startswith("torchvision.models.detection"):
        return Built(module, lambda batch, _: {"images": [_floats(3, 256, 256) for _ in range(batch)]})
    if builder.__module__.startswith("torchvision.models.optical_flow"):
        return Built(
            module,
            lambda batch, _: {"image1": _floats(batch, 3, 128, 128), "image2": _floats(batch, 3, 128, 128)},
        )
    size_hint = 224 if name.startswith(("vit", "maxvit")) else _PIXELS
    return Built(module, _images("x", 3, size_hint, size_hint))


def smp_catalog() -> Iterator[Entry]:
    """Every segmentation_models_pytorch architecture on several encoders."""
    import segmentation_models_pytorch as smp

    encoders = (
        "resnet18",
        "mobilenet_v2",
        "efficientnet-b0",
        "timm-regnetx_002",
        "mit_b0",
        "vgg11",
        "densenet121",
    )
    for rank, encoder in enumerate(encoders):
        for name in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
            settings = {"arch": name, "encoder": encoder}
            yield Entry("smp", f"{name}_{encoder}", name, settings, rank=min(rank, 6), tag=VISION)


def smp_build(entry: Entry) -> Built:
    """A segmentation model on images of 64 pixels, without weights."""
    import segmentation_models_pytorch as smp

    module = smp.create_model(entry.settings["arch"], entry.settings["encoder"], encoder_weights=None).eval()
    return Built(module, _images("x", 3, 64, 64))


def ultralytics_catalog() -> Iterator[Entry]:
    """The YOLO and RT-DETR architectures that ultralytics describes in YAML, in their smallest scales."""
    from pathlib import Path

    import ultralytics

    root = Path(ultralytics.__file__).parent / "cfg" / "models"
    for path in sorted(root.rglob("*.yaml")):
        if path.stem.startswith(("yolo", "rtdetr")):
            family = path.parent.name
            settings = {"yaml": str(path.relative_to(root))}
            yield Entry("ultralytics", path.stem, family, settings, rank=1, tag=VISION)


def ultralytics_build(entry: Entry) -> Built:
    """A YOLO model from its YAML, on images of 128 pixels."""
    from pathlib import Path

    import ultralytics
    from ultralytics.nn import tasks

    path = Path(ultralytics.__file__).parent / "cfg" / "models" / entry.settings["yaml"]
    kind = tasks.guess_model_task(tasks.yaml_model_load(path))
    classes = {
        "detect": tasks.DetectionModel,
        "segment": tasks.SegmentationModel,
        "classify": tasks.ClassificationModel,
        "pose": tasks.PoseModel,
        "obb": tasks.OBBModel,
    }
    if kind not in classes:
        raise BadInput(f"task {kind} is not built here", path=entry.name)
    module = classes[kind](str(path), verbose=False).eval()
    return Built(module, _images("x", 3, 128, 128))


def torchaudio_catalog() -> Iterator[Entry]:
    """The models of torchaudio."""
    for name in sorted(_AUDIO):
        yield Entry("torchaudio", name, name, {"name": name}, rank=0, tag="audio")


def _audio(make: str, shapes: Mapping[str, tuple[int, ...]], **settings: Any) -> Callable[[], Built]:
    def build() -> Built:
        import torchaudio

        module = getattr(torchaudio.models, make)(**settings).eval()

        def inputs(batch: int, _: int) -> dict[str, Any]:
            made: dict[str, Any] = {}
            for name, shape in shapes.items():
                full = (batch, *shape)
                made[name] = torch.full((batch,), 100) if "length" in name else _floats(*full)
            return made

        return Built(module, inputs)

    return build


_AUDIO: Mapping[str, Callable[[], Built]] = {
    "ConvTasNet": _audio("ConvTasNet", {"input": (1, 4000)}),
    "DeepSpeech": _audio("DeepSpeech", {"x": (1, 100, 80)}, n_feature=80),
    "Wav2Letter": _audio("Wav2Letter", {"x": (1, 8000)}),
    "WaveRNN": _audio(
        "WaveRNN",
        {"waveform": (1, 4410 - 550 * 2 + 0), "specgram": (1, 80, 10)},
        upsample_scales=[5, 5, 11],
        n_classes=64,
        hop_length=275,
        n_res_block=2,
    ),
    "Conformer": _audio(
        "Conformer",
        {"input": (100, 80), "lengths": ()},
        input_dim=80,
        num_heads=4,
        ffn_dim=128,
        num_layers=2,
        depthwise_conv_kernel_size=31,
    ),
    "HDemucs": _audio("HDemucs", {"input": (2, 16384)}, sources=["drums", "bass"], depth=4),
    "wav2vec2_base": _audio("wav2vec2_base", {"waveforms": (4000,)}),
    "hubert_base": _audio("hubert_base", {"waveforms": (4000,)}),
    "wavlm_base": _audio("wavlm_base", {"waveforms": (4000,)}),
    "squim_objective_base": _audio("squim_objective_base", {"x": (8000,)}),
}


def torchaudio_build(entry: Entry) -> Built:
    """A torchaudio model."""
    return _AUDIO[entry.settings["name"]]()


def geometric_catalog() -> Iterator[Entry]:
    """Basic graph neural networks of torch_geometric in several widths."""
    names = ("GCN", "GraphSAGE", "GIN", "GAT", "PNA", "EdgeCNN")
    convs = sorted(_CONVOLUTIONS)
    for rank, width in enumerate((64, 16, 128, 32, 256)):
        for name in names:
            yield Entry(
                "torch_geometric", f"{name}_{width}", name, {"model": name, "width": width}, rank, "graph"
            )
        for name in convs:
            yield Entry(
                "torch_geometric", f"{name}_{width}", name, {"conv": name, "width": width}, rank, "graph"
            )


_CONVOLUTIONS = (
    "ARMAConv CGConv ChebConv ClusterGCNConv FAConv FeaStConv FiLMConv GATv2Conv GCN2Conv GENConv "
    "GatedGraphConv "
    "GeneralConv GraphConv LEConv LGConv MFConv ResGatedGraphConv SAGEConv SGConv SSGConv TAGConv "
    "TransformerConv SuperGATConv HypergraphConv"
).split()


def geometric_build(entry: Entry) -> Built:
    """A graph network on a random graph of 200 nodes and 800 edges."""
    from torch_geometric import nn

    width = entry.settings["width"]
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 200, (2, 800), generator=generator)
    if "model" in entry.settings:
        extra = {}
        if entry.settings["model"] == "PNA":
            extra = {
                "aggregators": ["mean", "max"],
                "scalers": ["identity"],
                "deg": torch.ones(10, dtype=torch.long),
            }
        module = getattr(nn, entry.settings["model"])(width, width, num_layers=2, **extra)
    else:
        special: Mapping[str, tuple[Any, ...]] = {
            "CGConv": (width,),
            "ChebConv": (width, width, 3),
            "ClusterGCNConv": (width, width),
            "FAConv": (width,),
            "GCN2Conv": (width, 0.1),
            "GatedGraphConv": (width, 2),
            "LGConv": (),
            "SSGConv": (width, width, 0.1),
        }
        name = entry.settings["conv"]
        module = getattr(nn, name)(*special.get(name, (width, width)))
        if name in ("FAConv", "GCN2Conv"):
            return Built(
                module.eval(),
                lambda *_: {"x": _floats(200, width), "x_0": _floats(200, width), "edge_index": edges},
            )
    second = "hyperedge_index" if entry.settings.get("conv") == "HypergraphConv" else "edge_index"
    return Built(module.eval(), lambda *_: {"x": _floats(200, width), second: edges})


def diffusers_catalog() -> Iterator[Entry]:
    """Small configurations of the networks of diffusers."""
    for rank, width in enumerate((64, 32, 128)):
        for name in _DIFFUSERS:
            yield Entry("diffusers", f"{name}_{width}", name, {"model": name, "width": width}, rank, VISION)


_DIFFUSERS = (
    "AutoencoderKL UNet2DModel UNet2DConditionModel VQModel DiTTransformer2DModel PixArtTransformer2DModel "
    "SD3Transformer2DModel UVit2DModel AutoencoderTiny Transformer2DModel PriorTransformer "
    "AsymmetricAutoencoderKL"
).split()


def diffusers_build(entry: Entry) -> Built:
    """A network of diffusers on latents or images of 32 pixels."""
    import diffusers

    width = entry.settings["width"]
    name = entry.settings["model"]
    time = {"timestep": torch.tensor([7])}
    words = _floats(1, 16, width)
    blocks = {"block_out_channels": (width, 2 * width), "layers_per_block": 1}
    down, up = ("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2
    vae = {"down_block_types": down, "up_block_types": up, **blocks}
    dit = {"num_attention_heads": 2, "attention_head_dim": width // 2, "num_layers": 2, "sample_size": 32}
    settings: dict[str, dict[str, Any]] = {
        "AutoencoderKL": vae,
        "VQModel": vae,
        "AsymmetricAutoencoderKL": {
            "down_block_types": down,
            "up_block_types": up,
            "down_block_out_channels": (width, 2 * width),
            "up_block_out_channels": (width, 2 * width),
        },
        "AutoencoderTiny": {},
        "UNet2DModel": {
            **blocks,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        "UNet2DConditionModel": {
            **blocks,
            "cross_attention_dim": width,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        },
        "DiTTransformer2DModel": {**dit, "num_embeds_ada_norm": 10},
        "PixArtTransformer2DModel": {**dit, "cross_attention_dim": width, "caption_channels": width},
        "SD3Transformer2DModel": {
            **dit,
            "joint_attention_dim": width,
            "caption_projection_dim": width,
            "pooled_projection_dim": width,
        },
        "UVit2DModel": {"hidden_size": width, "num_hidden_layers": 2, "block_out_channels": width},
        "Transformer2DModel": {
            "num_attention_heads": 2,
            "attention_head_dim": width // 2,
            "in_channels": width,
            "cross_attention_dim": width,
        },
        "PriorTransformer": {
            "num_attention_heads": 2,
            "attention_head_dim": width // 2,
            "num_layers": 2,
            "embedding_dim": width,
            "num_embeddings": 8,
        },
    }
    module = getattr(diffusers, name)(**settings[name]).eval()

    def inputs(batch: int, _: int) -> dict[str, Any]:
        text = words.expand(batch, -1, -1).contiguous()
        steps = {"timestep": time["timestep"].expand(batch).contiguous()}
        image = {"sample": _floats(batch, 3, 32, 32)}
        latent = {"hidden_states": _floats(batch, 4, 32, 32)}
        options: dict[str, dict[str, Any]] = {
            "UNet2DModel": {**image, **steps},
            "UNet2DConditionModel": {
                "sample": _floats(batch, 4, 32, 32),
                **steps,
                "encoder_hidden_states": text,
            },
            "DiTTransformer2DModel": {
                **latent,
                **steps,
                "class_labels": torch.ones(batch, dtype=torch.int64),
            },
            "PixArtTransformer2DModel": {
                **latent,
                **steps,
                "encoder_hidden_states": text,
                "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
            },
            "SD3Transformer2DModel": {
                "hidden_states": _floats(batch, 16, 32, 32),
                "encoder_hidden_states": text,
                "pooled_projections": _floats(batch, width),
                **steps,
            },
            "Transformer2DModel": {
                "hidden_states": _floats(batch, width, 16, 16),
                "encoder_hidden_states": text,
            },
            "PriorTransformer": {
                "hidden_states": _floats(batch, width),
                **steps,
                "proj_embedding": _floats(batch, width),
                "encoder_hidden_states": _floats(batch, 8, width),
            },
        }
        return options.get(name, image)

    return Built(module, inputs)


CATALOGS: Mapping[str, tuple[Callable[[], Iterator[Entry]], Callable[[Entry], Built]]] = {
    "timm": (timm_catalog, timm_build),
    "torchvision": (torchvision_catalog, torchvision_build),
    "torchaudio": (torchaudio_catalog, torchaudio_build),
    "diffusers": (diffusers_catalog, diffusers_build),
    "smp": (smp_catalog, smp_build),
    "torch_geometric": (geometric_catalog, geometric_build),
    "ultralytics": (ultralytics_catalog, ultralytics_build),
}
