"""The contract of a pass, and loading the passes of a pass_dir."""

from pass_bench.passes.load import LoadedPasses, load_passes
from pass_bench.passes.rule import PassRule

__all__ = ["LoadedPasses", "PassRule", "load_passes"]
