#include "base/gpu_models.hpp"

#include <algorithm>

namespace ration {
namespace {

using namespace literals;

constexpr Bytes hundredths(std::uint64_t gib) { return round_down(Bytes{(gib << 30) / 100}, kGranule); }

std::string normalised(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (letter == ' ' || letter == '-' || letter == '_') continue;
    text += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
  }
  for (const std::string_view series : {"NVIDIA", "GEFORCE", "TESLA", "RTX"})
    if (text.rfind(series, 0) == 0) text.erase(0, series.size());
  return text;
}

}  // namespace

const std::vector<GpuModel>& gpu_models() {
  static const std::vector<GpuModel> all{{"T4", "Tesla T4", hundredths(1456), 104_MiB, 7, 5, 40},
                                         {"V100-16", "Tesla V100-SXM2-16GB", hundredths(1587), 304_MiB, 7, 0, 80},
                                         {"V100", "Tesla V100-SXM2-32GB", hundredths(3174), 304_MiB, 7, 0, 80},
                                         {"RTX3090", "NVIDIA GeForce RTX 3090", hundredths(2368), 264_MiB, 8, 6, 82},
                                         {"RTX4090", "NVIDIA GeForce RTX 4090", hundredths(2364), 384_MiB, 8, 9, 128},
                                         {"A6000", "NVIDIA RTX A6000", hundredths(4736), 264_MiB, 8, 6, 84},
                                         {"A10", "NVIDIA A10", hundredths(2203), 264_MiB, 8, 6, 72},
                                         {"L4", "NVIDIA L4", hundredths(2203), 264_MiB, 8, 9, 58},
                                         {"A30", "NVIDIA A30", hundredths(2353), 264_MiB, 8, 0, 56},
                                         {"A100-40", "NVIDIA A100-SXM4-40GB", hundredths(3939), 424_MiB, 8, 0, 108},
                                         {"L40S", "NVIDIA L40S", hundredths(4440), 424_MiB, 8, 9, 142},
                                         {"A100-80", "NVIDIA A100-SXM4-80GB", hundredths(7914), 424_MiB, 8, 0, 108},
                                         {"H100", "NVIDIA H100 80GB HBM3", hundredths(7914), 526_MiB, 9, 0, 132},
                                         {"H200", "NVIDIA H200", hundredths(13980), 518_MiB, 9, 0, 132},
                                         {"B200", "NVIDIA B200", hundredths(17847), 526_MiB, 10, 0, 148},
                                         {"GB10", "NVIDIA GB10", hundredths(12169), 526_MiB, 12, 1, 48, false}};
  return all;
}

std::optional<GpuModel> find_gpu_model(std::string_view name) {
  for (const GpuModel& model : gpu_models())
    if (normalised(name) == normalised(model.key)) return model;
  return std::nullopt;
}

GpuModel unknown_gpu_model(std::string_view name, Bytes total) {
  return {std::string(name), std::string(name), total, 264_MiB, 8, 0, 80};
}

std::string gpu_model_names() {
  std::string text;
  for (const GpuModel& model : gpu_models()) text += (text.empty() ? "" : " ") + model.key;
  return text;
}

}  // namespace ration
