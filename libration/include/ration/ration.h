/* ration's C interface: device configuration, a pool that grows and shrinks, limits that may change at any time.
 *
 * Every function is thread-safe. A function that can fail returns a ration_status; ration_last_error() then has the
 * calling thread's text: what was wrong, how much, and what to do. Structs begin with their own size, set by the caller,
 * so that later versions can add members at their ends. Status codes keep their numbers for ever. Names of devices are
 * TensorFlow's: "/physical_device:GPU:0" of type "GPU", "/device:GPU:0". Sizes are bytes where nothing else is said.
 */
#ifndef RATION_RATION_H
#define RATION_RATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ration_status {
  RATION_OK = 0,
  RATION_VALUE_ERROR = 1,         /* a wrong value: Python's ValueError */
  RATION_RUNTIME_ERROR = 2,       /* too late, or in a child of fork: RuntimeError */
  RATION_INVALID_ARGUMENT = 3,    /* of session options */
  RATION_UNKNOWN = 4,             /* of session options */
  RATION_OUT_OF_MEMORY = 5,       /* denied; ration_last_refusal() has the numbers */
  RATION_BUFFER_TOO_SMALL = 6,    /* the count says how large it has to be */
  RATION_INTERNAL = 7
} ration_status;

/* Of the calling thread's last failure; "" before the first. Valid until its next failure. */
const char* ration_last_error(void);
/* The numbers of the calling thread's last RATION_OUT_OF_MEMORY. */
typedef struct ration_refusal {
  uint32_t size;
  uint32_t reserved;
  uint64_t requested, limit, held;
} ration_refusal;
ration_status ration_last_refusal(ration_refusal* out);

/* "0.1.0" */
const char* ration_version(void);

/* A line for each variable of the environment for TensorFlow, XLA and the pool whose value is none, or contradicts
 * another's; "" if there is none. Of the calling thread, valid until its next call. */
const char* ration_environment_problems(void);

typedef struct ration_runtime ration_runtime;
ration_status ration_runtime_create(ration_runtime** out);
/* What its devices hand out is gone with it. Not for ration_runtime_default(). */
void ration_runtime_destroy(ration_runtime* runtime);
/* The one that a process shares: never destroyed. Wherever a runtime is asked for below, NULL means this one. */
ration_runtime* ration_runtime_default(void);

typedef struct ration_device {
  uint32_t size;
  char name[64];
  char type[16];
} ration_device;

/* Up to `capacity` devices are written, `count` is how many there are. `type`: "GPU", "CPU" or NULL for all. */
ration_status ration_list_physical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                           size_t capacity, size_t* count);
ration_status ration_get_visible_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                         size_t capacity, size_t* count);
ration_status ration_set_visible_devices(ration_runtime* runtime, const ration_device* devices, size_t count,
                                         const char* type);
/* Initialises. */
ration_status ration_list_logical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                          size_t capacity, size_t* count);

ration_status ration_set_memory_growth(ration_runtime* runtime, const ration_device* device, int enable);
ration_status ration_get_memory_growth(ration_runtime* runtime, const ration_device* device, int* enabled);

#define RATION_HAS_MEMORY_LIMIT 1u
#define RATION_HAS_PRIORITY 2u
#define RATION_HAS_ORDINAL 4u
typedef struct ration_logical_configuration {
  uint32_t size;
  uint32_t has;              /* which of the following are given */
  double memory_limit_mib;
  int32_t priority;
  int32_t device_ordinal;
} ration_logical_configuration;
ration_status ration_set_logical_devices(ration_runtime* runtime, const ration_device* device,
                                         const ration_logical_configuration* entries, size_t count);
/* `is_set` 0: nothing was configured. */
ration_status ration_get_logical_devices(ration_runtime* runtime, const ration_device* device,
                                         ration_logical_configuration* out, size_t capacity, size_t* count,
                                         int* is_set);

typedef struct ration_device_details {
  uint32_t size;
  int32_t compute_capability_major, compute_capability_minor;
  char device_name[256];
  uint64_t memory_total, memory_used;
} ration_device_details;
ration_status ration_get_device_details(ration_runtime* runtime, const ration_device* device,
                                        ration_device_details* out);

/* Fixes the configuration and makes the logical devices; done by the functions that need it where it was not yet. */
ration_status ration_initialize(ration_runtime* runtime);
int ration_is_initialized(ration_runtime* runtime);

typedef struct ration_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t current, peak;      /* handed out */
  uint64_t held, peak_held;    /* taken from the device */
  uint64_t limit;
  uint64_t num_allocs;         /* a count */
  uint64_t largest_alloc_size, largest_free_block;
  double fragmentation;        /* 0 to 1 */
} ration_memory_info;
/* `device`: "GPU:0", "/gpu:0", "/device:GPU:0" or the full job name. Initialises. */
ration_status ration_get_memory_info(ration_runtime* runtime, const char* device, ration_memory_info* out);
ration_status ration_reset_memory_stats(ration_runtime* runtime, const char* device);

/* Puts this process, and the children that it starts from now on, under limits of its own, as `ration run` would. Call
 * it before anything loads the GPU's driver. Makes no call of the driver and no thread; does nothing in a process that is
 * governed already. RATION_RUNTIME_ERROR: too late. RATION_UNKNOWN: why there can be no limit here, such as no GPU. */
ration_status ration_activate(void);
/* Where it is too late: sets the variables with which this process is governed once it has started anew in its own place
 * (execve). */
ration_status ration_prepare_restart(void);
/* What the workload of this process has on a GPU, all its processes together. */
typedef struct ration_workload_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t used, peak, limit, total; /* total: what a limit of its own may be at most */
} ration_workload_info;
/* RATION_VALUE_ERROR: this process is not governed, or has no such GPU. */
ration_status ration_get_workload_info(int gpu, ration_workload_info* out);
/* Where this process is governed, limits bind everything in it and in its workload's other processes: frameworks,
 * libraries, ration's pool. Elsewhere they bind the pool alone. `gpu`: as the driver counts under CUDA_VISIBLE_DEVICES;
 * -1: each. `size`: "6GiB", "512MiB", "50%"; "max": as if none had been set. */
ration_status ration_limit(ration_runtime* runtime, int gpu, const char* size);
/* 0: none was set. */
ration_status ration_get_limit(ration_runtime* runtime, int gpu, uint64_t* bytes);
/* A part of this process with a limit of its own inside the workload's ("40%" is of the workload's limit at this moment):
 * two models in one program. `gpu` -1: on each. Lowered below what it holds: nothing more is granted until it is under.
 * RATION_VALUE_ERROR: this process is not governed, or the name is not 1 to 63 bytes. */
ration_status ration_limit_share(const char* share, int gpu, const char* size);
/* What the calling thread takes from now on is charged to that share, and what threads take that have entered none.
 * `former` is for ration_leave_share(), on the same thread. */
typedef struct ration_former_share {
  uint32_t own, common;
} ration_former_share;
ration_status ration_enter_share(const char* share, ration_former_share* former);
ration_status ration_leave_share(const ration_former_share* former);
/* `total`: the workload's limit. */
ration_status ration_get_share_info(const char* share, int gpu, ration_workload_info* out);
/* Legal at any time. Lowered below what is held: nothing more is taken until it is under, what is free goes at once. */
ration_status ration_set_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t bytes);
ration_status ration_set_memory_limit_fraction(ration_runtime* runtime, const ration_device* device, double share);
/* "6GiB", "512MiB", "50%" */
ration_status ration_set_memory_limit_text(ration_runtime* runtime, const ration_device* device, const char* text);
/* As if none had been set. */
ration_status ration_clear_memory_limit(ration_runtime* runtime, const ration_device* device);
/* 0: none was set. */
ration_status ration_get_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t* bytes);

/* Memory of logical device `gpu`. `stream`: a CUstream, NULL for the default one. `alignment`: a power of two up to
 * 2 MiB; 0 means 256. */
ration_status ration_allocate(ration_runtime* runtime, int gpu, size_t bytes, size_t alignment, void* stream,
                              void** out);
ration_status ration_deallocate(ration_runtime* runtime, int gpu, void* address, void* stream);
/* The block is used on `stream` as well: when it is given back, the stream that it is given back on waits for what `stream`
 * was given until then. */
ration_status ration_record_stream(ration_runtime* runtime, void* address, void* stream);
/* Gives what nobody uses back to the device. `bytes` (may be NULL): how much went. */
ration_status ration_trim(ration_runtime* runtime, int gpu, uint64_t* bytes);

/* Called when device memory is short: with the bytes that a request of this process was denied, on its thread, which
 * then tries once more; or with 0, on a thread of ration's, where another process of the workload was denied or waits,
 * or the limit fell below what is held. It may call every function here but ration_runtime_destroy(), and must return. */
typedef void (*ration_pressure_callback)(uint64_t wanted, void* user);
ration_status ration_on_pressure(ration_runtime* runtime, ration_pressure_callback callback, void* user,
                                 uint64_t* number);
/* Returns when no thread is inside it any more, except from inside a callback. */
ration_status ration_remove_pressure_callback(ration_runtime* runtime, uint64_t number);

/* What the calling thread takes from now on is attributed to `tag`; NULL or "" for no tag. Told by the JSON map, and by
 * the text of a denial. */
ration_status ration_set_tag(const char* tag);

typedef enum ration_map_format { RATION_MAP_JSON = 0, RATION_MAP_SVG = 1 } ration_map_format;
/* `needed`: bytes of the text with its closing zero. RATION_BUFFER_TOO_SMALL: nothing was written. */
ration_status ration_memory_map(ration_runtime* runtime, int gpu, ration_map_format format, char* buffer,
                                size_t capacity, size_t* needed);

/* For torch.cuda.memory.CUDAPluggableAllocator: memory of ration_runtime_default(), which begins small and grows unless
 * it was initialised before. Denied: PyTorch's own RuntimeError with our text is thrown where PyTorch is in the
 * process, else NULL. */
void* ration_torch_alloc(ptrdiff_t size, int device, void* stream);
void ration_torch_free(void* address, ptrdiff_t size, int device, void* stream);
void ration_torch_record_stream(void* address, void* stream);

#ifdef __cplusplus
}
#endif
#endif
