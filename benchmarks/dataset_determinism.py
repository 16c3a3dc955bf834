"""Run the whole dataset pipeline twice on fifty architectures and compare every published byte.

    python benchmarks/dataset_determinism.py WORK [--entries 50]

Needs an environment with transformers, timm and torch_geometric. Prints wall times and digests; exit code 1
if they differ.
"""

# ruff: noqa: SIM905
from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pass_bench.dataset import pipeline
from pass_bench.dataset.plan import Budget
from pass_bench.dataset.zoo.harvest import HASH_SEED, Limits, catalog, harvest

# One configuration of each of fifty classes, small ones: these are captured in all ways (half precision,
# another batch, another length), so that every stage has work.
_TRANSFORMERS = """
    AfmoeModel AltCLIPModel AudioFlamingo3Model BloomModel CLIPVisionModel ChineseCLIPVisionModel
    CohereModel Cosmos3OmniModel DPRQuestionEncoder DebertaModel DeepseekVLModel
    Dinov2WithRegistersModel ElectraModel ErnieModel Exaone4Model FlaubertModel GLPNModel
    GPTNeoXJapaneseModel Gemma4UnifiedModel Glm4Model GlmAsrModel GlmOcrTextModel
""".split()
_TIMM = """
    convnext_atto deit_tiny_patch16_224 efficientvim_m1 eva02_tiny_patch14_224 focalnet_tiny_lrf
    hardcorenas_a iformer_s inception_v3 levit_384_s8 nextvit_small
""".split()
_GEOMETRIC = """
    ARMAConv ChebConv EdgeCNN FAConv FeaStConv FiLMConv GAT GATv2Conv GCN2Conv GENConv GIN
    GatedGraphConv GraphSAGE HypergraphConv LGConv MFConv SGConv SSGConv
""".split()
ARCHITECTURES = (
    *(f"transformers/{name}_w256_eager" for name in _TRANSFORMERS),
    *(f"timm/{name}" for name in _TIMM),
    *(f"torch_geometric/{name}_64" for name in _GEOMETRIC),
)
_PATIENT = Limits(seconds=3600, cpu_seconds=1800)  # a kill by time would be the only difference


def extract(work: Path, count: int, keep: bool) -> None:
    """Extract the architectures."""
    shutil.rmtree(work / "out" if keep else work, ignore_errors=True)
    wanted = set(ARCHITECTURES[:count])
    entries = [e for e in catalog(("transformers", "timm", "torch_geometric")) if e.key in wanted]
    if len(entries) != len(wanted):
        raise SystemExit(
            f"not in these versions of the libraries: {sorted(wanted - {e.key for e in entries})}"
        )
    started = time.monotonic()
    harvest(entries, work, limits=_PATIENT, report=lambda _: None)
    captured = sum(record.failure is None for record in pipeline.load_records(work))
    print(f"extract {time.monotonic() - started:.0f} s, {captured} of {len(entries)} captured", flush=True)


def other_stages(work: Path) -> dict[str, str]:
    """Run the stages after extraction, return a digest per published file."""
    quiet = lambda _: None  # noqa: E731
    started = time.monotonic()
    lowered = pipeline.decompose(work, report=quiet)
    print(f"decompose {time.monotonic() - started:.0f} s, {len(lowered)} models lowered", flush=True)
    started = time.monotonic()
    planned = pipeline.vary(work, Budget(instances=1, sole_instances=1, dims=1), report=quiet)
    print(f"vary {time.monotonic() - started:.0f} s, {planned} graphs planned", flush=True)
    started = time.monotonic()
    dropped = pipeline.check(work, count=20, report=quiet)
    print(f"verify {time.monotonic() - started:.0f} s, {dropped.total()} graphs dropped", flush=True)
    started = time.monotonic()
    graphs = pipeline.publish(work, work / "out" / "shards", work / "out", count=20, report=quiet)
    print(f"publish {time.monotonic() - started:.0f} s, {graphs} graphs", flush=True)
    files = sorted(path for path in (work / "out").rglob("*") if path.is_file())
    return {str(p.relative_to(work)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def main() -> int:
    """Compare two runs. The stages run in processes of their own, in each run with other hashes; extraction
    has fixed ones, as `passbench dataset extract` has: some models are built in the order of a set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--entries", type=int, default=len(ARCHITECTURES))
    parser.add_argument("--keep", action="store_true", help="go on with what two earlier runs left")
    parser.add_argument("--stages", choices=("extract", "other"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stages == "extract":
        extract(arguments.work, arguments.entries, arguments.keep)
        return 0
    if arguments.stages == "other":
        (arguments.work / "digests.json").write_text(json.dumps(other_stages(arguments.work)))
        return 0
    kept = ["--keep"] if arguments.keep else []
    for seed, name in enumerate(("one", "two"), start=1):
        command = [
            sys.executable,
            __file__,
            str(arguments.work / name),
            "--entries",
            str(arguments.entries),
            *kept,
        ]
        for stages, hashes in (("extract", HASH_SEED), ("other", str(seed))):
            environment = {**os.environ, "PYTHONHASHSEED": hashes}
            subprocess.run([*command, "--stages", stages], env=environment, check=True)
    one, two = (json.loads((arguments.work / name / "digests.json").read_text()) for name in ("one", "two"))
    for name in sorted({*one, *two}):
        print(one.get(name, "-")[:16], "same" if one.get(name) == two.get(name) else "DIFFERS", name)
    print(f"{len({*one, *two})} files, {sum(one.get(n) != two.get(n) for n in {*one, *two})} differ")
    return 0 if one == two else 1


if __name__ == "__main__":
    sys.exit(main())
