"""Graph directories: read and write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pass_bench.data.metas import format_metas, parse_metas
from pass_bench.data.records import Argument, Graph, GraphInfo, TensorMeta
from pass_bench.data.signature import CLASS_NAME, Parameter, parse_signature
from pass_bench.data.source import read_text
from pass_bench.errors import BadInput

_SYMBOL = re.compile(r"s\d+\Z")


def read_graph(path: Path | str) -> Graph:
    """Read a graph directory without running anything in it.

    model.py and weight_meta.py must be there; the other files may be missing or empty. Raises BadInput for
    whatever does not follow the format, with file and line.
    """
    path = Path(path)
    if not path.is_dir():
        raise BadInput("no such graph directory", path=path, expected="a folder with a model.py")
    code = read_text(path / "model.py")
    parameters = parse_signature(code, path / "model.py")
    metas: dict[str, TensorMeta] = {}
    for file_name in ("input_meta.py", "weight_meta.py"):
        file = path / file_name
        if file_name == "input_meta.py" and not file.exists():
            continue
        for meta in parse_metas(read_text(file), file):
            if meta.name in metas:
                raise BadInput(f"two metas for {meta.name}", path=file, expected="one class per tensor")
            metas[meta.name] = meta
    arguments = tuple(_argument(parameter, metas, path) for parameter in parameters)
    return Graph(
        path=path,
        name=path.resolve().name,
        code=code,
        arguments=arguments,
        metas=metas,
        info=_read_info(path / "graph_net.json"),
        constraints=_read_optional(path / "input_tensor_constraints.py"),
        class_name=CLASS_NAME,
        sources=_read_sources(path / "subgraph_sources.json"),
    )


def _argument(parameter: Parameter, metas: Mapping[str, TensorMeta], path: Path) -> Argument:
    meta = metas.get(parameter.name)
    if meta is None:
        raise BadInput(
            f"argument {parameter.name} has no meta",
            path=path / "model.py",
            line=parameter.line,
            expected=f'a class with name = "{parameter.name}" in weight_meta.py',
        )
    scalar = meta.shape == () and meta.dtype == "int64"
    if parameter.annotation is not None and parameter.annotation.rsplit(".", 1)[-1] == "SymInt":
        if not meta.is_integer or meta.numel != 1:
            raise BadInput(
                f"SymInt argument {parameter.name} has shape {list(meta.shape)} and dtype {meta.dtype}",
                path=path / "weight_meta.py",
                expected="a 0-dim int64 meta",
            )
        return Argument(parameter.name, "symint")
    symbol = any(_SYMBOL.match(name or "") for name in (parameter.name, meta.original_name))
    unannotated = parameter.annotation is None and scalar and symbol
    return Argument(parameter.name, "symint" if unannotated else "tensor")


def _read_optional(path: Path) -> str:
    return read_text(path) if path.exists() else ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error.msg}", path=path, line=error.lineno) from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"not JSON: {error}", path=path) from None


def _read_info(path: Path) -> GraphInfo | None:
    if not path.exists():
        return None
    values = _read_json(path)
    if not isinstance(values, dict):
        raise BadInput("not a JSON object", path=path, expected='{"framework": "torch", ...}')
    return GraphInfo(values)


def _read_sources(path: Path) -> dict[str, tuple[tuple[int, int], ...]]:
    if not path.exists():
        return {}
    values = _read_json(path)
    expected = '{"samples/<lib>/<model>": [[start, end], ...]}'
    if not isinstance(values, dict):
        raise BadInput("not a JSON object", path=path, expected=expected)
    for ranges in values.values():
        pairs = isinstance(ranges, list) and all(isinstance(r, list) and len(r) == 2 for r in ranges)
        if not pairs or not all(isinstance(n, int) for r in ranges for n in r):
            raise BadInput("not a list of [start, end]", path=path, expected=expected)
    return {source: tuple((start, end) for start, end in ranges) for source, ranges in values.items()}


def write_graph(
    path: Path | str,
    *,
    code: str,
    metas: Iterable[TensorMeta],
    info: Mapping[str, Any],
    graph_hash: str | None = None,
    constraints: str = "",
    sources: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> None:
    """Write a graph directory that `read_graph` and the published tools read.

    `info` becomes graph_net.json in its order. `graph_hash` is written where given (see `hash_of_source` and
    `hash_of_printout`); subgraph_sources.json only where `sources` are given. Existing files are overwritten.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    files = {
        "model.py": code,
        "weight_meta.py": format_metas(metas),
        "input_meta.py": "",
        "input_tensor_constraints.py": constraints,
        "graph_net.json": json.dumps(dict(info), indent=4, ensure_ascii=False),
    }
    if graph_hash is not None:
        files["graph_hash.txt"] = graph_hash
    if sources is not None:
        listed = {source: [list(pair) for pair in ranges] for source, ranges in sources.items()}
        files["subgraph_sources.json"] = json.dumps(listed, indent=4)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
