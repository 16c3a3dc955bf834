"""input_tensor_constraints.py: which sizes of the arguments follow batch and sequence."""

from __future__ import annotations

from pass_bench.dataset.cut import Cut
from pass_bench.dataset.store import Traced

_SYMBOLS = ("S0", "S1")


def print_constraints(graph: Traced, part: Cut) -> str:
    """The text of the file for a part of a graph; empty where no size follows batch or sequence.

    Sizes that follow a symbol are printed as multiples of it plus a constant, from how the captures differ.
    """
    names = part.argument_names()
    shapes: list[tuple[str, list[str]]] = []
    used: set[str] = set()
    for index, name in names.items():
        base = graph.listing.values[index].meta
        now = part.listing.values[index].meta
        if base is None or now is None:
            return ""
        dims = [str(size) for size in now.shape]
        for symbol, change, size in zip(_SYMBOLS, (graph.batch, graph.sequence), graph.sizes, strict=True):
            if change is None or index not in change[1].shapes:
                continue
            for axis, (one, two) in enumerate(zip(base.shape, change[1].shapes[index], strict=True)):
                slope, rest = divmod(two - one, change[0] - size)
                if one == two or rest:
                    continue
                dims[axis] = _linear(symbol, slope, one - slope * size)
                used.add(symbol)
        original = now.original_name or part.listing.values[index].name
        shapes.append((original, dims))
        del name
    if not used:
        return ""
    symbols = [symbol for symbol in _SYMBOLS if symbol in used]
    values = dict(zip(_SYMBOLS, graph.sizes, strict=True))
    lines = ["from sympy import Symbol", ""]
    lines += [f'{symbol} = Symbol("{symbol}")' for symbol in symbols]
    examples = ", ".join(f"{symbol}: {values[symbol]}" for symbol in symbols)
    lines += ["", f"dynamic_dim_constraint_symbols = [{', '.join(symbols)}]"]
    lines += ["", f"dynamic_dim_constraint_symbol2example_value = {{{examples}}}"]
    lines += ["", "dynamic_dim_constraint_relations = []", "", "dynamic_dim_constraint_input_shapes = ["]
    lines += [f'    ([{", ".join(dims)}], "{original}"),' for original, dims in shapes]
    return "\n".join([*lines, "]", ""])


def _linear(symbol: str, slope: int, constant: int) -> str:
    text = symbol if slope == 1 else f"{slope} * {symbol}"
    return text if constant == 0 else f"{text} {'+' if constant > 0 else '-'} {abs(constant)}"
