// The driver's attributes of pointers.
#include <cstring>

#include "driver.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "host_memory.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

constexpr CUdevice kNoDevice = -2;  // CU_DEVICE_INVALID

template <typename Value>
CUresult put(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult of_device(void* out, CUpointer_attribute attribute, CUdeviceptr address, const Allocation& found) {
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, found.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(out, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return found.managed ? put(out, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(out, static_cast<unsigned long long>(found.start));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(out, static_cast<unsigned int>(found.managed));  // 32 bits, as in the driver
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, static_cast<int>(ordinal_of(found.device)));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(out, static_cast<unsigned int>(found.plain));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, found.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(out, static_cast<std::size_t>(found.size));
    // The mapping of a pointer is the whole allocation; an imported block is one allocation.
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(out, found.start);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(out, static_cast<std::size_t>(found.size));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(out, 1U);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(out, 0U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(out, 0ULL);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, found.pool);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult of_host(void* out, CUpointer_attribute attribute, CUdeviceptr address, const HostBlock& found) {
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, found.context);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, found.context != nullptr ? ordinal_of(found.context->device) : kNoDevice);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(out, static_cast<unsigned int>(CU_MEMORYTYPE_HOST));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return put(out, address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(out, 0U);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, found.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(out, static_cast<std::size_t>(found.size));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(out, 1U);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(out, static_cast<unsigned long long>(found.start));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(out, 0U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(out, 0ULL);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, found.pool);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult attribute_of(void* out, CUpointer_attribute attribute, CUdeviceptr address,
                      const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation device;
  HostBlock host;
  if (find_allocation(address, device)) return of_device(out, attribute, address, device);
  return find_host_block(address, host) ? of_host(out, attribute, address, host) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  return attribute_of(out, attribute, address);
}
RATION_ENTRY cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out,
                                    CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) {
    // This call answers with empty values, and no error, for a pointer that the driver does not know.
    if (attribute_of(out[i], attributes[i], address) != CUDA_SUCCESS && out[i] != nullptr)
      std::memset(out[i], 0, sizeof(unsigned int));
  }
  return CUDA_SUCCESS;
}
RATION_ENTRY cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Allocation found;
  return value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && find_allocation(address, found)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
RATION_ENTRY cuMemGetAddressRange_v2(CUdeviceptr* start, std::size_t* size, CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Allocation found;
  if (!find_allocation(address, found)) return CUDA_ERROR_NOT_FOUND;
  if (start != nullptr) *start = found.start;
  if (size != nullptr) *size = found.size;
  return CUDA_SUCCESS;
}
