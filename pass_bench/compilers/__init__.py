"""The compilers by name; one file each. Nothing here imports torch until a compiler is used."""

from __future__ import annotations

from pass_bench.compilers.base import CallFailed, Compiled, Compiler
from pass_bench.compilers.inductor import Inductor
from pass_bench.compilers.inductor_direct import InductorDirect
from pass_bench.compilers.inductor_reduce_overhead import InductorReduceOverhead
from pass_bench.compilers.nope import Nope
from pass_bench.compilers.pass_mgr import PassMgr
from pass_bench.compilers.pass_mgr_direct import PassMgrDirect
from pass_bench.compilers.pass_mgr_graph import PassMgrGraph
from pass_bench.errors import BadInput

COMPILERS: dict[str, Compiler] = {
    "nope": Nope(),
    "eager": Nope(),
    "inductor": Inductor(),
    "inductor_direct": InductorDirect(),
    "inductor_reduce_overhead": InductorReduceOverhead(),
    "pass_mgr": PassMgr(),
    "pass_mgr_direct": PassMgrDirect(),
    "pass_mgr_graph": PassMgrGraph(),
}


def compiler_named(name: str) -> Compiler:
    """Return a compiler; raises BadInput with the names there are."""
    try:
        return COMPILERS[name]
    except KeyError:
        raise BadInput(f"unknown compiler {name!r}", expected=f"one of {', '.join(COMPILERS)}") from None


__all__ = ["COMPILERS", "CallFailed", "Compiled", "Compiler", "compiler_named"]
