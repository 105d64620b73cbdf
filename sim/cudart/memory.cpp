// Device and host memory: allocating and freeing it, pools, sharing, copies and fills.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "driver/cuda_copy_abi.hpp"
#include "runtime.hpp"

using namespace ration::cudart;
using namespace ration::cuda;

// ----------------------------------------------------------------------------------------------- taking, giving back

CUDART(cudaMalloc)(void** out, std::size_t size) {
  const ReportedCall reported(__func__);
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  *out = nullptr;
  if (size == 0) return remember(enter());  // succeeds without memory, as in NVIDIA's runtime
  return call(DRIVER(cuMemAlloc_v2, CUresult(void**, std::size_t)), out, size);
}
CUDART(cudaMallocManaged)(void** out, std::size_t size, unsigned int flags) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemAllocManaged, CUresult(void**, std::size_t, unsigned int)), out, size, flags);
}
CUDART(cudaMallocPitch)(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemAllocPitch_v2, CUresult(void**, std::size_t*, std::size_t, std::size_t, unsigned int)), out,
              pitch, width, height, 4U);
}
CUDART(cudaMalloc3D)(cudaPitchedPtr* out, cudaExtent extent) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  const Error error = cudaMallocPitch(&out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
  out->xsize = extent.width;
  out->ysize = extent.height;
  return error;
}
CUDART(cudaFree)(void* address) {
  const ReportedCall reported(__func__);
  if (address == nullptr) return remember(enter());
  return call(DRIVER(cuMemFree_v2, cuMemFree_v2_t), number(address));
}
CUDART(cudaMallocAsync)(void** out, std::size_t size, Handle stream) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemAllocAsync, CUresult(void**, std::size_t, Handle)), out, size, stream);
}
CUDART(cudaMallocFromPoolAsync)(void** out, std::size_t size, CUmemoryPool pool, Handle stream) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemAllocFromPoolAsync, CUresult(void**, std::size_t, CUmemoryPool, Handle)), out, size, pool,
              stream);
}
CUDART(cudaFreeAsync)(void* address, Handle stream) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemFreeAsync, CUresult(CUdeviceptr, Handle)), number(address), stream);
}
CUDART(cudaMemGetInfo)(std::size_t* available, std::size_t* total) {
  return call(DRIVER(cuMemGetInfo_v2, cuMemGetInfo_v2_t), available, total);
}

// ------------------------------------------------------------------------------------------------------------- arrays

namespace {

/// The formats of a channel, as the driver numbers them and as the runtime describes them.
constexpr struct ChannelFormat {
  CUarray_format format;
  int bits;
  int kind;  // cudaChannelFormatKind: 0 signed, 1 unsigned, 2 float
} kChannelFormats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, 8, 1}, {CU_AD_FORMAT_UNSIGNED_INT16, 16, 1}, {CU_AD_FORMAT_UNSIGNED_INT32, 32, 1},
    {CU_AD_FORMAT_SIGNED_INT8, 8, 0},   {CU_AD_FORMAT_SIGNED_INT16, 16, 0},   {CU_AD_FORMAT_SIGNED_INT32, 32, 0},
    {CU_AD_FORMAT_HALF, 16, 2},         {CU_AD_FORMAT_FLOAT, 32, 2},
};

bool describe(const cudaChannelFormatDesc* channels, cudaExtent extent, CUDA_ARRAY3D_DESCRIPTOR& out) {
  if (channels == nullptr) return false;
  const auto* found = std::ranges::find_if(
      kChannelFormats, [&](const ChannelFormat& each) { return each.bits == channels->x && each.kind == channels->f; });
  if (found == std::end(kChannelFormats)) return false;
  out.Format = found->format;
  out.NumChannels = 1U + (channels->y > 0 ? 1U : 0U) + (channels->z > 0 ? 1U : 0U) + (channels->w > 0 ? 1U : 0U);
  if (out.NumChannels == 3) return false;
  out.Width = extent.width;
  out.Height = extent.height;
  out.Depth = extent.depth;
  return true;
}

}  // namespace

CUDART(cudaMalloc3DArray)
(CUarray* out, const cudaChannelFormatDesc* channels, cudaExtent extent, unsigned int flags) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  if (!describe(channels, extent, description)) return remember(cudaErrorInvalidValue);
  description.Flags = flags;
  return call(DRIVER(cuArray3DCreate_v2, cuArray3DCreate_v2_t), out, &description);
}
CUDART(cudaMallocArray)
(CUarray* out, const cudaChannelFormatDesc* channels, std::size_t width, std::size_t height, unsigned int flags) {
  return cudaMalloc3DArray(out, channels, {width, height, 0}, flags);
}
extern "C" [[gnu::visibility("default")]] cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                                      int kind) {
  return {x, y, z, w, kind};
}
CUDART(cudaArrayGetInfo)(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned int* flags, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  const Error error =
      call(DRIVER(cuArray3DGetDescriptor_v2, CUresult(CUDA_ARRAY3D_DESCRIPTOR*, CUarray)), &description, array);
  if (error != cudaSuccess) return error;
  if (channels != nullptr) {
    const auto* found = std::ranges::find(kChannelFormats, description.Format, &ChannelFormat::format);
    if (found == std::end(kChannelFormats)) return remember(cudaErrorInvalidValue);
    const int bits = found->bits;
    const unsigned int count = description.NumChannels;
    *channels = {bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, found->kind};
  }
  if (extent != nullptr) *extent = {description.Width, description.Height, description.Depth};
  if (flags != nullptr) *flags = description.Flags;
  return cudaSuccess;
}
CUDART(cudaFreeArray)(CUarray array) {
  return array == nullptr ? cudaSuccess : call(DRIVER(cuArrayDestroy, cuArrayDestroy_t), array);
}
CUDART(cudaMallocMipmappedArray)
(CUmipmappedArray* out, const cudaChannelFormatDesc* channels, cudaExtent extent, unsigned int levels,
 unsigned int flags) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  if (!describe(channels, extent, description)) return remember(cudaErrorInvalidValue);
  description.Flags = flags;
  return call(DRIVER(cuMipmappedArrayCreate, cuMipmappedArrayCreate_t), out, &description, levels);
}
CUDART(cudaFreeMipmappedArray)(CUmipmappedArray array) {
  return array == nullptr ? cudaSuccess : call(DRIVER(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy_t), array);
}

// -------------------------------------------------------------------------------------------------------- host memory

CUDART(cudaHostAlloc)(void** out, std::size_t size, unsigned int flags) {
  const ReportedCall reported(__func__);
  if (size == 0 && out != nullptr) {
    *out = nullptr;
    return remember(enter());
  }
  return call(DRIVER(cuMemHostAlloc, cuMemHostAlloc_t), out, size, flags);
}
CUDART(cudaMallocHost)(void** out, std::size_t size) {
  const ReportedCall reported(__func__);
  return cudaHostAlloc(out, size, 0);
}
CUDART(cudaFreeHost)(void* address) {
  const ReportedCall reported(__func__);
  return address == nullptr ? remember(enter()) : call(DRIVER(cuMemFreeHost, cuMemFreeHost_t), address);
}
CUDART(cudaHostRegister)(void* address, std::size_t size, unsigned int flags) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemHostRegister_v2, CUresult(void*, std::size_t, unsigned int)), address, size, flags);
}
CUDART(cudaHostUnregister)(void* address) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemHostUnregister, CUresult(void*)), address);
}
CUDART(cudaHostGetDevicePointer)(void** out, void* address, unsigned int flags) {
  return call(DRIVER(cuMemHostGetDevicePointer_v2, CUresult(void**, void*, unsigned int)), out, address, flags);
}
CUDART(cudaHostGetFlags)(unsigned int* out, void* address) {
  return call(DRIVER(cuMemHostGetFlags, CUresult(unsigned int*, void*)), out, address);
}

// --------------------------------------------------------------------------------------------- pools, sharing, advice

CUDART(cudaMemPoolCreate)(CUmemoryPool* out, const CUmemPoolProps* properties) {
  return ask(DRIVER(cuMemPoolCreate, cuMemPoolCreate_t), out, properties);
}
CUDART(cudaMemPoolDestroy)(CUmemoryPool pool) { return ask(DRIVER(cuMemPoolDestroy, cuMemPoolDestroy_t), pool); }
CUDART(cudaMemPoolTrimTo)(CUmemoryPool pool, std::size_t keep) {
  return ask(DRIVER(cuMemPoolTrimTo, cuMemPoolTrimTo_t), pool, keep);
}
CUDART(cudaMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return ask(DRIVER(cuMemPoolSetAttribute, cuMemPoolSetAttribute_t), pool, attribute, value);
}
CUDART(cudaMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return ask(DRIVER(cuMemPoolGetAttribute, cuMemPoolGetAttribute_t), pool, attribute, value);
}
CUDART(cudaMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc* accesses, std::size_t count) {
  return ask(DRIVER(cuMemPoolSetAccess, CUresult(CUmemoryPool, const CUmemAccessDesc*, std::size_t)), pool, accesses,
             count);
}
CUDART(cudaMemPoolGetAccess)(int* out, CUmemoryPool pool, CUmemLocation* location) {
  return ask(DRIVER(cuMemPoolGetAccess, CUresult(int*, CUmemoryPool, CUmemLocation*)), out, pool, location);
}
CUDART(cudaMemPoolExportToShareableHandle)(void* out, CUmemoryPool pool, int type, unsigned int flags) {
  return ask(DRIVER(cuMemPoolExportToShareableHandle, CUresult(void*, CUmemoryPool, int, unsigned long long)), out,
             pool, type, static_cast<unsigned long long>(flags));
}
CUDART(cudaMemPoolImportFromShareableHandle)(CUmemoryPool* out, void* handle, int type, unsigned int flags) {
  return ask(DRIVER(cuMemPoolImportFromShareableHandle, CUresult(CUmemoryPool*, void*, int, unsigned long long)), out,
             handle, type, static_cast<unsigned long long>(flags));
}
CUDART(cudaMemPoolExportPointer)(void* out, void* address) {
  return ask(DRIVER(cuMemPoolExportPointer, CUresult(void*, CUdeviceptr)), out, number(address));
}
CUDART(cudaMemPoolImportPointer)(void** out, CUmemoryPool pool, void* data) {
  return ask(DRIVER(cuMemPoolImportPointer, CUresult(void**, CUmemoryPool, void*)), out, pool, data);
}
CUDART(cudaIpcGetMemHandle)(cudaIpcHandle* out, void* address) {
  return call(DRIVER(cuIpcGetMemHandle, CUresult(cudaIpcHandle*, CUdeviceptr)), out, number(address));
}
CUDART(cudaIpcOpenMemHandle)(void** out, cudaIpcHandle handle, unsigned int flags) {
  return call(DRIVER(cuIpcOpenMemHandle_v2, CUresult(void**, cudaIpcHandle, unsigned int)), out, handle, flags);
}
CUDART(cudaIpcCloseMemHandle)(void* address) {
  return call(DRIVER(cuIpcCloseMemHandle, cuIpcCloseMemHandle_t), number(address));
}
CUDART(cudaIpcGetEventHandle)(cudaIpcHandle* out, Handle event) {
  return call(DRIVER(cuIpcGetEventHandle, CUresult(cudaIpcHandle*, Handle)), out, event);
}
CUDART(cudaIpcOpenEventHandle)(Handle* out, cudaIpcHandle handle) {
  return call(DRIVER(cuIpcOpenEventHandle, CUresult(Handle*, cudaIpcHandle)), out, handle);
}
CUDART(cudaPointerGetAttributes)(cudaPointerAttributes* out, const void* address) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  *out = {};
  out->type = cudaMemoryTypeUnregistered;
  out->device = -2;
  out->hostPointer = const_cast<void*>(address);
  auto* ask_driver = DRIVER(cuPointerGetAttribute, CUresult(void*, int, CUdeviceptr));
  constexpr int kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kIsManaged = 8, kOrdinal = 9;
  unsigned int type = 0;
  if (ask_driver(&type, kMemoryType, number(address)) != CUDA_SUCCESS) return cudaSuccess;
  unsigned int managed = 0;
  ask_driver(&managed, kIsManaged, number(address));
  ask_driver(&out->device, kOrdinal, number(address));
  out->hostPointer = nullptr;
  ask_driver(&out->devicePointer, kDevicePointer, number(address));
  out->type = managed != 0 ? cudaMemoryTypeManaged : static_cast<cudaMemoryType>(type);
  if (out->type != cudaMemoryTypeDevice) ask_driver(&out->hostPointer, kHostPointer, number(address));
  return cudaSuccess;
}
#if RATION_CUDART == 12
CUDART(cudaMemAdvise)(const void* address, std::size_t size, int advice, int ordinal) {
  return call(DRIVER(cuMemAdvise, CUresult(CUdeviceptr, std::size_t, int, int)), number(address), size, advice,
              ordinal);
}
CUDART(cudaMemPrefetchAsync)(const void* address, std::size_t size, int ordinal, Handle stream) {
  return call(DRIVER(cuMemPrefetchAsync, CUresult(CUdeviceptr, std::size_t, int, Handle)), number(address), size,
              ordinal, stream);
}
#define LOCATED(name) name##_v2
#else
#define LOCATED(name) name
#endif
CUDART(LOCATED(cudaMemAdvise))(const void* address, std::size_t size, int advice, CUmemLocation location) {
  return call(DRIVER(cuMemAdvise_v2, CUresult(CUdeviceptr, std::size_t, int, CUmemLocation)), number(address), size,
              advice, location);
}
CUDART(LOCATED(cudaMemPrefetchAsync))
(const void* address, std::size_t size, CUmemLocation location, unsigned int flags, Handle stream) {
  return call(DRIVER(cuMemPrefetchAsync_v2, CUresult(CUdeviceptr, std::size_t, CUmemLocation, unsigned int, Handle)),
              number(address), size, location, flags, stream);
}

// ------------------------------------------------------------------------------------------------- copies and fills

namespace {

bool is_kind(int kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

CUDA_MEMCPY2D plane(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                    std::size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = number(from);
  copy.srcPitch = from_pitch;
  copy.dstDevice = number(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUDA_MEMCPY3D body(const cudaMemcpy3DParms& given) {
  CUDA_MEMCPY3D copy{};
  std::size_t element = 1;  // a width counts elements if an array takes part
  for (CUarray array : {given.srcArray, given.dstArray}) {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    if (array == nullptr || DRIVER(cuArray3DGetDescriptor_v2, CUresult(CUDA_ARRAY3D_DESCRIPTOR*, CUarray))(
                                &description, array) != CUDA_SUCCESS)
      continue;
    const bool wide = description.Format == CU_AD_FORMAT_FLOAT || description.Format == CU_AD_FORMAT_UNSIGNED_INT32 ||
                      description.Format == CU_AD_FORMAT_SIGNED_INT32;
    const bool byte =
        description.Format == CU_AD_FORMAT_UNSIGNED_INT8 || description.Format == CU_AD_FORMAT_SIGNED_INT8;
    element = description.NumChannels * (wide ? 4U : byte ? 1U : 2U);
  }
  copy.srcXInBytes = given.srcPos.x * (given.srcArray != nullptr ? element : 1);
  copy.srcY = given.srcPos.y;
  copy.srcZ = given.srcPos.z;
  copy.srcMemoryType = given.srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  copy.srcArray = given.srcArray;
  copy.srcDevice = number(given.srcPtr.ptr);
  copy.srcPitch = given.srcPtr.pitch;
  copy.srcHeight = given.srcPtr.ysize;
  copy.dstXInBytes = given.dstPos.x * (given.dstArray != nullptr ? element : 1);
  copy.dstY = given.dstPos.y;
  copy.dstZ = given.dstPos.z;
  copy.dstMemoryType = given.dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  copy.dstArray = given.dstArray;
  copy.dstDevice = number(given.dstPtr.ptr);
  copy.dstPitch = given.dstPtr.pitch;
  copy.dstHeight = given.dstPtr.ysize;
  copy.WidthInBytes = given.extent.width * element;
  copy.Height = given.extent.height;
  copy.Depth = given.extent.depth;
  return copy;
}

}  // namespace

CUDART(cudaMemcpy)(void* to, const void* from, std::size_t size, int kind) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  if (size == 0) return remember(enter());
  return call(DRIVER(cuMemcpy, cuMemcpy_t), number(to), number(from), size);
}
CUDART(cudaMemcpyAsync)(void* to, const void* from, std::size_t size, int kind, Handle stream) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  if (size == 0) return remember(enter());
  return call(DRIVER(cuMemcpyAsync, CUresult(CUdeviceptr, CUdeviceptr, std::size_t, Handle)), number(to), number(from),
              size, stream);
}
CUDART(cudaMemcpyPeer)(void* to, int to_device, const void* from, int from_device, std::size_t size) {
  const ReportedCall reported(__func__);
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return call(DRIVER(cuMemcpyPeer, CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t)), number(to),
              primary(to_device), number(from), primary(from_device), size);
}
CUDART(cudaMemcpyPeerAsync)
(void* to, int to_device, const void* from, int from_device, std::size_t size, Handle stream) {
  const ReportedCall reported(__func__);
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return call(DRIVER(cuMemcpyPeerAsync, CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, Handle)),
              number(to), primary(to_device), number(from), primary(from_device), size, stream);
}
CUDART(cudaMemcpy2D)
(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
 int kind) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  const CUDA_MEMCPY2D copy = plane(to, to_pitch, from, from_pitch, width, height);
  return call(DRIVER(cuMemcpy2D_v2, CUresult(const CUDA_MEMCPY2D*)), &copy);
}
CUDART(cudaMemcpy2DAsync)
(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
 int kind, Handle stream) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  const CUDA_MEMCPY2D copy = plane(to, to_pitch, from, from_pitch, width, height);
  return call(DRIVER(cuMemcpy2DAsync_v2, CUresult(const CUDA_MEMCPY2D*, Handle)), &copy, stream);
}
CUDART(cudaMemcpy3D)(const cudaMemcpy3DParms* given) {
  const ReportedCall reported(__func__);
  if (given == nullptr) return remember(cudaErrorInvalidValue);
  const CUDA_MEMCPY3D copy = body(*given);
  return call(DRIVER(cuMemcpy3D_v2, CUresult(const CUDA_MEMCPY3D*)), &copy);
}
CUDART(cudaMemcpy3DAsync)(const cudaMemcpy3DParms* given, Handle stream) {
  const ReportedCall reported(__func__);
  if (given == nullptr) return remember(cudaErrorInvalidValue);
  const CUDA_MEMCPY3D copy = body(*given);
  return call(DRIVER(cuMemcpy3DAsync_v2, CUresult(const CUDA_MEMCPY3D*, Handle)), &copy, stream);
}
CUDART(cudaMemset)(void* to, int value, std::size_t size) {
  const ReportedCall reported(__func__);
  if (size == 0) return remember(enter());
  return call(DRIVER(cuMemsetD8_v2, cuMemsetD8_v2_t), number(to), static_cast<unsigned char>(value), size);
}
CUDART(cudaMemsetAsync)(void* to, int value, std::size_t size, Handle stream) {
  const ReportedCall reported(__func__);
  if (size == 0) return remember(enter());
  return call(DRIVER(cuMemsetD8Async, CUresult(CUdeviceptr, unsigned char, std::size_t, Handle)), number(to),
              static_cast<unsigned char>(value), size, stream);
}
CUDART(cudaMemset2D)(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuMemsetD2D8_v2, CUresult(CUdeviceptr, std::size_t, unsigned char, std::size_t, std::size_t)),
              number(to), pitch, static_cast<unsigned char>(value), width, height);
}
CUDART(cudaMemset2DAsync)
(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, Handle stream) {
  const ReportedCall reported(__func__);
  return call(
      DRIVER(cuMemsetD2D8Async, CUresult(CUdeviceptr, std::size_t, unsigned char, std::size_t, std::size_t, Handle)),
      number(to), pitch, static_cast<unsigned char>(value), width, height, stream);
}

CUDART(cudaMemset3DAsync)(cudaPitchedPtr to, int value, cudaExtent extent, Handle stream) {
  const ReportedCall reported(__func__);
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return remember(enter());
  // Each slice begins `ysize` rows after the one before.
  for (std::size_t slice = 0; slice < extent.depth; ++slice) {
    const Error error = cudaMemset2DAsync(static_cast<char*>(to.ptr) + slice * to.pitch * to.ysize, to.pitch, value,
                                          extent.width, extent.height, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
CUDART(cudaMemset3D)(cudaPitchedPtr to, int value, cudaExtent extent) {
  const ReportedCall reported(__func__);
  return cudaMemset3DAsync(to, value, extent, nullptr);
}
CUDART(cudaMemcpy2DToArray)
(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height,
 int kind) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  CUDA_MEMCPY2D copy = plane(nullptr, 0, from, pitch, width, height);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to;
  copy.dstXInBytes = x;
  copy.dstY = y;
  return call(DRIVER(cuMemcpy2D_v2, CUresult(const CUDA_MEMCPY2D*)), &copy);
}
CUDART(cudaMemcpy2DFromArray)
(void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y, std::size_t width, std::size_t height,
 int kind) {
  const ReportedCall reported(__func__);
  if (!is_kind(kind)) return remember(cudaErrorInvalidMemcpyDirection);
  CUDA_MEMCPY2D copy = plane(to, pitch, nullptr, 0, width, height);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = from;
  copy.srcXInBytes = x;
  copy.srcY = y;
  return call(DRIVER(cuMemcpy2D_v2, CUresult(const CUDA_MEMCPY2D*)), &copy);
}

// ------------------------------------------------------------------------------------------------ variables of kernels

CUDART(cudaGetSymbolAddress)(void** out, const void* symbol) {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const Error error = find_variable(symbol, address, size);
  if (out != nullptr) *out = reinterpret_cast<void*>(address);
  return remember(error);
}
CUDART(cudaGetSymbolSize)(std::size_t* out, const void* symbol) {
  CUdeviceptr address = 0;
  return remember(out == nullptr ? cudaErrorInvalidValue : find_variable(symbol, address, *out));
}
CUDART(cudaMemcpyToSymbolAsync)
(const void* symbol, const void* from, std::size_t size, std::size_t offset, int kind, Handle stream) {
  const ReportedCall reported(__func__);
  CUdeviceptr address = 0;
  std::size_t all = 0;
  if (const Error error = find_variable(symbol, address, all); error != cudaSuccess) return remember(error);
  if (offset > all || size > all - offset) return remember(cudaErrorInvalidValue);
  return cudaMemcpyAsync(reinterpret_cast<void*>(address + offset), from, size, kind, stream);
}
CUDART(cudaMemcpyToSymbol)(const void* symbol, const void* from, std::size_t size, std::size_t offset, int kind) {
  const ReportedCall reported(__func__);
  return cudaMemcpyToSymbolAsync(symbol, from, size, offset, kind, nullptr);
}
CUDART(cudaMemcpyFromSymbolAsync)
(void* to, const void* symbol, std::size_t size, std::size_t offset, int kind, Handle stream) {
  const ReportedCall reported(__func__);
  CUdeviceptr address = 0;
  std::size_t all = 0;
  if (const Error error = find_variable(symbol, address, all); error != cudaSuccess) return remember(error);
  if (offset > all || size > all - offset) return remember(cudaErrorInvalidValue);
  return cudaMemcpyAsync(to, reinterpret_cast<void*>(address + offset), size, kind, stream);
}
CUDART(cudaMemcpyFromSymbol)(void* to, const void* symbol, std::size_t size, std::size_t offset, int kind) {
  const ReportedCall reported(__func__);
  return cudaMemcpyFromSymbolAsync(to, symbol, size, offset, kind, nullptr);
}
