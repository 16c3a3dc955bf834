"""Running rewritten graphs with as little host work as can be: straight code, checks, launch plans."""

from pass_bench.runtime.direct import DirectReport, build_direct

__all__ = ["DirectReport", "build_direct"]
