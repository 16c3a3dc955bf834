"""input_tensor_constraints.py: which sizes of the arguments follow batch and sequence."""

from __future__ import annotations

from pass_bench.dataset.cut import Cut
from pass_bench.dataset.store import Traced

_SYMBOLS = ("S0", "S1")


def print_constraints(graph: Traced, part: Cut, sizes: tuple[int, int] | None = None) -> str:
    """The text of the file for a part of a graph; empty where no size follows batch or sequence.

    Sizes that follow a symbol are printed as multiples of it plus a constant, from how the captures differ;
    those that follow both, as multiples of their product. `sizes` are batch and sequence of the part, where
    they are not those of the capture: the example values of the symbols.
    """
    names = part.argument_names()
    shapes: list[tuple[str, list[str]]] = []
    used: set[str] = set()
    for index in names:
        base = graph.listing.values[index].meta
        now = part.listing.values[index].meta
        if base is None or now is None:
            return ""
        dims: list[str] = []
        for axis in range(len(base.shape)):
            by_batch, by_sequence = (_line(graph, which, index, axis) for which in (0, 1))
            text = _size(by_batch, by_sequence, graph.sizes[0])
            used.update(symbol for symbol in _SYMBOLS if text is not None and symbol in text)
            dims.append(str(now.shape[axis]) if text is None else text)
        original = now.original_name or part.listing.values[index].name
        shapes.append((original, dims))
    if not used:
        return ""
    symbols = [symbol for symbol in _SYMBOLS if symbol in used]
    values = dict(zip(_SYMBOLS, sizes or graph.sizes, strict=True))
    lines = ["from sympy import Symbol", ""]
    lines += [f'{symbol} = Symbol("{symbol}")' for symbol in symbols]
    examples = ", ".join(f"{symbol}: {values[symbol]}" for symbol in symbols)
    lines += ["", f"dynamic_dim_constraint_symbols = [{', '.join(symbols)}]"]
    lines += ["", f"dynamic_dim_constraint_symbol2example_value = {{{examples}}}"]
    lines += ["", "dynamic_dim_constraint_relations = []", "", "dynamic_dim_constraint_input_shapes = ["]
    lines += [f'    ([{", ".join(dims)}], "{original}"),' for original, dims in shapes]
    return "\n".join([*lines, "]", ""])


def _line(graph: Traced, which: int, index: int, axis: int) -> tuple[int, int] | None:
    """How a size follows batch (0) or sequence (1): slope and constant. None where it does not."""
    change, captured = (graph.batch, graph.sequence)[which], graph.sizes[which]
    base = graph.listing.values[index].meta
    if change is None or base is None or index not in change[1].shapes:
        return None
    one, two = base.shape[axis], change[1].shapes[index][axis]
    slope, rest = divmod(two - one, change[0] - captured)
    return None if one == two or rest else (slope, one - slope * captured)


def _size(by_batch: tuple[int, int] | None, by_sequence: tuple[int, int] | None, batch: int) -> str | None:
    """A size as an expression; None where it follows neither, or both in a way that is no product."""
    if by_batch is None:
        return None if by_sequence is None else _linear("S1", *by_sequence)
    if by_sequence is None:
        return _linear("S0", *by_batch)
    slope, constant = by_sequence
    if by_batch[1] or slope % batch or constant % batch:
        return None
    inner = _linear("S1", slope // batch, constant // batch)
    return f"S0 * ({inner})" if constant else f"S0 * {inner}"


def _linear(symbol: str, slope: int, constant: int) -> str:
    text = symbol if slope == 1 else f"{slope} * {symbol}"
    return text if constant == 0 else f"{text} {'+' if constant > 0 else '-'} {abs(constant)}"
