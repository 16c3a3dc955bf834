"""`passbench show`: the captured graph as pattern-ready code."""

from __future__ import annotations

from pathlib import Path

import click

from pass_bench.data import Graph, read_graph


@click.command("show")
@click.argument("graph", type=click.Path(path_type=Path))
@click.option("--nodes", default="", metavar="FIRST:LAST", help="Only these nodes, by name, as one pattern.")
@click.option("--metas/--no-metas", default=True, help="Say the shape and dtype of each argument.")
def show_command(graph: Path, nodes: str, metas: bool) -> None:
    """Print the captured graph of GRAPH, a graph directory, as code that can be copied into a pattern."""
    from pass_bench.errors import BadInput
    from pass_bench.fx import capture, load_module
    from pass_bench.fx.extract import extract
    from pass_bench.fx.source import to_python

    read = read_graph(graph)
    gm = capture(load_module(read), read)
    if nodes:
        order = [n for n in gm.graph.nodes if n.op not in ("placeholder", "output")]
        names = [n.name for n in order]
        first, _, last = nodes.partition(":")
        for name in (first, last or first):
            if name not in names:
                raise BadInput(
                    f"the graph has no node {name!r}", path=graph, expected="a name that show prints"
                )
        picked = order[names.index(first) : names.index(last or first) + 1]
        gm = extract(picked, gm).module
    if metas:
        for line in _metas(read, {n.name for n in gm.graph.nodes if n.op == "placeholder"}):
            click.echo(line)
    click.echo(to_python(gm), nl=False)


def _metas(graph: Graph, names: set[str]) -> list[str]:
    lines = []
    for argument in graph.arguments:
        if argument.name in names:
            meta = graph.metas[argument.name]
            kind = "int" if argument.kind == "symint" else meta.dtype
            lines.append(f"# {argument.name}: {kind}{list(meta.shape)}")
    return lines
