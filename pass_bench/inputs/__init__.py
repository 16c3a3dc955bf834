"""From tensor metas to tensors: the reference's replay rules and the other input regimes."""

from pass_bench.inputs.make import draw_seeds, make_inputs
from pass_bench.inputs.replay import REPLAY_SEED, replay

__all__ = ["REPLAY_SEED", "draw_seeds", "make_inputs", "replay"]
