"""Writes torch_names.json, the allow-list of model.py: `python -m pass_bench.data.regenerate_torch_names`.

The list starts from what torch itself declares as overridable tensor functions, adds factories, and drops
whatever touches files, raw memory, other processes, callbacks or process-wide state, and whatever trusts its
arguments without checking them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = Path(__file__).parent / "torch_names.json"


def _words(text: str) -> list[str]:
    return text.split()


# File and buffer readers; packed or unchecked formats; vendor back ends with opaque arguments.
_UNSAFE_NAME = re.compile(
    r"^(from_|frombuffer|asarray|fbgemm_|miopen_|cudnn_|mkldnn_|quantized_|sparse_|empty_quantized"
    r"|segment_reduce|choose_qparams|resize|set_|is_vulkan|norm_except_dim|unsafe_masked)|has_torch_function"
    r"|_test_|fused_moving_avg|^boolean_dispatch|^assert_int|^handle_torch|^autocast$"
)
_UNSAFE_METHODS = frozenset(
    _words(
        "apply_ map_ map2_ backward const_data_ptr data_ptr is_set_to is_shared module_load numpy pin_memory "
        "record_stream register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad resize "
        "resize_ resize_as resize_as_ resize_as_sparse_ set_ share_memory_ sparse_resize_ "
        "sparse_resize_and_clear_ storage storage_type to_mkldnn untyped_storage ipu xpu mtia"
    )
)
_OPERATOR_DUNDERS = [
    f"__{name}__"
    for name in _words(
        "eq ne lt le gt ge add sub mul truediv floordiv mod pow matmul and or xor invert neg abs "
        "lshift rshift radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor iadd isub imul "
        "itruediv ifloordiv imod iand ior ixor getitem setitem len bool int float"
    )
]
_EXTRA_METHODS = _words(
    "device new_empty new_full new_ones new_tensor new_zeros __getitem__ is_cuda dim stride size unflatten "
    "split chunk type unique t index_fill masked_fill norm stft istft view_as_real"
)
_FACTORIES = _words(
    "arange as_tensor bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye full "
    "full_like hamming_window hann_window kaiser_window linspace logspace normal ones ones_like rand "
    "rand_like randint randint_like randn randn_like randperm range scalar_tensor tensor tril_indices "
    "triu_indices vander zeros zeros_like complex polar"
)
_EXTRA_TORCH = _words(
    "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum device Size finfo iinfo numel "
    "is_tensor is_floating_point is_complex broadcast_shapes unravel_index result_type promote_types "
    "_check _check_index _check_is_size _check_tensor_all _check_type _check_value _assert _weight_norm "
    "_shape_as_tensor _softmax _log_softmax _unsafe_view _adaptive_avg_pool2d _upsample_nearest_exact1d"
)
# What Dynamo leaves in graphs of vmapped, no_grad and autocast regions; they must pair up.
_STATE = [
    "torch._C._log_api_usage_once",
    "torch._C._set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    *(
        f"{module}.{name}"
        for module in ("torch._C._functorch", "torch._functorch.predispatch")
        for name in (
            "_add_batch_dim",
            "_remove_batch_dim",
            "_vmap_increment_nesting",
            "_vmap_decrement_nesting",
        )
    ),
    "torch._functorch.predispatch.lazy_load_decompositions",
    "torch._functorch.vmap.lazy_load_decompositions",
]
_EXTRA_ATEN = _words(
    "_assert_async _assert_scalar _assert_tensor_metadata _local_scalar_dense _to_copy _unsafe_view alias "
    "item lift_fresh_copy sym_constrain_range sym_constrain_range_for_size sym_numel sym_size sym_stride "
    "sym_storage_offset _softmax _log_softmax slice unbind_copy constant_pad_nd convolution "
    "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training empty "
    "_scaled_dot_product_flash_attention_for_cpu upsample_nearest2d upsample_bilinear2d"
)
_ATTRIBUTES = _words(
    "shape device dtype T mT H mH ndim real imag layout itemsize nbytes data is_cuda is_cpu is_meta "
    "requires_grad type index min max eps tiny smallest_normal resolution bits values indices sign logabsdet "
    "U S V Vh Q R L P LU pivots info eigenvalues eigenvectors solution hist bin_edges mantissa exponent"
)
_VALUES = _words(
    "inf nan pi e newaxis strided contiguous_format channels_last channels_last_3d preserve_format"
)


def collect() -> dict[str, list[str]]:
    """The allow-list of the torch that is installed."""
    import torch
    from torch.overrides import get_overridable_functions

    bindings: Any = torch._C
    overridable = get_overridable_functions()

    def public(names: Any) -> set[str]:
        return {name for name in names if not name.startswith("_") and not _UNSAFE_NAME.search(name)}

    def names_of(owner: Any) -> set[str]:
        return public(f.__name__ for f in overridable[owner] if hasattr(f, "__name__"))

    functions: set[str] = set()

    def add(prefix: str, names: Any, module: ModuleType | Any) -> None:
        functions.update(f"{prefix}.{name}" for name in names if callable(getattr(module, name, None)))

    plain = names_of(torch) | names_of(torch.functional) | set(_FACTORIES) | set(_EXTRA_TORCH)
    plain |= {f"{name}_" for name in plain} | {"as_strided", "as_strided_", "fill", "fill_"}
    add("torch", plain, torch)
    add("torch.functional", names_of(torch.functional), torch.functional)
    functional = {name for name, value in vars(torch.nn.functional).items() if _is_functional(value)}
    add("torch.nn.functional", public(functional), torch.nn.functional)
    for name in ("linalg", "fft", "special"):
        module = getattr(torch, name)
        add(f"torch.{name}", public(module.__all__) if hasattr(module, "__all__") else (), module)
        stripped = {full.removeprefix(f"{name}_") for full in names_of(module)}
        add(f"torch.{name}", stripped, module)
        native = getattr(bindings, f"_{name}")
        add(f"torch._C._{name}", (n for n in vars(native) if n.startswith(f"{name}_")), native)
    natives = public(vars(torch._C._nn)) - {"flatten_dense_tensors", "unflatten_dense_tensors"}
    natives |= {n for n in vars(torch._C._nn) if n.startswith(("_upsample_", "_conv_", "_pad_"))}
    add("torch._C._nn", natives, torch._C._nn)
    functions = {name for name in functions if not _is_type_alias(name)}
    functions.update(_STATE)

    methods = (names_of(torch.Tensor) - _UNSAFE_METHODS) | set(_EXTRA_METHODS)
    methods = {name for name in methods if hasattr(torch.Tensor, name)} | set(_OPERATOR_DUNDERS)
    in_place = {name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_")}
    methods |= {name for name in in_place if name[:-1] in methods} - _UNSAFE_METHODS
    add("torch.Tensor", methods, torch.Tensor)

    aten_names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    known = {name.rsplit(".", 1)[-1] for name in functions} | methods | set(_EXTRA_ATEN)
    known.discard("Size")
    known |= {f"{name}_" for name in known} | {n for n in vars(bindings._linalg) if n.startswith("linalg_")}
    aten = {name for name in known if f"aten::{name}" in aten_names} - _UNSAFE_METHODS
    dtypes = {f"torch.{name}" for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return {
        "functions": sorted(functions),
        "methods": sorted(methods),
        "attributes": sorted(_ATTRIBUTES),
        "aten": sorted(aten),
        "values": sorted(dtypes | {f"torch.{name}" for name in _VALUES}),
    }


def _is_functional(value: Any) -> bool:
    """Whether nn.functional defines it itself or takes it from torch's C side; not its imports."""
    if isinstance(value, type | ModuleType) or not callable(value):
        return False
    own = ("torch.nn.functional", "torch._jit_internal", "torch._C._nn", "torch._C._VariableFunctions")
    return getattr(value, "__module__", None) in own or type(value).__name__ == "builtin_function_or_method"


def _is_type_alias(name: str) -> bool:
    """`typing` names that nn.functional re-exports, such as Callable."""
    last = name.rsplit(".", 1)[-1]
    return last[:1].isupper() and last != "Size"


def main() -> None:
    """Write the file."""
    TARGET.write_text(json.dumps(collect(), indent=0) + "\n")


if __name__ == "__main__":
    main()
