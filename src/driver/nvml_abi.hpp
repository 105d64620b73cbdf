// The binary interface of NVIDIA's management library, as far as ration uses it, in declarations of our own. Used by
// the guard, the simulator and the command line. Only types are declared; names are the library's own.
#pragma once

namespace ration::nvml {

struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;
struct nvmlEventSet_st;
using nvmlEventSet_t = nvmlEventSet_st*;

enum nvmlReturn_t : int {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_OPERATING_SYSTEM = 17,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_UNKNOWN = 999,
};

inline constexpr unsigned int NVML_DEVICE_MIG_ENABLE = 1;

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlMemory_v2_t {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlUtilization_t {
  unsigned int gpu;     ///< percent of the sample period in which a kernel ran
  unsigned int memory;  ///< percent of the sample period in which memory was read or written
};

/// The use by one process in one sample period.
struct nvmlProcessUtilizationSample_t {
  unsigned int pid;
  unsigned long long timeStamp;  ///< microseconds since 1970
  unsigned int smUtil;           ///< percent of the period in which one of its kernels ran
  unsigned int memUtil, encUtil, decUtil;
};

struct nvmlPciInfo_t {
  char busIdLegacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pciDeviceId;
  unsigned int pciSubSystemId;
  char busId[32];
};

struct nvmlPciInfoExt_v1_t {
  unsigned int version;
  unsigned int domain, bus, device;
  unsigned int pciDeviceId, pciSubSystemId;
  unsigned int baseClass, subClass;
  char busId[32];
};

struct nvmlTemperature_v1_t {
  unsigned int version;
  int sensorType;
  int temperature;
};

/// Attributes of a MIG instance.
struct nvmlDeviceAttributes_t {
  unsigned int multiprocessorCount;
  unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
  unsigned int gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;
};

struct nvmlBAR1Memory_t {
  unsigned long long bar1Total, bar1Free, bar1Used;
};

struct nvmlFBCStats_t {
  unsigned int sessionsCount, averageFPS, averageLatency;
};

struct nvmlFieldValue_t {
  unsigned int fieldId, scopeId;
  long long timestamp;  ///< microseconds since 1970
  long long latencyUsec;
  unsigned int valueType;
  nvmlReturn_t nvmlReturn;  ///< NVML_SUCCESS if `value` is valid
  union {
    double dVal;
    unsigned int uiVal;
    unsigned long long ullVal;
  } value;
};

/// A process in the second and third version of the queries; in the first version a process has only the first two
/// fields.
struct nvmlProcessInfo_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

struct nvmlProcessInfo_v1_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;
};

/// The limits of a cgroup on one device, from release 615 on (CUDA 13.4). Without a limit the soft limit is 0 and the
/// hard limit kNoMemoryLimit.
struct nvmlSetMemoryLimits_v1_t {
  const char* nameSpace;  ///< full path of the cgroup's folder
  unsigned long long softLimit;
  unsigned long long hardLimit;
};

struct nvmlGetMemoryLimits_v1_t {
  const char* nameSpace;
  unsigned long long softLimit;
  unsigned long long hardLimit;
  unsigned long long currentUsed;
};

inline constexpr unsigned long long kNoMemoryLimit = ~0ULL;  ///< NVML_DEVICE_MEMORY_LIMIT_MAX

using nvmlDeviceSetMemoryLimits_v1_t = nvmlReturn_t(nvmlDevice_t, nvmlSetMemoryLimits_v1_t*);
using nvmlDeviceGetMemoryLimits_v1_t = nvmlReturn_t(nvmlDevice_t, nvmlGetMemoryLimits_v1_t*);

}  // namespace ration::nvml
