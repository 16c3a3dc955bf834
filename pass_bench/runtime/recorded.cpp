// Replays a recording where it can be: inputs in the memory and layout of the recording, on the stream of the replay
// before, and no output of an earlier replay in use.
#include <cstring>

#include "pn_stub.h"

namespace {

// What pass_bench/runtime/recorded.py packs: one head, the storages of the outputs, then each input followed by its
// shape and strides.
struct head {
  std::int64_t count, storages, stream;
  std::int32_t on_gpu, device;
  std::uint64_t graph, context, launch, current;  // a CUgraphExec and its CUcontext, or 0; functions of the driver
};
struct storage { std::uint64_t address; std::int64_t idle; };
struct expected { std::int64_t data; std::int32_t type, id, ndim; std::uint8_t code, bits; std::uint16_t lanes; };

using stream_fn = int (*)(std::int32_t, std::int32_t, void**);
using launch_fn = int (*)(void*, void*);
using current_fn = int (*)(void**);

// The reference count of a StorageImpl is the 32-bit number after its table of virtual functions; recorded.py tries
// that before anything relies on it.
std::int64_t count_of(std::uint64_t address) {
  std::uint32_t count;
  std::memcpy(&count, reinterpret_cast<const char*>(address) + sizeof(void*), sizeof count);
  return count;
}

bool same_tensor(PyObject* object, const char*& at) {
  expected e;
  std::memcpy(&e, at, sizeof e);
  at += sizeof e;
  if (Py_TYPE(object) != pn::tensor_type) return false;
  pn::dl_tensor t;
  if (pn::api->tensor_from_py_object(object, &t)) {
    PyErr_Clear();
    return false;
  }
  if (reinterpret_cast<std::int64_t>(t.data) + static_cast<std::int64_t>(t.byte_offset) != e.data ||
      t.device.type != e.type || t.device.id != e.id || t.ndim != e.ndim || t.dtype.code != e.code ||
      t.dtype.bits != e.bits || t.dtype.lanes != e.lanes)
    return false;
  const std::size_t bytes = sizeof(std::int64_t) * static_cast<std::size_t>(e.ndim);
  if (bytes && (!t.strides || std::memcmp(t.shape, at, bytes) || std::memcmp(t.strides, at + bytes, bytes))) return false;
  at += 2 * bytes;
  return true;
}

// Whether the graph's context is the current one, in which alone it can be launched.
bool in_context(const head& h) {
  void* context = nullptr;
  return !reinterpret_cast<current_fn>(h.current)(&context) && reinterpret_cast<std::uint64_t>(context) == h.context;
}

// replay(packed, tensor, ...) -> bool: whether it can be replayed; that is done if a graph is packed
PyObject* replay(PyObject*, PyObject* const* in, Py_ssize_t count) {
  if (count < 1 || !PyBytes_Check(in[0])) {
    PyErr_SetString(PyExc_SystemError, "replay takes packed bytes and tensors");
    return nullptr;
  }
  const char* at = PyBytes_AS_STRING(in[0]);
  head h;
  std::memcpy(&h, at, sizeof h);
  at += sizeof h;
  if (!pn::api || h.count != count - 1) Py_RETURN_FALSE;
  if (h.on_gpu) {
    void* stream = nullptr;
    if (reinterpret_cast<stream_fn>(pn::api->current_work_stream)(2, h.device, &stream)) {
      PyErr_Clear();
      Py_RETURN_FALSE;
    }
    if (reinterpret_cast<std::int64_t>(stream) != h.stream) Py_RETURN_FALSE;
  }
  for (std::int64_t i = 0; i < h.storages; ++i, at += sizeof(storage)) {
    storage s;
    std::memcpy(&s, at, sizeof s);
    if (count_of(s.address) > s.idle) Py_RETURN_FALSE;
  }
  for (Py_ssize_t i = 1; i < count; ++i)
    if (!same_tensor(in[i], at)) Py_RETURN_FALSE;
  if (!h.graph) Py_RETURN_TRUE;
  if (!in_context(h)) Py_RETURN_FALSE;
  int error = 0;
  Py_BEGIN_ALLOW_THREADS  // a full queue blocks
  error = reinterpret_cast<launch_fn>(h.launch)(reinterpret_cast<void*>(h.graph), reinterpret_cast<void*>(h.stream));
  Py_END_ALLOW_THREADS
  if (error) return PyErr_Format(PyExc_RuntimeError, "the launch of a CUDA graph failed with error %d", error);
  Py_RETURN_TRUE;
}

PyMethodDef methods[] = {
    {"replay", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(replay)), METH_FASTCALL, nullptr},
    {"bind", pn::bind, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pn_module", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_pn_module() { return PyModule_Create(&definition); }
