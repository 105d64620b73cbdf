#include "card_sheet.hpp"

#include <algorithm>
#include <iterator>

namespace ration::sim {
namespace {

// The sources of the values. T4, A100-40, L40S, H100 and B200 follow the output of `nvidia-smi -q -x` on each
// (NVIDIA/k8s-test-infra, below tests/e2e/go/assertions/nvidiasmi/testdata/hardware). It was compared with the profiles
// of the mock NVML there (pkg/gpu/mocknvml/configs); where the two differ, the values follow the output. L4 follows the
// test data of an exporter, which quote the output of release 555.42. A100-80 follows NVIDIA/DCGM#152 and, for the
// rest, the 40 GB model; RTX 3090 follows NVIDIA/nvidia-docker#1547 and Project-HAMi/HAMi#332; A6000 follows
// mrirecon/bart#323. The widths of these GPUs' memory buses are from NVIDIA's data sheets. T4's application clocks are
// those after boot.
// The other GPUs have only values on which two public sources agree.
// V100 follows NVIDIA/nvidia-docker#914 (16 GB) and #1076 (32 GB); its width and ECC are from #1076 and openxla/xla
// (xla/backends/gpu/target_config/specs/v100.txtpb: 898.048 GB/s at 877 MHz are 4096 bits).
// H200's clocks are from awslabs/amazon-eks-ami#1985 and published lines of `nvidia-smi --query-gpu`; its 700 W and ECC
// are from NVIDIA/cuda-samples#311 and NVIDIA's data sheet; its width is from two published calculations of its
// bandwidth; its L2 is from PyTorch's properties of an H200 and nvbench's of an H20, which has the same chip.
// B200's width is from pytorch/ao#4002 (newer drivers report 7680, the first ones 8192) and openxla/xla (b200.txtpb:
// 7672.32 GB/s).
// RTX 4090 follows the outputs of deviceQuery and nvbench (NVIDIA/nvbench#207) on many GPUs, which agree; its 450 W, P8
// and ECC off are from tables of `nvidia-smi`, and several outputs of `nvidia-smi` show that it can be clocked to 3105
// MHz.
// A10 follows outputs of deviceQuery, among them those of NVIDIA/cuda-samples; its 150 W and P8 are from a table of
// `nvidia-smi` and the data sheet; its number on the bus is from olealgoritme/gddr6#21 and lists of such numbers.
// A30 follows nvbench's output, ProjectPhysX/FluidX3D#8 and NVIDIA/dcgm-exporter#317; its 165 W and ECC are from tables
// of `nvidia-smi`.
// GB10's clocks are from inclusionAI/humming#49 and outputs of `nvidia-smi` elsewhere (NVML reports no clock of the
// memory); its driver attributes are from deviceQuery's output and a comparison of its bandwidth with a T4's. Its power
// limit is not published.
// The L2 caches of the other GPUs are from openxla/xla (specs/*.txtpb) and deviceQuery's outputs; those of L4 and L40S
// are from NVIDIA's data sheets.
// For RTX GPUs and GB10, the driver's attributes report the rated clock and NVML reports the highest clock. For the
// other GPUs, both report the highest clock.
constexpr CardSheet kSheets[] = {
    {.name = "Tesla V100-SXM2-16GB",
     .vbios = "88.00.18.00.01",
     .board = "692-2G503-0202-000",
     .watts = 300,
     .least_watts = 150,
     .highest = {1530, 877, 1372},
     .idle = {135, 877, 555},
     .application = {1312, 877},
     .bus_width = 4096,
     .l2_kib = 6144,
     .ecc = Ecc::kOn},
    {.name = "Tesla V100-SXM2-32GB",
     .watts = 300,
     .least_watts = 150,
     .highest = {1530, 877, 1372},
     .application = {1290, 877},
     .bus_width = 4096,
     .l2_kib = 6144,
     .ecc = Ecc::kOn},
    {.name = "Tesla T4",
     .vbios = "90.04.96.00.02",
     .board = "900-2G183-A800-001",
     .pci_device = 0x1eb810de,
     .pci_subsystem = 0x12a210de,
     .watts = 70,
     .least_watts = 60,
     .idle_milliwatts = 33510,
     .highest = {1590, 5001, 1470},
     .idle = {1590, 5000, 1470},
     .application = {585, 5001},
     .supported = {{5001, 1590, 300}, {405, 645, 300}},
     .bus_width = 256,
     .l2_kib = 4096,
     .bar1_mib = 256,
     .ecc = Ecc::kOn,
     .shutdown = 96,
     .slowdown = 93,
     .operating = 85},
    {.name = "NVIDIA A100-SXM4-40GB",
     .vbios = "92.00.45.00.03",
     .board = "692-2G506-0200-003",
     .pci_device = 0x20b010de,
     .pci_subsystem = 0x134f10de,
     .watts = 400,
     .least_watts = 100,
     .idle_milliwatts = 49680,
     .highest = {1410, 1215, 1290},
     .idle = {210, 1215, 585},
     .application = {1095, 1215},
     .supported = {{1215, 1410, 210}},
     .bus_width = 5120,
     .l2_kib = 40960,
     .bar1_mib = 65536,
     .ecc = Ecc::kOn,
     .shutdown = 92,
     .slowdown = 89,
     .operating = 85},
    {.name = "NVIDIA A100-SXM4-80GB",
     .pci_device = 0x20b210de,
     .watts = 400,
     .least_watts = 100,
     .idle_milliwatts = 49680,
     .highest = {1410, 1593, 1290},
     .idle = {210, 1593, 585},
     .application = {1155, 1593},
     .bus_width = 5120,
     .l2_kib = 40960,
     .bar1_mib = 131072,
     .ecc = Ecc::kOn,
     .shutdown = 92,
     .slowdown = 89,
     .operating = 85},
    {.name = "NVIDIA L4",
     .vbios = "95.04.29.00.06",
     .board = "900-2G193-0000-001",
     .pci_device = 0x27b810de,
     .pci_subsystem = 0x16ca10de,
     .watts = 72,
     .least_watts = 40,
     .idle_milliwatts = 27220,
     .highest = {2040, 6251, 1770},
     .idle = {2040, 6250, 1770},
     .application = {2040, 6251},
     .supported = {{6251, 2040, 210}, {405, 645, 210}},
     .bus_width = 192,
     .l2_kib = 49152,
     .bar1_mib = 32768,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA L40S",
     .vbios = "95.02.66.00.15",
     .board = "900-2G133-A880-000",
     .pci_device = 0x26b910de,
     .pci_subsystem = 0x185110de,
     .watts = 350,
     .least_watts = 100,
     .idle_milliwatts = 65640,
     .highest = {2520, 9001, 1965},
     .idle = {2040, 9001, 1725},
     .supported = {{9001, 2520, 210}, {405, 405, 210}},
     .bus_width = 384,
     .l2_kib = 98304,
     .bar1_mib = 65536,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA H100 80GB HBM3",
     .vbios = "96.00.99.00.01",
     .board = "692-2G520-0200-000",
     .pci_device = 0x233010de,
     .pci_subsystem = 0x16c110de,
     .watts = 700,
     .least_watts = 200,
     .idle_milliwatts = 68570,
     .highest = {1980, 2619, 1545},
     .idle = {345, 2619, 765},
     .application = {1980, 2619},
     .supported = {{2619, 1980, 345}, {1593, 1980, 345}},
     .bus_width = 5120,
     .l2_kib = 51200,
     .bar1_mib = 131072,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA H200",
     .watts = 700,
     .highest = {1980, 3201},
     .idle = {345, 3199, 765},
     .application = {1980, 3201},
     .bus_width = 6144,
     .l2_kib = 61440,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA B200",
     .vbios = "97.00.FA.00.09",
     .board = "692-2G525-0220-500",
     .pci_device = 0x290110de,
     .pci_subsystem = 0x199910de,
     .watts = 1000,
     .least_watts = 200,
     .idle_milliwatts = 195680,
     .highest = {1965, 3996, 1965},
     .idle = {120, 3996, 600},
     .application = {1965, 3996},
     .bus_width = 7680,
     .l2_kib = 129536,
     .bar1_mib = 262144,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA GeForce RTX 3090",
     .pci_device = 0x220410de,
     .watts = 350,
     .least_watts = 100,
     .idle_milliwatts = 30000,
     .highest = {2100, 9751, 1950},
     .idle = {210, 405, 555},
     .rated = {1695, 9751},
     .idle_state = 8,
     .bus_width = 384,
     .l2_kib = 6144,
     .bar1_mib = 256,
     .fans = 2},
    {.name = "NVIDIA GeForce RTX 4090",
     .watts = 450,
     .highest = {3105, 10501},
     .rated = {2520, 10501},
     .idle_state = 8,
     .bus_width = 384,
     .l2_kib = 73728,
     .ecc = Ecc::kOff},
    {.name = "NVIDIA RTX A6000",
     .pci_device = 0x223010de,
     .pci_subsystem = 0x145910de,
     .watts = 300,
     .least_watts = 100,
     .idle_milliwatts = 29920,
     .highest = {2100, 8001, 1950},
     .idle = {210, 405, 555},
     .application = {1800, 8001},
     .rated = {1800, 8001},
     .idle_state = 8,
     .bus_width = 384,
     .l2_kib = 6144,
     .ecc = Ecc::kOff,
     .fans = 1,
     .fan_percent = 30},
    {.name = "NVIDIA A10",
     .pci_device = 0x223610de,
     .watts = 150,
     .highest = {1695, 6251},
     .idle_state = 8,
     .bus_width = 384,
     .l2_kib = 6144,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA A30",
     .pci_device = 0x20b710de,
     .watts = 165,
     .highest = {1440, 1215},
     .bus_width = 3072,
     .l2_kib = 24576,
     .ecc = Ecc::kOn},
    {.name = "NVIDIA GB10",
     .highest = {3003},
     .application = {2418},
     .rated = {2418, 8533},
     .bus_width = 256,
     .l2_kib = 24576},
};

constexpr CardSheet kUnknown{};

const CardSheet& sheet_named(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kSheets), std::end(kSheets), [&](const CardSheet& sheet) { return sheet.name == name; });
  return found == std::end(kSheets) ? kUnknown : *found;
}

}  // namespace

const CardSheet& sheet_of(const Model& model) { return sheet_named(card_name(model)); }

const CardSheet& attributes_sheet_of(const Model& model) {
  const CardSheet& own = sheet_of(model);
  return &own != &kUnknown ? own : sheet_named("NVIDIA A100-SXM4-40GB");
}

}  // namespace ration::sim
