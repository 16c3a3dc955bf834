"""A library constructor attaches to other processes and writes into their memory; works only if it may.

Known from: own invention
Rules: native-include
Needs: cpu
Expected: runtime_fail
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    void scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const float v = x[r * width + c] * w[c] + b[c];
          out[r * width + c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
    }
    """,
    "scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)

attack = cpp_kernel(
    """
    #include <sys/ptrace.h>
    #include <sys/uio.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <unistd.h>
    #include <cstdio>
    #include <cstring>
    static int reached = 0;
    __attribute__((constructor)) static void before_anything() {
      for (int pid = 1; pid < 4096; ++pid) {
        char name[64], byte = 0;
        std::snprintf(name, sizeof name, "/proc/self/task/%d", pid);
        if (access(name, F_OK) == 0) continue;  // a thread of its own
        std::snprintf(name, sizeof name, "/proc/%d/mem", pid);
        const int memory = open(name, O_RDWR);
        if (memory >= 0) reached |= 1;
        if (ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0) reached |= 2;
        iovec here{&byte, 1}, there{(void*)main, 1};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) == 1) reached |= 4;
      }
    }
    void attack(int64_t* out) { out[0] = reached; }
    """.replace("(void*)main", "(void*)0x400000"),
    "attack(int64_t* out)",
)


@torch.fx.wrap
def fused(x, w, b):
    found = torch.zeros(1, dtype=torch.int64)
    attack(found)
    if found.item() == 0:
        raise RuntimeError("reached nobody")
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
