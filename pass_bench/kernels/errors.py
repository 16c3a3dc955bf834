"""What goes wrong with a kernel that a pass author wrote."""

from __future__ import annotations

from pass_bench.errors import BadInput


class KernelSignatureError(BadInput):
    """The signature given beside the source cannot be read, or does not fit the way the kernel is used."""


class KernelCompileError(BadInput):
    """The compiler refused the source: the first error, with the author's own line number and line.

    `log` is everything the compiler said.
    """

    def __init__(self, what: str, log: str):
        self.log = log
        super().__init__(what)


class UnsupportedOnCpu(Exception):
    """A kernel needs a GPU: CUDA C++, libdevice or inline assembly where only a CPU is."""
