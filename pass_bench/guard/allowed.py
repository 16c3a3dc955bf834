"""What a pass may use outside `pattern` and `replacement_args`: tables for the source rules."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pass_bench


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


ALLOCATORS = words(
    """
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like as_tensor
    """
)
DTYPES = words(
    """
    float32 float float64 double float16 half bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz
    float8_e5m2fnuz int8 int16 short int32 int int64 long uint8 uint16 uint32 uint64 bool complex64
    complex128 cfloat cdouble
    """
)
TORCH_NAMES = (
    ALLOCATORS
    | DTYPES
    | words(
        """
        Tensor Size device dtype layout memory_format strided contiguous_format channels_last
        channels_last_3d preserve_format SymInt inf nan pi e finfo iinfo is_tensor is_floating_point
        broadcast_shapes promote_types result_type get_default_dtype no_grad inference_mode
        is_grad_enabled numel is_complex __version__ version.cuda version.hip version.git_version
        cuda.current_device cuda.current_stream cuda.device cuda.device_count
        cuda.get_device_capability cuda.get_device_name cuda.get_device_properties cuda.is_available
        cuda.synchronize cuda.is_bf16_supported cuda.device_of cuda.default_stream compiler.disable
        compiler.is_compiling _dynamo.disable nn.Module nn.Parameter
    """
    )
)
TORCH_PREFIXES = ("fx.",)
TORCH_STATE = (  # changes how eager runs, or who runs it: nowhere, not even in `pattern`
    *("set_", "use_deterministic", "backends.", "manual_seed", "seed", "random.", "cuda.manual_seed"),
    *("cuda.set_", "library.", "overrides.", "utils._python_dispatch", "_C._set", "_dynamo.config"),
    *("_inductor.config", "autograd.set_", "multiprocessing.", "distributed.", "hub.", "load", "save"),
    *("utils.cpp_extension", "classes.", "jit.", "package.", "_C._jit", "cuda.memory.", "cuda.empty_cache"),
)
STREAMS = (
    *("cuda.Stream", "cuda.stream", "cuda.ExternalStream", "cuda.Event", "cuda.CUDAGraph", "cuda.graph"),
    *("cuda.graphs", "cuda.make_graphed_callables", "Stream", "Event", "cuda.StreamContext", "cuda.streams"),
)
# metadata; other views of the same bytes, and copies that change nothing but layout, dtype or device;
# allocations; scalars out of a tensor
TENSOR_METHODS = words(
    """
    shape dtype device layout is_cuda is_cpu requires_grad ndim itemsize nbytes size stride dim
    ndimension numel nelement element_size is_contiguous storage_offset data_ptr is_floating_point
    get_device untyped_storage data names is_sparse is_quantized is_meta is_complex is_signed
    view view_as reshape reshape_as expand expand_as permute transpose movedim t T mT unsqueeze squeeze
    flatten unflatten narrow select as_strided unbind detach contiguous to type float half bfloat16
    double int long short bool cuda cpu type_as chunk split
    new_empty new_empty_strided new_zeros new_ones new_full zero_ fill_
    item tolist __len__
    """
)
ALSO_METHODS_OF_OTHERS = words(  # of set, list, dict, str, int and the like too
    """
    add split sort values index count copy insert pop remove clear update get keys items replace to
    real imag conjugate union difference resize format fill
    """
)
IMPORTS = words(
    """
    torch triton math functools operator typing typing_extensions collections itertools dataclasses
    enum numbers __future__ abc string textwrap struct warnings logging copy contextlib cmath
    fractions inspect sys types
    """
)
_TYPING = words(  # names for annotations, and what returns its argument; the rest evaluates text
    """
    Annotated Any AnyStr AsyncIterable AsyncIterator Awaitable BinaryIO Callable ChainMap ClassVar
    Collection Concatenate Container Counter DefaultDict Deque Dict Final FrozenSet Generator Generic
    Hashable IO ItemsView Iterable Iterator KeysView List Literal LiteralString Mapping Match
    MutableMapping MutableSequence MutableSet NamedTuple Never NewType NoReturn NotRequired Optional
    OrderedDict ParamSpec Pattern Protocol Required Reversible Self Sequence Set Sized SupportsFloat
    SupportsIndex SupportsInt Text TextIO Tuple Type TYPE_CHECKING TypeAlias TypeAliasType TypedDict
    TypeGuard TypeIs TypeVar TypeVarTuple Union Unpack ValuesView assert_never assert_type cast final
    no_type_check overload override runtime_checkable
    """
)
ONLY = {  # of these modules nothing else
    "inspect": {"signature", "Signature", "Parameter"},
    "sys": {"version_info", "maxsize", "float_info", "byteorder"},
    "types": {"SimpleNamespace", "MappingProxyType"},
    "operator": words(
        """
        add sub mul floordiv truediv mod neg pow lt le eq ne ge gt and_ or_ xor lshift rshift index abs
        pos not_ is_ is_not truth itemgetter getitem contains iadd isub imul
        """
    ),
    "contextlib": {"nullcontext", "contextmanager", "suppress"},
    "copy": {"copy", "deepcopy"},
    "string": words(  # `Formatter` looks up attributes by name
        """
        ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation printable
        whitespace capwords Template
        """
    ),
    "typing": _TYPING,
    "typing_extensions": _TYPING,
    "logging": words(  # handlers and `basicConfig` open files
        """
        getLogger Logger NullHandler NOTSET DEBUG INFO WARNING ERROR CRITICAL debug info warning error
        critical exception log
        """
    ),
}
FORBIDDEN_MODULES = words(
    """
    os sys gc ctypes inspect subprocess threading builtins importlib multiprocessing socket signal
    pickle marshal time datetime random numpy np asyncio concurrent shutil pathlib tempfile io mmap
    resource faulthandler atexit weakref code codeop runpy imp pkgutil posix _thread hashlib urllib
    http
    """
)
FORBIDDEN_BUILTINS = words(
    """
    eval exec compile open input breakpoint globals locals vars __import__ setattr delattr
    memoryview __builtins__ __loader__ __spec__ exit quit help id
    """
)
DUNDERS = words(  # attributes that are harmless to read; `__signature__` to set
    """
    __name__ __doc__ __version__ __signature__ __init__ __file__ __len__ __qualname__ __call__
    __enter__ __exit__ __post_init__ __iter__ __next__ __eq__ __hash__ __repr__ __str__ __getitem__
    __annotations__ __new__ __contains__ __bool__ __int__ __index__
    """
)
FRAME_ATTRIBUTES = words(
    """
    f_globals f_locals f_back f_code f_builtins tb_frame tb_next gi_frame gi_code cr_frame co_code
    co_consts func_globals func_code ag_frame
    """
)


@functools.cache
def tensor_compute_methods() -> frozenset[str]:
    """Names of tensor methods that compute, from the list of torch names that the package keeps."""
    file = Path(pass_bench.__file__).parent / "data" / "torch_names.json"
    names = {name.rpartition(".")[2] for name in json.loads(file.read_text())["methods"]}
    in_place = words("copy_ add_ mul_ sub_ div_ random_ normal_ uniform_ bernoulli_ set_")
    return frozenset(name for name in names | in_place if not name.startswith("__")) - TENSOR_METHODS


def may_import(module: str) -> bool:
    """Whether a pass may import this absolute module name."""
    return module.split(".")[0] in IMPORTS
