/* The C interface of ration: device configuration, a pool that grows and shrinks, and limits that may change at any
 * time.
 *
 * Every function is thread-safe. A function that can fail returns a ration_status. After a failure,
 * ration_last_error() returns a text for the calling thread: what was wrong, the amounts, and what to do. The caller
 * sets the first member of each struct to the struct's size, so that later versions can add members at the end. Status
 * codes keep their numbers for ever. Names of devices are TensorFlow's: "/physical_device:GPU:0" of type "GPU",
 * "/device:GPU:0". Sizes are bytes unless stated otherwise.
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
  RATION_VALUE_ERROR = 1,      /* an invalid value; Python's ValueError */
  RATION_RUNTIME_ERROR = 2,    /* called too late, or in the child of a fork; Python's RuntimeError */
  RATION_INVALID_ARGUMENT = 3, /* session options or environment variables are invalid */
  RATION_UNKNOWN = 4,          /* any other failure of session options or of ration_activate() */
  RATION_OUT_OF_MEMORY = 5,    /* memory was denied; ration_last_refusal() returns the numbers */
  RATION_BUFFER_TOO_SMALL = 6, /* `count` or `needed` has the size that is needed */
  RATION_INTERNAL = 7
} ration_status;

/* Returns the text of the calling thread's last failure, or "" if there was none. The text is valid until the next
 * failure. */
const char* ration_last_error(void);
/* The numbers of the calling thread's last RATION_OUT_OF_MEMORY. */
typedef struct ration_refusal {
  uint32_t size;
  uint32_t reserved;
  uint64_t requested, limit, held;
} ration_refusal;
ration_status ration_last_refusal(ration_refusal* out);

/* Returns the version: "1.0.0". */
const char* ration_version(void);

/* Checks the environment variables of TensorFlow, XLA and the pool. Returns one line for each variable whose value is
 * invalid or contradicts another variable, or "" if there is no such variable. The text belongs to the calling thread
 * and is valid until that thread calls this function again. */
const char* ration_environment_problems(void);

typedef struct ration_runtime ration_runtime;
ration_status ration_runtime_create(ration_runtime** out);
/* Destroys a runtime and frees the memory that its devices handed out. Not allowed for ration_runtime_default(). */
void ration_runtime_destroy(ration_runtime* runtime);
/* Returns the runtime that the whole process shares; it is never destroyed. In every function below, NULL as `runtime`
 * stands for this runtime. */
ration_runtime* ration_runtime_default(void);

typedef struct ration_device {
  uint32_t size;
  char name[64];
  char type[16];
} ration_device;

/* Writes up to `capacity` devices and sets `count` to the number of devices that exist. `type` is "GPU", "CPU", or NULL
 * for all types. */
ration_status ration_list_physical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                           size_t capacity, size_t* count);
ration_status ration_get_visible_devices(ration_runtime* runtime, const char* type, ration_device* out, size_t capacity,
                                         size_t* count);
ration_status ration_set_visible_devices(ration_runtime* runtime, const ration_device* devices, size_t count,
                                         const char* type);
/* Initialises the runtime. */
ration_status ration_list_logical_devices(ration_runtime* runtime, const char* type, ration_device* out,
                                          size_t capacity, size_t* count);

ration_status ration_set_memory_growth(ration_runtime* runtime, const ration_device* device, int enable);
ration_status ration_get_memory_growth(ration_runtime* runtime, const ration_device* device, int* enabled);

#define RATION_HAS_MEMORY_LIMIT 1u
#define RATION_HAS_PRIORITY 2u
#define RATION_HAS_ORDINAL 4u
typedef struct ration_logical_configuration {
  uint32_t size;
  uint32_t has; /* the flags RATION_HAS_... of the members that are set */
  double memory_limit_mib;
  int32_t priority;
  int32_t device_ordinal;
} ration_logical_configuration;
ration_status ration_set_logical_devices(ration_runtime* runtime, const ration_device* device,
                                         const ration_logical_configuration* entries, size_t count);
/* Sets `is_set` to 0 if nothing was configured. */
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

/* Fixes the configuration and makes the logical devices. Functions that need logical devices call this one first. */
ration_status ration_initialize(ration_runtime* runtime);
int ration_is_initialized(ration_runtime* runtime);

typedef struct ration_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t current, peak;   /* handed out */
  uint64_t held, peak_held; /* taken from the device */
  uint64_t limit;
  uint64_t num_allocs; /* a count */
  uint64_t largest_alloc_size, largest_free_block;
  double fragmentation; /* 0 to 1 */
} ration_memory_info;
/* Initialises the runtime. `device` is "GPU:0", "/gpu:0", "/device:GPU:0" or the full job name. */
ration_status ration_get_memory_info(ration_runtime* runtime, const char* device, ration_memory_info* out);
ration_status ration_reset_memory_stats(ration_runtime* runtime, const char* device);

/* Puts this process under limits of its own, as `ration run` would. The limits also apply to the children that it
 * starts from now on. Call this function before anything loads the GPU's driver. It calls no driver function, starts no
 * thread, and does nothing in a governed process. Returns RATION_RUNTIME_ERROR if the driver is loaded already. Returns
 * RATION_UNKNOWN if there can be no limit, for example without a GPU. */
ration_status ration_activate(void);
/* Sets the environment variables that put this process under limits after its next execve(). Use this function if the
 * driver is already loaded. */
ration_status ration_prepare_restart(void);
/* The memory of this process's workload on one GPU, summed over all processes of the workload. */
typedef struct ration_workload_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t used, peak, limit, total; /* total: the largest limit that the workload may set for itself */
} ration_workload_info;
/* Returns RATION_VALUE_ERROR if this process is not governed or has no such GPU. */
ration_status ration_get_workload_info(int gpu, ration_workload_info* out);
/* Limits the GPU with the number `gpu`, or each GPU if `gpu` is -1. The number is the driver's number under
 * CUDA_VISIBLE_DEVICES. In a governed process, the limit applies to everything in all processes of the workload:
 * frameworks, libraries and ration's pool. In an ungoverned process, the limit applies only to the pool. `size` is
 * "6GiB", "512MiB" or "50%"; "max" removes the limit. */
ration_status ration_limit(ration_runtime* runtime, int gpu, const char* size);
/* Limits the pinned host memory of this process's workload (cuMemHostAlloc, cuMemHostRegister, pools and physical
 * memory of the host). This memory belongs to no GPU. A percentage is a part of the host limit that was set from
 * outside. If no host limit was set, a percentage is a part of the machine's memory. "max" removes the limit. Returns
 * RATION_VALUE_ERROR if this process is not governed. */
ration_status ration_limit_host(const char* size);
/* Sets `bytes` to the limit that the workload set for itself, or to 0 if it set none. */
ration_status ration_get_host_limit(uint64_t* bytes);
/* Returns the pinned host memory of this process's workload, summed over all processes of the workload. */
ration_status ration_get_host_info(ration_workload_info* out);
/* Sets `bytes` to the limit, or to 0 if none was set. */
ration_status ration_get_limit(ration_runtime* runtime, int gpu, uint64_t* bytes);
/* Gives a part of this process, such as one of two models, a limit of its own inside the workload's limit. "40%"
 * means 40 % of the workload's present limit. `gpu` -1 means each GPU. While the part holds more than a lowered limit,
 * it keeps its memory and gets no more. Returns RATION_VALUE_ERROR if this process is not governed or the name is not 1
 * to 63 bytes long. */
ration_status ration_limit_share(const char* share, int gpu, const char* size);
/* The share that a thread had before ration_enter_share(). Pass it to ration_leave_share() on the same thread. Between
 * these two calls, memory that the thread takes is charged to the named share. Memory of threads that have entered no
 * share is charged to this share, too. */
typedef struct ration_former_share {
  uint32_t own, common;
} ration_former_share;
ration_status ration_enter_share(const char* share, ration_former_share* former);
ration_status ration_leave_share(const ration_former_share* former);
/* Puts a text into the recording of this process at this moment. Does nothing while this process is not recorded. */
ration_status ration_mark(const char* text);
/* Returns the memory of a share; `total` is the workload's limit. */
ration_status ration_get_share_info(const char* share, int gpu, ration_workload_info* out);
/* Limits a device; can be called at any time. If its logical devices together hold more than a lowered limit, they
 * take no more memory, and their free memory goes back to the device at once. A logical device with a memory_limit of
 * its own never gets more than this memory_limit. */
ration_status ration_set_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t bytes);
ration_status ration_set_memory_limit_fraction(ration_runtime* runtime, const ration_device* device, double share);
/* Takes the limit as text: "6GiB", "512MiB", "50%". */
ration_status ration_set_memory_limit_text(ration_runtime* runtime, const ration_device* device, const char* text);
/* Removes the limit: each logical device gets back the limit that it was made with. */
ration_status ration_clear_memory_limit(ration_runtime* runtime, const ration_device* device);
/* Sets `bytes` to the limit, or to 0 if none was set. */
ration_status ration_get_memory_limit(ration_runtime* runtime, const ration_device* device, uint64_t* bytes);

/* Allocates memory of logical device `gpu`. `stream` is a CUstream, NULL for the default one. `alignment` is a power
 * of two up to 2 MiB; 0 means 256. */
ration_status ration_allocate(ration_runtime* runtime, int gpu, size_t bytes, size_t alignment, void* stream,
                              void** out);
ration_status ration_deallocate(ration_runtime* runtime, int gpu, void* address, void* stream);
/* Records that `stream` also uses the block. When ration_deallocate() frees the block on another stream, this other
 * stream first waits for the work that `stream` has at that time. */
ration_status ration_record_stream(ration_runtime* runtime, void* address, void* stream);
/* Gives unused memory back to the device. If `bytes` is not NULL, sets `*bytes` to the amount. */
ration_status ration_trim(ration_runtime* runtime, int gpu, uint64_t* bytes);

/* A function that ration calls when device memory is short:
 * - A request is denied. `wanted` is the size of the request in bytes. The callback runs on the thread of the request;
 *   then this thread tries the request once more.
 * - A memory limit is set below the memory that is held. `wanted` is 0. The callback runs inside the call that sets the
 *   limit.
 * - A request of another process of the workload was denied or waits, the workload holds more than its limit, or an
 *   operator runs `ration trim`. `wanted` is 0. The callback runs on a thread of ration's.
 * The callback may call every function here except ration_runtime_destroy(), and must return. */
typedef void (*ration_pressure_callback)(uint64_t wanted, void* user);
ration_status ration_on_pressure(ration_runtime* runtime, ration_pressure_callback callback, void* user,
                                 uint64_t* number);
/* Removes a callback, and waits until no thread runs the callback. Inside a callback, this function does not wait. */
ration_status ration_remove_pressure_callback(ration_runtime* runtime, uint64_t number);

/* Gives the tag `tag` to the memory that the calling thread takes from now on; NULL or "" means no tag. The JSON map
 * and the text of a denial show tags. */
ration_status ration_set_tag(const char* tag);

typedef enum ration_map_format { RATION_MAP_JSON = 0, RATION_MAP_SVG = 1 } ration_map_format;
/* Writes the map as text. Sets `needed` to the size of the text with its closing zero. If `capacity` is smaller than
 * this size, writes nothing and returns RATION_BUFFER_TOO_SMALL. */
ration_status ration_memory_map(ration_runtime* runtime, int gpu, ration_map_format format, char* buffer,
                                size_t capacity, size_t* needed);

/* Allocates from ration_runtime_default(), for torch.cuda.memory.CUDAPluggableAllocator. The pool of this
 * runtime starts small and grows, unless the runtime was initialised before. If PyTorch is loaded in the process, a
 * denial throws PyTorch's own RuntimeError with ration's text. Otherwise, a denial returns NULL. */
void* ration_torch_alloc(ptrdiff_t size, int device, void* stream);
void ration_torch_free(void* address, ptrdiff_t size, int device, void* stream);
void ration_torch_record_stream(void* address, void* stream);

#ifdef __cplusplus
}
#endif
#endif
