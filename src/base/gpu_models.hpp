// Sizes of known GPU models, so that what-if or a simulated node needs no GPU. Used by `ration whatif` and by the
// simulated GPU, which therefore agree; on a machine with a GPU the driver reports its own sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace ration {

struct GpuModel {
  std::string key;   ///< name as typed: A100-40
  std::string name;  ///< name as the driver reports it
  Bytes total;       ///< the total that the driver reports (cuMemGetInfo), below the advertised size
  Bytes context;     ///< typical cost of one context with recent drivers
  int capability_major = 8, capability_minor = 0, multiprocessors = 80;
  bool memory_info = true;  ///< true if NVML reports the total and free memory; false if the memory is the host's
};

/// Returns the known models. The sizes are those that PyTorch's out-of-memory message ("GPU 0 has a total capacity of
/// …") quotes in public bug reports: T4 14.56 GiB, V100 31.74 (liucongg/ChatGLM-Finetuning#73), L4 22.03
/// (ArcInstitute/evo2#190), A30 23.53 (google/RB-Modulation#5), RTX 3090 23.68 to 23.70, RTX 4090 23.64
/// (ali-vilab/VGen#104), A100-40 39.39, L40 and L40S 44.40 (NVlabs/Eagle#68), GPUs of 80 GB 79.14 to 79.25, H200
/// 139.80. Drivers and ECC change them by a percent or two; if reports differ, a small size is listed. No report was
/// found for A10, A6000, V100-16 and B200, so they have the same share of the advertised size as the nearest model (L4,
/// RTX 3090, V100, H200). GB10 (DGX Spark) uses the host's memory: 121.69 GiB by CUDA and by the kernel
/// (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47, XuehaiPan/nvitop#208). On GB10 both forms of nvmlDeviceGetMemoryInfo
/// answer "not supported" (the same reports, and NVIDIA's page of known issues of the DGX Spark), but NVML reports what
/// each process holds (mostlygeek/llama-swap#782).
[[nodiscard]] const std::vector<GpuModel>& gpu_models();

/// Finds a model by its name; absent if unknown. The search ignores case, blanks, hyphens, and NVIDIA's series before
/// the number (RTX, GeForce, Tesla).
[[nodiscard]] std::optional<GpuModel> find_gpu_model(std::string_view name);

/// Returns a model for an unlisted GPU of this name and size.
[[nodiscard]] GpuModel unknown_gpu_model(std::string_view name, Bytes total);

/// Returns the names of all models, for a message.
[[nodiscard]] std::string gpu_model_names();

}  // namespace ration
