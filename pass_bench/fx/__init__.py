"""Graph in, graph out: loading, capturing, matching, rewriting."""

from pass_bench.fx.capture import capture, trace_pattern
from pass_bench.fx.facts import Facts, NodeFacts, graph_facts
from pass_bench.fx.load import load_module
from pass_bench.fx.match import Match, find_matches
from pass_bench.fx.rewrite import Rewritten, rewrite

__all__ = [
    "Facts",
    "Match",
    "NodeFacts",
    "Rewritten",
    "capture",
    "find_matches",
    "graph_facts",
    "load_module",
    "rewrite",
    "trace_pattern",
]
