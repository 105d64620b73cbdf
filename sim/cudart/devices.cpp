// Devices, versions, limits and peers, and the look-up of the driver's own functions.
#include <cstring>

#include "runtime.hpp"

using namespace ration::cudart;
using namespace ration::cuda;

namespace {

using AttributeOf = CUresult(int*, int, CUdevice);
using cuCtxResetPersistingL2Cache_t = CUresult();

int attribute(int number, CUdevice device) {
  int value = 0;
  DRIVER(cuDeviceGetAttribute, AttributeOf)(&value, number, device);
  return value;
}

Error properties(cudaDeviceProp* out, int ordinal) {
  if (const Error error = start(); error != cudaSuccess) return error;
  if (out == nullptr) return cudaErrorInvalidValue;
  CUdevice device = 0;
  if (DRIVER(cuDeviceGet, cuDeviceGet_t)(&device, ordinal) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
  *out = {};
  DRIVER(cuDeviceGetName, cuDeviceGetName_t)(out->name, sizeof out->name, device);
  DRIVER(cuDeviceGetUuid, cuDeviceGetUuid_t)(&out->uuid, device);
  DRIVER(cuDeviceTotalMem_v2, cuDeviceTotalMem_v2_t)(&out->totalGlobalMem, device);
  const auto of = [&](int number) { return attribute(number, device); };
  const auto size_of = [&](int number) { return static_cast<std::size_t>(of(number)); };
  // The numbers are values of CUdevice_attribute.
  out->maxThreadsPerBlock = of(1);
  for (int axis = 0; axis < 3; ++axis) {
    out->maxThreadsDim[axis] = of(2 + axis);
    out->maxGridSize[axis] = of(5 + axis);
  }
  out->sharedMemPerBlock = size_of(8);
  out->totalConstMem = size_of(9);
  out->warpSize = of(10);
  out->memPitch = size_of(11);
  out->regsPerBlock = of(12);
  out->textureAlignment = size_of(14);
  out->multiProcessorCount = of(16);
  out->integrated = of(18);
  out->canMapHostMemory = of(19);
  out->maxTexture1D = of(21);
  out->maxTexture2D[0] = of(22);
  out->maxTexture2D[1] = of(23);
  for (int axis = 0; axis < 3; ++axis) out->maxTexture3D[axis] = of(24 + axis);
  out->surfaceAlignment = size_of(30);
  out->concurrentKernels = of(31);
  out->ECCEnabled = of(32);
  out->pciBusID = of(33);
  out->pciDeviceID = of(34);
  out->memoryBusWidth = of(37);
  out->l2CacheSize = of(38);
  out->maxThreadsPerMultiProcessor = of(39);
  out->asyncEngineCount = of(40);
  out->unifiedAddressing = of(41);
  out->pciDomainID = of(50);
  out->texturePitchAlignment = size_of(51);
  out->major = of(75);
  out->minor = of(76);
  out->streamPrioritiesSupported = of(78);
  out->globalL1CacheSupported = of(79);
  out->localL1CacheSupported = of(80);
  out->sharedMemPerMultiprocessor = size_of(81);
  out->regsPerMultiprocessor = of(82);
  out->managedMemory = of(83);
  out->pageableMemoryAccess = of(88);
  out->concurrentManagedAccess = of(89);
  out->computePreemptionSupported = of(90);
  out->canUseHostPointerForRegisteredMem = of(91);
  out->cooperativeLaunch = of(95);
  out->sharedMemPerBlockOptin = size_of(97);
  out->hostRegisterSupported = of(99);
  out->maxBlocksPerMultiProcessor = of(106);
  out->reservedSharedMemPerBlock = size_of(111);
  out->memoryPoolsSupported = of(115);
  out->memoryPoolSupportedHandleTypes = static_cast<unsigned int>(of(119));
  out->clusterLaunch = of(120);
  out->ipcEventSupported = of(125);
  out->unifiedFunctionPointers = of(129);
#if RATION_CUDART == 12
  out->clockRate = of(13);
  out->deviceOverlap = of(15);
  out->memoryClockRate = of(36);
#endif
  return cudaSuccess;
}

}  // namespace

CUDART(cudaDriverGetVersion)(int* out) {
  // The version is 0 without a driver, as in NVIDIA's runtime.
  auto* get = DRIVER(cuDriverGetVersion, cuDriverGetVersion_t);
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  *out = 0;
  return get == nullptr ? cudaSuccess : remember(static_cast<Error>(get(out)));
}
CUDART(cudaRuntimeGetVersion)(int* out) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  *out = RATION_CUDART == 12 ? 12090 : 13000;
  return cudaSuccess;
}
CUDART(cudaGetDeviceCount)(int* out) {
  if (out != nullptr) *out = 0;
  return ask(DRIVER(cuDeviceGetCount, cuDeviceGetCount_t), out);
}
CUDART(cudaGetDevice)(int* out) {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  *out = device();
  return cudaSuccess;
}
CUDART(cudaSetDevice)(int ordinal) { return remember(set_device(ordinal)); }
CUDART(cudaInitDevice)(int ordinal, unsigned int, unsigned int) {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  return primary(ordinal) != nullptr ? cudaSuccess : remember(cudaErrorInvalidDevice);
}
CUDART(cudaSetValidDevices)(int*, int) { return cudaSuccess; }
CUDART(cudaChooseDevice)(int* out, const cudaDeviceProp*) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  *out = 0;
  return remember(start());
}
#if RATION_CUDART == 12
CUDART(cudaGetDeviceProperties_v2)(cudaDeviceProp* out, int ordinal) { return remember(properties(out, ordinal)); }
/// Writes the properties for programs of CUDA 11, whose struct has the same beginning but ends earlier.
CUDART(cudaGetDeviceProperties)(void* out, int ordinal) {
  constexpr std::size_t kFormerSize = 712;
  cudaDeviceProp now;
  if (const Error error = properties(&now, ordinal); error != cudaSuccess) return remember(error);
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  std::memcpy(out, &now, kFormerSize);
  return cudaSuccess;
}
#else
CUDART(cudaGetDeviceProperties)(cudaDeviceProp* out, int ordinal) { return remember(properties(out, ordinal)); }
#endif
CUDART(cudaDeviceGetAttribute)(int* out, int number, int ordinal) {
  return ask(DRIVER(cuDeviceGetAttribute, AttributeOf), out, number, ordinal);
}
CUDART(cudaDeviceGetPCIBusId)(char* out, int size, int ordinal) {
  return ask(DRIVER(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId_t), out, size, ordinal);
}
CUDART(cudaDeviceGetByPCIBusId)(int* out, const char* text) {
  return ask(DRIVER(cuDeviceGetByPCIBusId, CUresult(CUdevice*, const char*)), out, text);
}
CUDART(cudaDeviceGetP2PAttribute)(int* out, int number, int from, int to) {
  return ask(DRIVER(cuDeviceGetP2PAttribute, CUresult(int*, int, CUdevice, CUdevice)), out, number, from, to);
}
CUDART(cudaDeviceCanAccessPeer)(int* out, int from, int to) {
  return ask(DRIVER(cuDeviceCanAccessPeer, CUresult(int*, CUdevice, CUdevice)), out, from, to);
}
CUDART(cudaDeviceEnablePeerAccess)(int peer, unsigned int flags) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return call(DRIVER(cuCtxEnablePeerAccess, CUresult(CUcontext, unsigned int)), primary(peer), flags);
}
CUDART(cudaDeviceDisablePeerAccess)(int peer) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return call(DRIVER(cuCtxDisablePeerAccess, CUresult(CUcontext)), primary(peer));
}
CUDART(cudaDeviceSynchronize)() {
  const ReportedCall reported(__func__);
  return call(DRIVER(cuCtxSynchronize, cuCtxSynchronize_t));
}
CUDART(cudaDeviceReset)() {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  const int ordinal = device();
  const bool retained = forget_primary(ordinal);
  const Error error = ask(DRIVER(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2_t), ordinal);
  if (retained) DRIVER(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2_t)(ordinal);
  return error;
}
CUDART(cudaSetDeviceFlags)(unsigned int flags) {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  return ask(DRIVER(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags_v2_t), device(), flags);
}
CUDART(cudaGetDeviceFlags)(unsigned int* out) { return call(DRIVER(cuCtxGetFlags, CUresult(unsigned int*)), out); }
CUDART(cudaDeviceSetLimit)(int limit, std::size_t value) {
  return call(DRIVER(cuCtxSetLimit, CUresult(int, std::size_t)), limit, value);
}
CUDART(cudaDeviceGetLimit)(std::size_t* out, int limit) {
  return call(DRIVER(cuCtxGetLimit, CUresult(std::size_t*, int)), out, limit);
}
CUDART(cudaDeviceGetCacheConfig)(int* out) { return call(DRIVER(cuCtxGetCacheConfig, CUresult(int*)), out); }
CUDART(cudaDeviceSetCacheConfig)(int config) { return call(DRIVER(cuCtxSetCacheConfig, CUresult(int)), config); }
CUDART(cudaCtxResetPersistingL2Cache)() {
  return call(DRIVER(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache_t));
}
CUDART(cudaDeviceGetStreamPriorityRange)(int* least, int* greatest) {
  return call(DRIVER(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange_t), least, greatest);
}
CUDART(cudaDeviceGetDefaultMemPool)(CUmemoryPool* out, int ordinal) {
  return ask(DRIVER(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool_t), out, ordinal);
}
CUDART(cudaDeviceGetMemPool)(CUmemoryPool* out, int ordinal) {
  return ask(DRIVER(cuDeviceGetMemPool, cuDeviceGetMemPool_t), out, ordinal);
}
CUDART(cudaDeviceSetMemPool)(int ordinal, CUmemoryPool pool) {
  return ask(DRIVER(cuDeviceSetMemPool, cuDeviceSetMemPool_t), ordinal, pool);
}
CUDART(cudaDeviceGetGraphMemAttribute)(int ordinal, CUgraphMem_attribute number, void* out) {
  return ask(DRIVER(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute_t), ordinal, number, out);
}
CUDART(cudaDeviceSetGraphMemAttribute)(int ordinal, CUgraphMem_attribute number, void* value) {
  return ask(DRIVER(cuDeviceSetGraphMemAttribute, CUresult(CUdevice, CUgraphMem_attribute, void*)), ordinal, number,
             value);
}
CUDART(cudaDeviceGraphMemTrim)(int ordinal) {
  return ask(DRIVER(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim_t), ordinal);
}
CUDART(cudaProfilerStart)() { return cudaSuccess; }
CUDART(cudaProfilerStop)() { return cudaSuccess; }

namespace {

Error entry_point(const char* symbol, void** out, int version, unsigned long long flags, int* status) {
  auto* get = DRIVER(cuGetProcAddress_v2, CUresult(const char*, void**, int, cuuint64_t, int*));
  int found = 0;
  const Error error = ask(get, symbol, out, version, static_cast<cuuint64_t>(flags), &found);
  if (status == nullptr) return error;
  *status = found;  // tells the caller if no function has that name
  return error == CUDA_ERROR_NOT_FOUND ? cudaSuccess : error;
}

}  // namespace

CUDART(cudaGetDriverEntryPoint)(const char* symbol, void** out, unsigned long long flags, int* status) {
  return entry_point(symbol, out, RATION_CUDART == 12 ? 12090 : 13000, flags, status);
}
CUDART(cudaGetDriverEntryPointByVersion)
(const char* symbol, void** out, unsigned int version, unsigned long long flags, int* status) {
  return entry_point(symbol, out, static_cast<int>(version), flags, status);
}
