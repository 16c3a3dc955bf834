"""Where the benchmarks of the harness get their graphs: the first samples of the evaluation lists, unpacked.

    python benchmarks/eval_graphs.py [--graphs 110]

writes them below .cache/eval_graphs, and prints the list file. Needs pyarrow; what is there is used as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

FOLDER = ROOT / ".cache" / "eval_graphs"
LISTS = [ROOT / f"sample_lists/eval/passnet_{kind}_eval_samples.txt" for kind in ("fusible", "typical")]
EXAMPLES = ROOT / "samples" / "fusible_subgraphs"
SHARDS = ROOT / "datasets" / "passnet_subgraphs"


def listed() -> Iterator[str]:
    """Yield the samples of the evaluation lists, one of each in turn."""
    both = [path.read_text().splitlines() for path in LISTS]
    for pair in zip_longest(*both):
        yield from (name for name in pair if name and not name.startswith("#"))


def graph_count(sample: Path) -> int:
    return len((sample / "graph_list.txt").read_text().split())


def sample_list(graphs: int, folder: Path = FOLDER) -> tuple[Path, Path]:
    """Return a list of samples with at least so many graphs, and where their paths start.

    What is missing is unpacked below `folder`. Without pyarrow, and where nothing is unpacked, the list names
    the example samples instead, which is said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"first_{graphs}_graphs.txt"
    try:
        chosen = first_samples(graphs, folder)
    except ImportError as error:
        print(f"no evaluation graphs ({error}): using the example samples", flush=True)
        chosen = sorted(str(found.parent.relative_to(ROOT)) for found in EXAMPLES.rglob("graph_list.txt"))
        folder = ROOT
    path.write_text("".join(f"{name}\n" for name in chosen))
    return path, folder


def first_samples(graphs: int, folder: Path) -> list[str]:
    """Return the names of the first samples that have so many graphs together; raises ImportError."""
    chosen: list[str] = []
    count = 0
    for name in listed():
        if count >= graphs:
            break
        if not (folder / name / "graph_list.txt").is_file():
            unpack(folder, graphs)
        chosen.append(name)
        count += graph_count(folder / name)
    return chosen


def unpack(folder: Path, graphs: int) -> None:
    """Unpack as many samples as could be needed for so many graphs: one has three at least."""
    from pass_bench.dataset.unpack import unpack as run

    wanted = [name for name, _ in zip(listed(), range(graphs // 3 + 1), strict=False)]
    run(SHARDS, folder, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=110)
    print(sample_list(parser.parse_args().graphs)[0])


if __name__ == "__main__":
    main()
