"""Ways to spoil a sample directory, by the stage of loading that should notice."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

Mutation = Callable[[random.Random, Path], list[str]]
MUTATIONS: dict[str, list[Mutation]] = {}
MANIFEST = "sorted_output_pass_rule_names.json"


def stage(name: str) -> Callable[[Mutation], Mutation]:
    def register(mutation: Mutation) -> Mutation:
        MUTATIONS.setdefault(name, []).append(mutation)
        return mutation

    return register


def writes(name: str, path: str, *texts: str | bytes) -> None:
    """Register a mutation that replaces a file by one of these texts."""

    @stage(name)
    def write(source: random.Random, sample: Path) -> list[str]:
        text = source.choice(texts)
        (sample / path).write_bytes(text if isinstance(text, bytes) else text.encode())
        return []


def edits(name: str, path: str, *changes: tuple[str, str]) -> None:
    """Register a mutation that makes one of these replacements in a file."""

    @stage(name)
    def edit(source: random.Random, sample: Path) -> list[str]:
        old, new = source.choice(changes)
        text = (sample / path).read_text()
        assert old in text, old
        (sample / path).write_text(text.replace(old, new))
        return []


def removes(name: str, *paths: str) -> None:
    """Register a mutation that removes one of these files or folders."""

    @stage(name)
    def remove(source: random.Random, sample: Path) -> list[str]:
        path = sample / source.choice(paths)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return []


def flips(name: str, path: str) -> None:
    """Register mutations that change, cut or double random bytes of a file."""

    @stage(name)
    def flip(source: random.Random, sample: Path) -> list[str]:
        data = bytearray((sample / path).read_bytes())
        for _ in range(source.randrange(1, 4)):
            if data:
                data[source.randrange(len(data))] = source.randrange(256)
        (sample / path).write_bytes(bytes(data))
        return []

    @stage(name)
    def cut(source: random.Random, sample: Path) -> list[str]:
        data = (sample / path).read_bytes()
        (sample / path).write_bytes(data[: source.randrange(len(data) + 1)])
        return []

    @stage(name)
    def double(source: random.Random, sample: Path) -> list[str]:
        lines = (sample / path).read_bytes().splitlines(keepends=True) or [b""]
        place = source.randrange(len(lines))
        (sample / path).write_bytes(b"".join([*lines[:place], lines[place], *lines[place:]]))
        return []


def arguments(*choices: list[str]) -> None:
    """Register one command line that asks for something impossible."""

    @stage("options")
    def choose(source: random.Random, sample: Path) -> list[str]:
        return [word.replace("SAMPLE", str(sample)) for word in source.choice(choices)]


G, M, P = "graphs/tiny", "graphs/tiny/model.py", "pass_dir/AddRelu.py"

removes("list", "graph_list.txt")
writes("list", "graph_list.txt", "", "\n\n", "# only a remark\n")
writes("list", "graph_list.txt", "graphs/none\n", "graphs/tiny\ngraphs/none\n", "../../etc\n", "graphs\n")
writes("list", "graph_list.txt", b"\xff\xfe\x00", b"graphs/ti\x00ny\n", "graphs/" + "x" * 300 + "\n")
removes("list", G)
flips("list", "graph_list.txt")

removes("model", M)
writes(
    "model", M, "", "import torch\n", "def forward(x): return x\n", b"\xff\xfe", "class GraphModule: pass\n"
)
writes("model", M, "class GraphModule(:\n", "(" * 500, "x = '\n", "\0")
edits("model", M, ("import torch", "import os"), ("import torch", "import torch, sys"), ("import torch", ""))
edits("model", M, ("in_0 + in_1", "open('/etc/passwd')"), ("in_0 + in_1", "__import__('os')"))
edits(
    "model",
    M,
    ("in_0 + in_1", "eval('1')"),
    ("in_0 + in_1", "torch.load('x')"),
    ("in_0 + in_1", "in_0.__class__"),
)
edits("model", M, ("in_0 + in_1", "torch.no_such(in_0)"), ("in_0 + in_1", "unknown + in_1"))
edits("model", M, ("(self, in_0, in_1)", "(self, in_0, in_1, in_2)"), ("(self, in_0, in_1)", "(self, in_0)"))
edits("model", M, ("(self, in_0, in_1)", "(self, *in_0)"), ("def forward", "def backward"))
edits("model", M, ("(self, in_0, in_1)", "(self, in_0, in_0)"), ("class GraphModule", "class Other"))
edits(
    "model",
    M,
    ("return (tmp_1,)", ""),
    ("return (tmp_1,)", "return (tmp_9,)"),
    ("return (tmp_1,)", "raise 1"),
)
edits("model", M, ("        tmp_0 = in_0", "        while True: pass\n        tmp_0 = in_0"))
edits(
    "model",
    M,
    ("    def forward", "    @torch.no_grad()\n    def forward"),
    ("relu(tmp_0)", "relu(tmp_0, x=1)"),
)
flips("model", M)

W = f"{G}/weight_meta.py"
removes("meta", W)
writes(
    "meta",
    W,
    "",
    b"\xff\xfe",
    "class A:\n    pass\n",
    "import os\n",
    "x = 1\n",
    "class A(B):\n    name = f()\n",
)
edits("meta", W, ("[8, 16]", "[8, -16]"), ("[8, 16]", "8"), ("[8, 16]", "['a']"), ("[8, 16]", "[2.5]"))
edits("meta", W, ("torch.float32", "torch.float33"), ("torch.float32", "float"), ('"torch.float32"', "4"))
edits("meta", W, ("std = 1.0", "std = 'x'"), ("std = 1.0", "std = open('x')"), ("mean = 0.1", "mean = []"))
edits(
    "meta",
    W,
    ("data = None", "data = [1, 2, 3]"),
    ("data = None", "data = 'abc'"),
    ("data = None", "data = [None]"),
)
edits(
    "meta",
    W,
    ('name = "in_1"', 'name = "in_0"'),
    ('name = "in_1"', 'name = "in_7"'),
    ('    name = "in_1"\n', ""),
)
edits("meta", W, ("    shape = [8, 16]\n", ""), ('    dtype = "torch.float32"\n', ""), ('"cpu"', '"abacus"'))
edits("meta", W, ("[8, 16]", "[1000000, 1000000, 1000000]"), ("[8, 16]", "[" * 300 + "]" * 300))
flips("meta", W)
writes("info", f"{G}/graph_net.json", "{", "[]", "3", b"\xff", '{"framework": ' * 50)
flips("info", f"{G}/graph_net.json")

L = f"pass_dir/{MANIFEST}"
removes("manifest", "pass_dir", L)
writes(
    "manifest",
    L,
    "",
    "{}",
    "null",
    '"AddRelu"',
    "[1]",
    '["AddRelu", null]',
    '["Missing"]',
    b"\xff",
    "[" * 3000,
)
writes("manifest", L, '["AddRelu", "AddRelu"]', '["../AddRelu"]', '["AddRelu.py"]', '[""]', '["/etc/passwd"]')
flips("manifest", L)

removes("pass", P)
writes("pass", P, "", b"\xff\xfe", "def pattern(:\n", "raise RuntimeError('at import')\n", "import nowhere\n")
writes("pass", P, "import sys\nsys.exit(5)\n", "1 / 0\n", "from pass_dir._none import x\n", "\0")
edits(
    "pass",
    P,
    ("def pattern", "def other"),
    ("def replacement_args", "def other"),
    ("def replacement_func", "def o"),
)
edits("pass", P, ("return add_relu\n", "return lambda x, y: x\n"), ("return add_relu\n", "return 7\n"))
edits(
    "pass", P, ("return add_relu\n", "raise ValueError('no')\n"), ("return add_relu\n", "return undefined\n")
)
edits("pass", P, ("def pattern(x, y)", "def pattern(*xs)"), ("def pattern(x, y)", "def pattern(*, x, y)"))
edits("pass", P, ("def pattern(x, y):\n", "def pattern(x, y):\n    if x.sum() > 0: return x\n"))
edits("pass", P, ("def pattern(x, y):\n", "def pattern(x, y):\n    raise OSError('in the pattern')\n"))
edits(
    "pass",
    P,
    ("return (x, y)", "return 5"),
    ("return (x, y)", "return (x, y, z)"),
    ("return (x, y)", "return (x,)"),
)
edits("pass", P, ("def replacement_args(x, y)", "def replacement_args(a, b, c)"))
edits(
    "pass",
    P,
    ("import torch\n", "import torch\nDEVICES = 'cpu'\n"),
    ("import torch\n", "import torch\nDEVICES = 3\n"),
)
edits("pass", P, ("import torch\n", "import torch\nDEVICES = ('tpu',)\n"))
edits("pass", P, ('"add_relu(const float* x', '"add_relu(float32 x'), ("out[i] = s", "out[i] = undeclared"))
flips("pass", P)

arguments(
    ["--compiler", "magic"],
    ["--compiler", ""],
    ["--regimes", "sunny"],
    ["--regimes", "random"],
    ["--regimes", ""],
)
arguments(
    ["--device", "tpu"], ["--device", "cuda"], ["--trials", "0"], ["--trials", "many"], ["--warmup", "-1"]
)
arguments(["--out", "SAMPLE/graph_list.txt"], ["--frobnicate"], ["one", "more"], ["--timeout", "0"])
arguments(["--pass-dir", "SAMPLE/nowhere"], ["--const-pass-dir", "SAMPLE/nowhere"], ["--pattern-limit", "0"])
arguments(["--out", "SAMPLE/full"], ["--sandbox", "perhaps"], ["--replacement-func-limit", "x"])


def spoil(source: random.Random, sample: Path) -> tuple[str, list[str]]:
    """Apply one mutation; return its stage and the arguments that go with it."""
    name = source.choice(list(MUTATIONS))
    if name == "options":
        (sample / "full").mkdir()
        (sample / "full" / "results.jsonl").write_text("")
    return name, source.choice(MUTATIONS[name])(source, sample)
