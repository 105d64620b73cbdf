// Copies and fills with true contents. Each copy or fill is done at once, whatever stream it is put on. On a captured
// stream it becomes a node of a graph, and each launch of the graph does it.
#include <cstring>

#include "arrays.hpp"
#include "capture.hpp"
#include "contents.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "host_memory.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

/// A side of a copy: an address and the kind of memory that is allowed there.
struct Side {
  std::uint64_t address = 0;
  Reach reach = Reach::kAny;
};
Side device(CUdeviceptr address) { return {address, Reach::kDevice}; }
Side any(CUdeviceptr address) { return {address, Reach::kAny}; }
Side host(const void* address) { return {reinterpret_cast<std::uint64_t>(address), Reach::kAny}; }

CUresult move_bytes(Side to, Side from, std::uint64_t size, const char* function) {
  const std::uint64_t target = to.address, source = from.address;
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (size == 0) return CUDA_SUCCESS;
  if (!is_reachable(target, size, to.reach) || !is_reachable(source, size, from.reach)) return CUDA_ERROR_INVALID_VALUE;
  return copy_contents(target, source, size) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void describe_copy(Operation& operation, std::uint64_t target, std::uint64_t source, std::uint64_t size) {
  operation.address = target;
  operation.source = source;
  operation.bytes = size;
  operation.source_device = operation.target_device = current() != nullptr ? ordinal_of(current()->device) : 0;
  operation.memory = memory_at(target, nullptr, &operation.target_device);
  operation.source_memory = memory_at(source, nullptr, &operation.source_device);
}

void describe_stream(Operation& operation, CUstream stream) {
  operation.stream = stream;
  operation.is_async = true;
  operation.is_captured = is_captured(stream);
}

CUresult move(Side target, Side source, std::uint64_t size, const char* function) {
  return observed(
      Work::kCopy, function,
      [&](Operation& operation) { describe_copy(operation, target.address, source.address, size); },
      [&] { return move_bytes(target, source, size, function); });
}

/// Returns the description of a copy of one row between any two places.
CUDA_MEMCPY3D row(std::uint64_t target, std::uint64_t source, std::size_t size) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = source;
  copy.dstDevice = target;
  copy.WidthInBytes = size;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D body(const CUDA_MEMCPY2D& plane) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = plane.srcXInBytes;
  copy.srcY = plane.srcY;
  copy.srcMemoryType = plane.srcMemoryType;
  copy.srcHost = plane.srcHost;
  copy.srcDevice = plane.srcDevice;
  copy.srcArray = plane.srcArray;
  copy.srcPitch = plane.srcPitch;
  copy.dstXInBytes = plane.dstXInBytes;
  copy.dstY = plane.dstY;
  copy.dstMemoryType = plane.dstMemoryType;
  copy.dstHost = plane.dstHost;
  copy.dstDevice = plane.dstDevice;
  copy.dstArray = plane.dstArray;
  copy.dstPitch = plane.dstPitch;
  copy.WidthInBytes = plane.WidthInBytes;
  copy.Height = plane.Height;
  copy.Depth = 1;
  return copy;
}

/// Converts a copy between two contexts to a plain one, since all addresses are in one space.
CUDA_MEMCPY3D body(const CUDA_MEMCPY3D_PEER& peer) {
  CUDA_MEMCPY3D copy{};
  static_assert(sizeof copy == sizeof peer);
  std::memcpy(&copy, &peer, sizeof copy);
  copy.reserved0 = copy.reserved1 = nullptr;  // the fields of the contexts
  return copy;
}

const CUDA_MEMCPY3D& body(const CUDA_MEMCPY3D& copy) { return copy; }

CUresult move_on(CUstream stream, Side target, Side source, std::uint64_t size, const char* function) {
  const auto describe = [&](Operation& operation) {
    describe_copy(operation, target.address, source.address, size);
    describe_stream(operation, stream);
  };
  return observed(Work::kCopy, function, describe, [&] {
    if (size == 0 ? capture_work(stream, CU_GRAPH_NODE_TYPE_MEMCPY)
                  : capture_copy(stream, row(target.address, source.address, size))) {
      return CUDA_SUCCESS;
    }
    return move_bytes(target, source, size, function);
  });
}

/// Computes how many bytes lie from the first byte of these rows and slices to their last byte, gaps included. Returns
/// false on an overflow.
bool extent_of(std::uint64_t width, std::uint64_t height, std::uint64_t pitch, std::uint64_t depth, std::uint64_t slice,
               std::uint64_t& out) {
  std::uint64_t rows = 0, slices = 0;
  if (width == 0 || height == 0 || depth == 0) return out = 0, true;
  return !__builtin_mul_overflow(height - 1, pitch, &rows) && !__builtin_mul_overflow(depth - 1, slice, &slices) &&
         !__builtin_add_overflow(rows, slices, &out) && !__builtin_add_overflow(out, width, &out);
}

template <typename Value>
CUresult fill_rows(std::uint64_t target, std::size_t pitch, Value value, std::size_t width, std::size_t height,
                   const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  std::uint64_t row_bytes = 0, extent = 0;
  if (__builtin_mul_overflow(width, sizeof(Value), &row_bytes) || target % sizeof(Value) != 0 ||
      (height > 1 && pitch < row_bytes) || !extent_of(row_bytes, height, height > 1 ? pitch : 0, 1, 0, extent) ||
      !is_reachable(target, extent, Reach::kDevice))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t row = 0; row < height; ++row) {
    const std::uint64_t start = target + row * pitch;
    if (value == 0) {
      fill_with_zeros(start, row_bytes);
      continue;
    }
    if (!touch(start, row_bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
    auto* cells = reinterpret_cast<Value*>(start);
    for (std::size_t i = 0; i < width; ++i) cells[i] = value;
  }
  return CUDA_SUCCESS;
}

template <typename Value>
void describe_fill(Operation& operation, std::uint64_t target, std::size_t pitch, Value value, std::size_t width,
                   std::size_t height) {
  operation.address = target;
  operation.value = value;
  operation.pitch = pitch;
  operation.width = width;
  operation.height = height;
  operation.bytes = width * height * sizeof(Value);
  operation.memory = memory_at(target);
}

template <typename Value>
CUresult fill(std::uint64_t target, std::size_t pitch, Value value, std::size_t width, std::size_t height,
              const char* function) {
  return observed(
      Work::kFill, function,
      [&](Operation& operation) { describe_fill(operation, target, pitch, value, width, height); },
      [&] { return fill_rows(target, pitch, value, width, height, function); });
}

template <typename Value>
CUresult fill_on(CUstream stream, std::uint64_t target, std::size_t pitch, Value value, std::size_t width,
                 std::size_t height, const char* function) {
  const auto describe = [&](Operation& operation) {
    describe_fill(operation, target, pitch, value, width, height);
    describe_stream(operation, stream);
  };
  return observed(Work::kFill, function, describe, [&] {
    if (width == 0 || height == 0 ? capture_work(stream, CU_GRAPH_NODE_TYPE_MEMSET)
                                  : capture_fill(stream, {target, pitch, value, sizeof(Value), width, height})) {
      return CUDA_SUCCESS;
    }
    return fill_rows(target, pitch, value, width, height, function);
  });
}

/// The memory of one side of a copy in rows. row() returns the address of row `y` of slice `z`.
struct Place {
  std::uint64_t start = 0, pitch = 0, slice = 0;
  [[nodiscard]] std::uint64_t row(std::size_t y, std::size_t z) const { return start + z * slice + y * pitch; }
};

/// One side of a copy, as the program describes it.
struct Described {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t x, y, z, pitch, height;
};

/// Finds the place that a description names. Returns true if there is memory for `width` bytes of every row of every
/// slice. In an array, these bytes must also lie within the array's shape.
bool find_place(const Described& side, std::size_t width, std::size_t height, std::size_t depth, Place& out) {
  const auto lies_in = [](std::uint64_t first, std::uint64_t count, std::uint64_t all) {
    return first <= all && count <= all - first;
  };
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    ArrayLayout layout;
    if (!layout_of(side.array, layout) || !lies_in(side.x, width, layout.row) ||
        !lies_in(side.y, height, layout.height) || !lies_in(side.z, depth, layout.depth))
      return false;
    out = {layout.address, layout.row, layout.row * layout.height};
    out.start += side.x + side.y * out.pitch + side.z * out.slice;
    return true;
  }
  if (side.type < CU_MEMORYTYPE_HOST || side.type > CU_MEMORYTYPE_UNIFIED) return false;
  const Side memory = side.type == CU_MEMORYTYPE_HOST     ? host(side.host)
                      : side.type == CU_MEMORYTYPE_DEVICE ? device(side.device)
                                                          : any(side.device);
  out.start = memory.address;
  out.pitch = side.pitch != 0 ? side.pitch : width;
  std::uint64_t before = 0, extent = 0;
  if (out.start == 0 || (height > 1 && out.pitch < width) ||
      __builtin_mul_overflow(out.pitch, std::max<std::size_t>(side.height, 1), &out.slice) ||
      !extent_of(side.x, side.y + 1, out.pitch, side.z + 1, out.slice, before) ||
      __builtin_add_overflow(out.start, side.x + side.y * out.pitch + side.z * out.slice, &out.start))
    return false;
  return extent_of(width, height, out.pitch, depth, out.slice, extent) && is_reachable(out.start, extent, memory.reach);
}

template <typename Copy>
CUresult move_rows(const Copy& copy, std::size_t depth, const Described& to, const Described& from,
                   const CUstream* stream, const char* function) {
  Place target, source;
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!find_place(from, copy.WidthInBytes, copy.Height, depth, source) ||
      !find_place(to, copy.WidthInBytes, copy.Height, depth, target))
    return CUDA_ERROR_INVALID_VALUE;
  const auto describe = [&](Operation& operation) {
    describe_copy(operation, target.start, source.start, copy.WidthInBytes * copy.Height * depth);
    operation.copy = &copy;
    if (stream != nullptr) describe_stream(operation, *stream);
  };
  return observed(Work::kCopy, function, describe, [&] {
    if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
    if (copy.WidthInBytes == 0) return CUDA_SUCCESS;
    for (std::size_t z = 0; z < depth; ++z) {
      for (std::size_t y = 0; y < copy.Height; ++y) {
        if (!copy_contents(target.row(y, z), source.row(y, z), copy.WidthInBytes)) return CUDA_ERROR_OPERATING_SYSTEM;
      }
    }
    return CUDA_SUCCESS;
  });
}

/// Copies a plane on `stream`. If `stream` is null, the copy is done before the call returns.
CUresult move_plane(const CUDA_MEMCPY2D* copy, const char* function, const CUstream* stream = nullptr) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Described from{copy->srcMemoryType,
                       copy->srcHost,
                       copy->srcDevice,
                       copy->srcArray,
                       copy->srcXInBytes,
                       copy->srcY,
                       0,
                       copy->srcPitch,
                       0};
  const Described to{copy->dstMemoryType,
                     copy->dstHost,
                     copy->dstDevice,
                     copy->dstArray,
                     copy->dstXInBytes,
                     copy->dstY,
                     0,
                     copy->dstPitch,
                     0};
  return move_rows(*copy, 1, to, from, stream, function);
}

template <typename Copy>
CUresult move_body(const Copy* copy, const char* function, const CUstream* stream = nullptr) {
  if (copy == nullptr || copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  const Described from{copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcXInBytes,
                       copy->srcY,          copy->srcZ,    copy->srcPitch,  copy->srcHeight};
  const Described to{copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstXInBytes,
                     copy->dstY,          copy->dstZ,    copy->dstPitch,  copy->dstHeight};
  return move_rows(*copy, copy->Depth, to, from, stream, function);
}

/// Computes the address at an offset in an array. Returns false if some of the `size` bytes there lie outside the
/// array.
bool in_array(CUarray array, std::size_t offset, std::size_t size, std::uint64_t& out) {
  ArrayLayout layout;
  const std::uint64_t all = layout_of(array, layout) ? layout.row * layout.height * layout.depth : 0;
  if (offset > all || size > all - offset) return false;
  out = layout.address + offset;
  return true;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

// Defines each copy function twice, for the legacy default stream and for the per-thread one. Each first waits for its
// stream.
#define BOTH(name, twin, parameters, ...) \
  RATION_ENTRY name parameters {          \
    finish(nullptr);                      \
    __VA_ARGS__                           \
  }                                       \
  RATION_ENTRY name##twin parameters {    \
    finish(per_thread(nullptr));          \
    __VA_ARGS__                           \
  }

BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr target, const void* source, std::size_t size),
     { return move(device(target), host(source), size, "cuMemcpyHtoD"); })
BOTH(cuMemcpyDtoH_v2, _ptds, (void* target, CUdeviceptr source, std::size_t size),
     { return move(host(target), device(source), size, "cuMemcpyDtoH"); })
BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr target, CUdeviceptr source, std::size_t size),
     { return move(device(target), device(source), size, "cuMemcpyDtoD"); })
BOTH(cuMemcpy, _ptds, (CUdeviceptr target, CUdeviceptr source, std::size_t size),
     { return move(any(target), any(source), size, "cuMemcpy"); })
BOTH(cuMemcpyPeer, _ptds, (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, std::size_t size),
     { return move(device(target), device(source), size, "cuMemcpyPeer"); })
BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy), { return move_plane(copy, "cuMemcpy2D"); })
BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy), { return move_plane(copy, "cuMemcpy2DUnaligned"); })
BOTH(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy), { return move_body(copy, "cuMemcpy3D"); })
BOTH(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* copy), { return move_body(copy, "cuMemcpy3DPeer"); })

BOTH(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr target, CUarray array, std::size_t offset, std::size_t size), {
  std::uint64_t source = 0;
  return in_array(array, offset, size, source) ? move(device(target), any(source), size, "cuMemcpyAtoD")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyDtoA_v2, _ptds, (CUarray array, std::size_t offset, CUdeviceptr source, std::size_t size), {
  std::uint64_t target = 0;
  return in_array(array, offset, size, target) ? move(any(target), device(source), size, "cuMemcpyDtoA")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyHtoA_v2, _ptds, (CUarray array, std::size_t offset, const void* source, std::size_t size), {
  std::uint64_t target = 0;
  return in_array(array, offset, size, target) ? move(any(target), host(source), size, "cuMemcpyHtoA")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyAtoH_v2, _ptds, (void* target, CUarray array, std::size_t offset, std::size_t size), {
  std::uint64_t source = 0;
  return in_array(array, offset, size, source) ? move(host(target), any(source), size, "cuMemcpyAtoH")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyAtoA_v2, _ptds,
     (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t size), {
       std::uint64_t target = 0, source = 0;
       return in_array(to, to_offset, size, target) && in_array(from, from_offset, size, source)
                  ? move(any(target), any(source), size, "cuMemcpyAtoA")
                  : CUDA_ERROR_INVALID_VALUE;
     })

#define BOTH_ON_STREAM(name, parameters, ...)                                    \
  RATION_ENTRY name parameters __VA_ARGS__ RATION_ENTRY name##_ptsz parameters { \
    stream = per_thread(stream);                                                 \
    __VA_ARGS__                                                                  \
  }

BOTH_ON_STREAM(cuMemcpyHtoDAsync_v2, (CUdeviceptr target, const void* source, std::size_t size, CUstream stream),
               { return move_on(stream, device(target), host(source), size, "cuMemcpyHtoDAsync"); })
BOTH_ON_STREAM(cuMemcpyDtoHAsync_v2, (void* target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, host(target), device(source), size, "cuMemcpyDtoHAsync"); })
BOTH_ON_STREAM(cuMemcpyDtoDAsync_v2, (CUdeviceptr target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, device(target), device(source), size, "cuMemcpyDtoDAsync"); })
BOTH_ON_STREAM(cuMemcpyAsync, (CUdeviceptr target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, any(target), any(source), size, "cuMemcpyAsync"); })
BOTH_ON_STREAM(cuMemcpyPeerAsync,
               (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, std::size_t size, CUstream stream),
               { return move_on(stream, device(target), device(source), size, "cuMemcpyPeerAsync"); })
BOTH_ON_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_plane(copy, "cuMemcpy2DAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_body(copy, "cuMemcpy3DAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_body(copy, "cuMemcpy3DPeerAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpyHtoAAsync_v2,
               (CUarray array, std::size_t offset, const void* source, std::size_t size, CUstream stream), {
                 std::uint64_t target = 0;
                 return in_array(array, offset, size, target)
                            ? move_on(stream, any(target), host(source), size, "cuMemcpyHtoAAsync")
                            : CUDA_ERROR_INVALID_VALUE;
               })
BOTH_ON_STREAM(cuMemcpyAtoHAsync_v2,
               (void* target, CUarray array, std::size_t offset, std::size_t size, CUstream stream), {
                 std::uint64_t source = 0;
                 return in_array(array, offset, size, source)
                            ? move_on(stream, host(target), any(source), size, "cuMemcpyAtoHAsync")
                            : CUDA_ERROR_INVALID_VALUE;
               })

#define FILLS(bits, type)                                                                                          \
  BOTH(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr target, type value, std::size_t count),                           \
       { return fill(target, 0, value, count, 1, "cuMemsetD" #bits); })                                            \
  BOTH(cuMemsetD2D##bits##_v2, _ptds,                                                                              \
       (CUdeviceptr target, std::size_t pitch, type value, std::size_t width, std::size_t height),                 \
       { return fill(target, pitch, value, width, height, "cuMemsetD2D" #bits); })                                 \
  BOTH_ON_STREAM(cuMemsetD##bits##Async, (CUdeviceptr target, type value, std::size_t count, CUstream stream),     \
                 { return fill_on(stream, target, 0, value, count, 1, "cuMemsetD" #bits "Async"); })               \
  BOTH_ON_STREAM(                                                                                                  \
      cuMemsetD2D##bits##Async,                                                                                    \
      (CUdeviceptr target, std::size_t pitch, type value, std::size_t width, std::size_t height, CUstream stream), \
      { return fill_on(stream, target, pitch, value, width, height, "cuMemsetD2D" #bits "Async"); })
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
