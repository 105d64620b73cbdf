// ration::Runtime on two simulated GPUs of 16 GiB.
#include "ration/runtime.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/environment.hpp"
#include "runtime/plan.hpp"

namespace ration {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
using Configuration = LogicalDeviceConfiguration;

template <typename Error, typename Call>
void expect_error(const std::string& text, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), text);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another class of error: " << error.what();
  }
}

struct DeviceConfiguration : ::testing::Test {
  Runtime runtime;
  std::vector<PhysicalDevice> gpus = runtime.list_physical_devices("GPU");
  PhysicalDevice cpu = runtime.list_physical_devices("CPU").at(0);
  PhysicalDevice unknown{"/physical_device:GPU:9", "GPU"};
  ~DeviceConfiguration() override { ::unsetenv("TF_FORCE_GPU_ALLOW_GROWTH"); }
};

TEST_F(DeviceConfiguration, ListsTheCpuAndEveryGpuWithoutInitialising) {
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[1].repr(), "PhysicalDevice(name='/physical_device:GPU:1', device_type='GPU')");
  EXPECT_EQ(runtime.list_physical_devices().size(), 3U);
  EXPECT_TRUE(runtime.list_physical_devices("TPU").empty());
  EXPECT_FALSE(runtime.is_initialized());
}

TEST_F(DeviceConfiguration, RefusesDevicesThatItDidNotList) {
  const std::string text = "Unrecognized device: PhysicalDevice(name='/physical_device:GPU:9', device_type='GPU')";
  expect_error<ValueError>(text, [&] { runtime.set_memory_growth(unknown, true); });
  expect_error<ValueError>(text, [&] { (void)runtime.get_memory_growth(unknown); });
  expect_error<ValueError>(text, [&] { runtime.set_visible_devices({unknown}); });
  expect_error<ValueError>(text, [&] { runtime.set_logical_device_configuration(unknown, {}); });
  expect_error<ValueError>(text, [&] { (void)runtime.get_logical_device_configuration(unknown); });
  expect_error<ValueError>(text, [&] { runtime.set_memory_limit(unknown, kMiB); });
  expect_error<ValueError>("Unrecognized device: " + cpu.repr(), [&] { runtime.set_visible_devices({cpu}, "GPU"); });
}

TEST_F(DeviceConfiguration, VisibleDevicesAreReplacedByTypeAndKeepTheirOrder) {
  runtime.set_visible_devices({gpus[1], gpus[0]}, "GPU");
  EXPECT_EQ(runtime.get_visible_devices(), (std::vector{cpu, gpus[1], gpus[0]}));
  runtime.set_visible_devices({gpus[1]}, "GPU");
  EXPECT_EQ(runtime.list_logical_devices("GPU").size(), 1U);
  runtime.set_visible_devices({gpus[1]}, "GPU");  // no change
  expect_error<RuntimeError>("Visible devices cannot be modified after being initialized",
                             [&] { runtime.set_visible_devices({}, "GPU"); });
}

TEST_F(DeviceConfiguration, HidingEveryGpuLeavesTheCpu) {
  runtime.set_visible_devices({}, "GPU");
  EXPECT_EQ(runtime.list_logical_devices(), (std::vector<LogicalDevice>{{"/device:CPU:0", "CPU"}}));
}

TEST_F(DeviceConfiguration, GrowthHasItsRules) {
  expect_error<ValueError>("Cannot set memory growth on non-GPU and non-Pluggable devices",
                           [&] { runtime.set_memory_growth(cpu, true); });
  EXPECT_FALSE(runtime.get_memory_growth(gpus[0]));
  runtime.set_memory_growth(gpus[0], true);
  expect_error<ValueError>("Memory growth cannot differ between GPU devices",
                           [&] { (void)runtime.list_logical_devices(); });
  EXPECT_FALSE(runtime.is_initialized()) << "a refused start changes nothing";
  runtime.set_visible_devices({gpus[0]}, "GPU");  // hidden ones do not count
  EXPECT_EQ(runtime.list_logical_devices("GPU").size(), 1U);
  EXPECT_LT(runtime.get_memory_info("GPU:0").held, 4 * kMiB);
  runtime.set_memory_growth(gpus[0], true);
  expect_error<RuntimeError>("Physical devices cannot be modified after being initialized",
                             [&] { runtime.set_memory_growth(gpus[0], false); });
}

TEST_F(DeviceConfiguration, LogicalDevicesHaveTheirRules) {
  expect_error<ValueError>("Setting memory limit is required for GPU virtual devices",
                           [&] { runtime.set_logical_device_configuration(gpus[0], {Configuration{}}); });
  expect_error<ValueError>("Setting memory limit on CPU virtual devices is currently not supported", [&] {
    runtime.set_logical_device_configuration(cpu, {{100, {}, {}}});
  });
  expect_error<ValueError>("Setting experimental_priority on CPU virtual  devices is currently not supported", [&] {
    runtime.set_logical_device_configuration(cpu, {{{}, 1, {}}});
  });
  expect_error<ValueError>("Setting experimental_device_ordinal on CPU virtual  devices is currently not supported",
                           [&] {
                             runtime.set_logical_device_configuration(cpu, {{{}, {}, 1}});
                           });
  EXPECT_FALSE(runtime.get_logical_device_configuration(gpus[0]).has_value());
  const std::vector<Configuration> two = {{64, {}, {}}, {128.5, {}, {}}};
  runtime.set_logical_device_configuration(gpus[0], two);
  EXPECT_EQ(runtime.get_logical_device_configuration(gpus[0]), two);
  expect_error<ValueError>("Cannot set memory growth on device when virtual devices configured",
                           [&] { runtime.set_memory_growth(gpus[0], true); });
  runtime.set_visible_devices({gpus[0]}, "GPU");
  EXPECT_EQ(runtime.list_logical_devices("GPU").size(), 2U);
  EXPECT_EQ(runtime.get_memory_info("GPU:1").limit, static_cast<std::uint64_t>(128.5 * kMiB));
  runtime.set_logical_device_configuration(gpus[0], two);  // equal: always allowed
  expect_error<RuntimeError>("Virtual devices cannot be modified after being initialized",
                             [&] { runtime.set_logical_device_configuration(gpus[0], {}); });
}

TEST_F(DeviceConfiguration, PrioritiesAndOrdinalsAreForAllEntriesOrNone) {
  runtime.set_logical_device_configuration(gpus[0], {{64, -1, {}}, {64, {}, {}}});
  expect_error<ValueError>("priority must be specified for all virtual devices", [&] { runtime.initialize(); });
  runtime.set_logical_device_configuration(gpus[0], {{64, {}, 1}, {64, {}, {}}});
  expect_error<ValueError>("device_ordinals must be specified for all virtual devices", [&] { runtime.initialize(); });
  runtime.set_logical_device_configuration(gpus[0], {{64, -9, {}}});
  expect_error<InvalidArgumentError>(
      "Priority -9 is outside the range of supported priorities [-5,0] for virtual device 0 on GPU# 0",
      [&] { runtime.initialize(); });
}

std::vector<std::pair<double, std::size_t>> order(const GpuOptions& options) {
  std::vector<std::pair<double, std::size_t>> result;
  for (const auto& device :
       runtime::plan_devices(options, runtime::parse_visible_list(options.visible_device_list, 2), [](std::size_t) {
         return runtime::PrimaryContext::Priorities{-5, 0};
       }))
    result.emplace_back(static_cast<double>(device.limit->count()) / (1 << 30), device.gpu);
  return result;
}

TEST(LogicalOrder, IsByVisibleGpuThenPlaceAndByOrdinalFirstWhereGiven) {
  GpuOptions options;
  options.visible_device_list = "1,0";
  options.virtual_devices = {{{1024, 2048}, {}, {}}, {{3072, 4096}, {}, {}}};
  using Expected = std::vector<std::pair<double, std::size_t>>;
  EXPECT_EQ(order(options), (Expected{{1, 1}, {2, 1}, {3, 0}, {4, 0}}));
  options.virtual_devices = {{{1024, 2048}, {}, {10, 20}}, {{3072, 4096}, {}, {10, 20}}};
  EXPECT_EQ(order(options), (Expected{{1, 1}, {3, 0}, {2, 1}, {4, 0}}));
}

TEST_F(DeviceConfiguration, SessionOptionsAreRefusedAsTensorFlowDoes) {
  GpuOptions options;
  options.virtual_devices = {{{64}, {}, {}}};
  options.per_process_gpu_memory_fraction = 0.5;
  expect_error<InvalidArgumentError>("It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
                                     [&] { runtime.initialize(options); });
  options = {};
  options.virtual_devices = {{{64}, {}, {}}, {{64}, {}, {}}};
  options.visible_device_list = "1";
  expect_error<UnknownError>("Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2",
                             [&] { runtime.initialize(options); });
  options.virtual_devices = {{{64}, {}, {}}};
  options.visible_device_list = "1,0";
  expect_error<InvalidArgumentError>(
      "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list. "
      "#GPUs in visible_device_list: 2 virtual_devices.size(): 1",
      [&] { runtime.initialize(options); });
  for (const std::string list : {"7", "0,0", "one", "0,"}) {
    options = {};
    options.visible_device_list = list;
    EXPECT_THROW(runtime.initialize(options), InvalidArgumentError) << list;
  }
  EXPECT_FALSE(runtime.is_initialized());
}

TEST_F(DeviceConfiguration, AFractionIsOfTheTotalAndTheDefaultLeavesAReserve) {
  GpuOptions options;
  options.per_process_gpu_memory_fraction = 0.25;
  options.visible_device_list = "0";
  runtime.initialize(options);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 4096 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").held, 4096 * kMiB) << "without growth everything at the start";
  EXPECT_EQ(runtime::system_reserve(Bytes{1024 * kMiB}, 9), Bytes{225 * kMiB});
  EXPECT_EQ(runtime::system_reserve(Bytes{2048 * kMiB}, 6), Bytes{500 * kMiB});
  EXPECT_EQ(runtime::system_reserve(Bytes{4096 * kMiB}, 7), Bytes{1050 * kMiB});
  EXPECT_EQ(runtime::system_reserve(Bytes{4096 * kMiB}, 8), Bytes{1536 * kMiB});
  EXPECT_EQ(runtime::system_reserve(Bytes{4096 * kMiB}, 10), Bytes{1800 * kMiB});
}

TEST_F(DeviceConfiguration, TheEnvironmentOverrulesGrowth) {
  ::setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1);
  runtime.initialize();
  EXPECT_EQ(runtime.get_memory_info("GPU:0").held, 0U);
}

TEST_F(DeviceConfiguration, TheEnvironmentChoosesTheBackEndAndTheSmallestBlock) {
  ::setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1);
  ::setenv("RATION_MIN_BLOCK", "32KiB", 1);
  void* small = runtime.allocate(0, 1);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").current, 32U << 10);
  runtime.deallocate(0, small);
  ::unsetenv("RATION_MIN_BLOCK");
  ::setenv("TF_GPU_ALLOCATOR", "cuda_malloc_async", 1);
  ::setenv("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "100", 1);
  Runtime async;
  EXPECT_GE(async.get_memory_info("GPU:0").held, 100 * kMiB) << "kept in the driver's pool";
  void* block = async.allocate(0, kMiB);
  EXPECT_EQ(async.get_memory_info("GPU:0").current, kMiB);
  async.deallocate(0, block);
  ::unsetenv("TF_GPU_ALLOCATOR");
  ::unsetenv("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC");
  async.trim(0);
}

TEST_F(DeviceConfiguration, TheEnvironmentsLimitOfADeviceIsNeverExceeded) {
  ::setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1);
  ::setenv("TF_PER_DEVICE_MEMORY_LIMIT_MB", "300", 1);
  runtime.set_memory_limit(gpus[1], 4096 * kMiB);
  runtime.initialize();
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 300 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:1").limit, 300 * kMiB) << "set_memory_limit() does not raise it";
  runtime.set_memory_limit(gpus[0], 100 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 100 * kMiB);
  runtime.set_memory_limit(gpus[0], 1000 * kMiB);
  runtime.clear_memory_limit(gpus[1]);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 300 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:1").limit, 300 * kMiB);
  EXPECT_THROW((void)runtime.allocate(0, 301 * kMiB), MemoryLimitExceeded);
  Runtime divided;
  divided.set_logical_device_configuration(gpus[0], {Configuration{200, {}, {}}, Configuration{50, {}, {}}});
  EXPECT_EQ(divided.get_memory_info("GPU:0").limit, 150 * kMiB) << "two share it";
  EXPECT_EQ(divided.get_memory_info("GPU:1").limit, 50 * kMiB);
  ::setenv("TF_PER_DEVICE_MEMORY_LIMIT_MB", "0", 1);
  EXPECT_FALSE(runtime::Environment::read().device_limit) << "as TensorFlow has it";
  ::unsetenv("TF_PER_DEVICE_MEMORY_LIMIT_MB");
}

TEST_F(DeviceConfiguration, AVariableThatLimitsMemoryIsNotIgnoredForItsValue) {
  for (const char* name :
       {"TF_PER_DEVICE_MEMORY_LIMIT_MB", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"}) {
    for (const char* value : {"4GB", "half", "1e", " 1", "99999999999999999999x"}) {
      ::setenv(name, value, 1);
      Runtime other;
      EXPECT_THROW(other.initialize(), InvalidArgumentError) << name << "=" << value;
      ASSERT_EQ(runtime::Environment::problems().size(), 1U) << name << "=" << value;
      EXPECT_EQ(runtime::Environment::problems()[0].find(std::string(name) + "=" + value + " is not a"), 0U);
    }
    ::unsetenv(name);
  }
  EXPECT_TRUE(runtime::Environment::problems().empty());
}

TEST_F(DeviceConfiguration, OfTwoVariablesThatContradictTheSmallerHolds) {
  ::setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.25", 1);
  ::setenv("XLA_CLIENT_MEM_FRACTION", "0.9", 1);
  EXPECT_EQ(runtime::Environment::read().fraction, 0.25);
  EXPECT_EQ(runtime::Environment::problems(),
            std::vector<std::string>{"XLA_PYTHON_CLIENT_MEM_FRACTION=0.25 and XLA_CLIENT_MEM_FRACTION=0.9 contradict "
                                     "each other: the smaller holds in ration's pool."});
  ::setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.95", 1);
  EXPECT_EQ(runtime::Environment::read().fraction, 0.9);
  ::unsetenv("XLA_PYTHON_CLIENT_MEM_FRACTION");
  ::unsetenv("XLA_CLIENT_MEM_FRACTION");
  ::setenv("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "100", 1);
  EXPECT_EQ(runtime::Environment::problems().size(), 1U);
  ::unsetenv("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC");
}

TEST_F(DeviceConfiguration, AVariableOfAnyKindWhoseValueIsNoneIsNamed) {
  for (const char* name :
       {"TF_GPU_HOST_MEM_LIMIT_IN_MB", "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB", "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE",
        "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_DEVICE_MIN_SYS_MEMORY_IN_MB",
        "TF_GPU_ALLOCATOR", "XLA_PYTHON_CLIENT_ALLOCATOR", "TF_ENABLE_GPU_GARBAGE_COLLECTION"}) {
    ::setenv(name, "yes please", 1);
    const auto problems = runtime::Environment::problems();
    ::unsetenv(name);
    ASSERT_EQ(problems.size(), 1U) << name;
    EXPECT_EQ(problems[0].find(std::string(name) + "=yes please is not "), 0U) << problems[0];
  }
}

TEST_F(DeviceConfiguration, FieldsThatDoNothingAreAcceptedAndNamed) {
  GpuOptions options;
  options.allow_growth = true;
  options.use_cuda_malloc_async = true;
  EXPECT_TRUE(options.without_effect().empty());
  options.internal_fragmentation_fraction = 0.5;
  options.gpu_host_mem_limit_in_mb = 512;
  options.stream_merge_options.merge_device_to_host_stream = true;
  ::testing::internal::CaptureStderr();
  runtime.initialize(options);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "ration: these GPUOptions do nothing on ration's pool (docs/pool.md): internal_fragmentation_fraction, "
            "gpu_host_mem_limit_in_mb, stream_merge_options.\n");
  void* block = runtime.allocate(0, kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").current, kMiB);
  runtime.deallocate(0, block);
  runtime.trim(0);
  options.allocator_type = "BFC";
  Runtime contradicted;
  expect_error<InvalidArgumentError>("use_cuda_malloc_async and allocator_type 'BFC' contradict each other.",
                                     [&] { contradicted.initialize(options); });
}

TEST_F(DeviceConfiguration, AShareAboveOneIsManagedMemoryThatTheDeviceDoesNotLimit) {
  GpuOptions options;
  options.per_process_gpu_memory_fraction = 1.5;
  runtime.initialize(options);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 24 * 1024 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(runtime.allocate(0, 4096 * kMiB));  // 20 GiB of a device of 16
  EXPECT_EQ(runtime.get_memory_info("GPU:0").current, 20 * 1024 * kMiB);
  EXPECT_THROW((void)runtime.allocate(0, 5000 * kMiB), MemoryLimitExceeded);
  for (void* block : blocks) runtime.deallocate(0, block);
}

TEST_F(DeviceConfiguration, PyTorchsSettingsAreRead) {
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 1);
  ::setenv("PYTORCH_ALLOC_CONF",
           "max_split_size_mb:64,garbage_collection_threshold:0.25,per_process_memory_fraction:0.5",
           1);  // the newer name is the one that counts
  const auto environment = runtime::Environment::read();
  ::unsetenv("PYTORCH_ALLOC_CONF");
  EXPECT_EQ(environment.reclaim_above, 0.25);
  EXPECT_EQ(environment.fraction, 0.5);
  EXPECT_FALSE(environment.async);
  EXPECT_TRUE(runtime::Environment::read().async);
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:2,per_process_memory_fraction:half,:,", 1);
  EXPECT_EQ(runtime::Environment::read().reclaim_above, 1);
  EXPECT_FALSE(runtime::Environment::read().fraction);
  ::unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

TEST_F(DeviceConfiguration, WhatLiesFreeIsMovedOnlyWhereThatIsWanted) {
  // Sixteen blocks, every other one given back: what is free lies in pieces.
  const auto held_after_a_large_request = [&](const char* moves) {
    ::setenv("TF_ENABLE_GPU_GARBAGE_COLLECTION", moves, 1);
    ::setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true", 1);
    Runtime fresh;
    std::vector<void*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(fresh.allocate(0, 64 * kMiB));
    for (std::size_t i = 0; i < blocks.size(); i += 2) fresh.deallocate(0, blocks[i]);
    (void)fresh.allocate(0, 512 * kMiB);
    ::unsetenv("TF_ENABLE_GPU_GARBAGE_COLLECTION");
    return fresh.get_memory_info("GPU:0").held / kMiB;
  };
  EXPECT_LE(held_after_a_large_request("true"), 1040U);
  EXPECT_EQ(held_after_a_large_request("false"), 1536U);
}

TEST_F(DeviceConfiguration, ARefusedRequestIsTriedAgainAfterThoseWhoAskedToBeTold) {
  runtime.set_memory_limit(gpus[0], 64 * kMiB);
  void* cache = runtime.allocate(0, 48 * kMiB);
  std::vector<std::uint64_t> told;
  const std::uint64_t number = runtime.on_pressure([&](std::uint64_t wanted) {
    told.push_back(wanted);
    EXPECT_THROW((void)runtime.allocate(0, 60 * kMiB), MemoryLimitExceeded);  // and is not told of its own
    runtime.deallocate(0, cache);
  });
  void* block = runtime.allocate(0, 32 * kMiB);
  EXPECT_EQ(told, std::vector<std::uint64_t>{32 * kMiB});
  runtime.remove_pressure_callback(number);
  EXPECT_THROW((void)runtime.allocate(0, 60 * kMiB), MemoryLimitExceeded);
  EXPECT_EQ(told.size(), 1U);
  runtime.deallocate(0, block);
  EXPECT_THROW(runtime.on_pressure(nullptr), ValueError);
}

TEST_F(DeviceConfiguration, NumbersThatAreNoMemoryAreRefused) {
  for (const double mib : {0.0, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL, 1e13, 17592186045440.0})
    EXPECT_THROW(runtime.set_logical_device_configuration(gpus[0], {Configuration{mib, {}, {}}}), ValueError) << mib;
  for (const double share : {1e300, HUGE_VAL, 1e9, 1e-300}) {
    GpuOptions options;
    options.allow_growth = true;
    options.per_process_gpu_memory_fraction = share;
    Runtime other;
    EXPECT_THROW(other.initialize(options), InvalidArgumentError) << share;
  }
  for (const float mib : {-1.0F, std::nanf(""), HUGE_VALF, 1e30F}) {
    GpuOptions options;
    options.virtual_devices = {{{mib}, {}, {}}};
    Runtime other;
    EXPECT_THROW(other.initialize(options), InvalidArgumentError) << mib;
  }
  for (const auto& [name, value] : std::map<std::string, std::string>{{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "20000"},
                                                                      {"RATION_MIN_BLOCK", "100TiB"},
                                                                      {"XLA_PYTHON_CLIENT_MEM_FRACTION", "1e300"}}) {
    ::setenv(name.c_str(), value.c_str(), 1);
    Runtime other;
    EXPECT_THROW(other.initialize(), InvalidArgumentError) << name;
    ::unsetenv(name.c_str());
  }
  EXPECT_THROW(TagScope("\xff"), ValueError);
  EXPECT_THROW(TagScope(std::string(257, 'x')), ValueError);
}

TEST_F(DeviceConfiguration, ALimitThatIsClearedLeavesWhatWasConfigured) {
  runtime.set_logical_device_configuration(gpus[0], {Configuration{512, {}, {}}, Configuration{256, {}, {}}});
  runtime.initialize();
  runtime.set_memory_limit(gpus[0], 300 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 200 * kMiB);
  runtime.clear_memory_limit(gpus[0]);
  runtime.clear_memory_limit(gpus[0]);
  EXPECT_EQ(runtime.get_memory_limit(gpus[0]), 0U);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 512 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:1").limit, 256 * kMiB);
}

TEST_F(DeviceConfiguration, ALimitNeverRaisesALogicalDeviceAboveItsOwnNumber) {
  runtime.set_memory_limit(gpus[0], 6144 * kMiB);
  runtime.set_logical_device_configuration(gpus[0], {Configuration{512, {}, {}}, Configuration{256, {}, {}}});
  const auto limits = [&] {
    return std::pair(runtime.get_memory_info("GPU:0").limit / kMiB, runtime.get_memory_info("GPU:1").limit / kMiB);
  };
  EXPECT_EQ(limits(), std::pair(512UL, 256UL));
  for (const std::uint64_t larger : {768, 1024, 12288}) {
    runtime.set_memory_limit(gpus[0], larger * kMiB);
    EXPECT_EQ(limits(), std::pair(512UL, 256UL)) << larger;
  }
  runtime.set_memory_limit(gpus[0], 300 * kMiB);
  EXPECT_EQ(limits(), std::pair(200UL, 100UL)) << "a smaller limit is divided in proportion";
  runtime.set_memory_limit(gpus[0], 12288 * kMiB);
  EXPECT_EQ(limits(), std::pair(512UL, 256UL));
  EXPECT_THROW((void)runtime.allocate(0, 513 * kMiB), MemoryLimitExceeded);
  // A device without a number of its own has the limit, also when it grows.
  runtime.set_memory_limit(gpus[1], 1024 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:2").limit, 1024 * kMiB);
  runtime.set_memory_limit(gpus[1], 2048 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:2").limit, 2048 * kMiB);
}

TEST_F(DeviceConfiguration, LoweringItsOwnLimitTellsToo) {
  runtime.set_memory_growth(gpus[0], true);
  runtime.set_memory_limit(gpus[0], 1024 * kMiB);
  void* cache = runtime.allocate(0, 500 * kMiB);
  const std::uint64_t number = runtime.on_pressure([&](std::uint64_t wanted) {
    EXPECT_EQ(wanted, 0U);
    runtime.deallocate(0, std::exchange(cache, nullptr));
  });
  runtime.set_memory_limit(gpus[0], 100 * kMiB);
  EXPECT_EQ(cache, nullptr);
  EXPECT_LE(runtime.get_memory_info("GPU:0").held, 100 * kMiB);
  runtime.remove_pressure_callback(number);
  // Who is told may wait for another thread that uses the runtime: nobody is told under its lock.
  int told = 0;
  const std::uint64_t waiting = runtime.on_pressure([&](std::uint64_t) {
    std::thread([&] { (void)runtime.get_memory_info("GPU:0"); }).join();
    ++told;
  });
  cache = runtime.allocate(0, 90 * kMiB);
  runtime.set_memory_limit(gpus[0], std::string("64MiB"));
  runtime.set_memory_limit_fraction(gpus[0], 48.0 / 16384);
  runtime.set_memory_limit(gpus[0], 32 * kMiB);
  EXPECT_EQ(told, 3);
  runtime.deallocate(0, cache);
  runtime.remove_pressure_callback(waiting);
  // What a callback holds may itself take one away when it goes.
  struct Taker {
    Runtime* runtime;
    std::uint64_t other;
    ~Taker() { runtime->remove_pressure_callback(other); }
  };
  const std::uint64_t other = runtime.on_pressure([](std::uint64_t) {});
  auto taker = std::make_shared<Taker>(Taker{&runtime, other});
  const std::uint64_t holding = runtime.on_pressure([kept = std::move(taker)](std::uint64_t) {});
  runtime.remove_pressure_callback(holding);
}

TEST_F(DeviceConfiguration, MemoryInfoTakesEveryFormOfAName) {
  runtime.set_memory_growth(gpus[0], true);
  runtime.set_memory_growth(gpus[1], true);
  for (const char* name :
       {"GPU:0", "/gpu:0", "/GPU:0", "/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:0"})
    EXPECT_EQ(runtime.get_memory_info(name).current, 0U) << name;
  for (const char* name : {"", "GPU", "gpu:", "GPU:0:1", "device GPU:0"}) {
    expect_error<ValueError>(std::string("Failed parsing device name: '") + name +
                                 "'. Note a valid device string should at least contain a device type and a device "
                                 "index, like \"GPU:0\".",
                             [&] { (void)runtime.get_memory_info(name); });
  }
  expect_error<ValueError>("No matching devices found for 'GPU:5'", [&] { (void)runtime.get_memory_info("GPU:5"); });
  expect_error<ValueError>("Allocator stats not available for device 'CPU:0'",
                           [&] { (void)runtime.get_memory_info("CPU:0"); });
  expect_error<ValueError>("Cannot reset memory stats for device 'CPU:0'",
                           [&] { runtime.reset_memory_stats("CPU:0"); });
}

TEST_F(DeviceConfiguration, DetailsTellTheDeviceAndItsMemory) {
  const DeviceDetails details = runtime.get_device_details(gpus[0]);
  EXPECT_EQ(details.device_name, "Tesla T4");
  EXPECT_EQ(details.compute_capability, std::pair(7, 5));
  EXPECT_EQ(details.memory_total, 16384 * kMiB);
  EXPECT_EQ(details.memory_used, 0U) << "looking takes nothing";
  expect_error<ValueError>(
      "The PhysicalDevice must be one obtained from calling `tf.config.list_physical_devices`, but got: " +
          unknown.repr(),
      [&] { (void)runtime.get_device_details(unknown); });
}

TEST_F(DeviceConfiguration, LimitsMayChangeAtAnyTimeAlsoWithGrowthThatDiffers) {
  runtime.set_memory_growth(gpus[0], true);
  runtime.set_memory_limit(gpus[0], "64MiB");
  runtime.set_memory_limit_fraction(gpus[1], 0.01);
  EXPECT_EQ(runtime.list_logical_devices("GPU").size(), 2U);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").limit, 64 * kMiB);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").held, 0U);
  EXPECT_GT(runtime.get_memory_info("GPU:1").held, 150 * kMiB) << "the other one does not grow";
  void* first = runtime.allocate(0, 40 * kMiB);
  try {
    (void)runtime.allocate(0, 40 * kMiB);
    ADD_FAILURE();
  } catch (const MemoryLimitExceeded& refused) {
    EXPECT_EQ(refused.requested, 40 * kMiB);
    EXPECT_EQ(refused.limit, 64 * kMiB);
    EXPECT_EQ(refused.held, 40 * kMiB);
    EXPECT_NE(std::string(refused.what()).find("ration.limit"), std::string::npos) << "what to do";
  }
  runtime.set_memory_limit(gpus[0], 100 * kMiB);
  void* second = runtime.allocate(0, 40 * kMiB);
  runtime.set_memory_limit(gpus[0], 16 * kMiB);
  runtime.deallocate(0, second);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").held, 40 * kMiB) << "what is free goes at once";
  EXPECT_THROW((void)runtime.allocate(0, kMiB), MemoryLimitExceeded);
  runtime.deallocate(0, first);
  EXPECT_LE(runtime.get_memory_info("GPU:0").held, 16 * kMiB);
  for (const char* wrong : {"0", "4096", "-1GiB", "50%%", "17GiB", "many"})
    EXPECT_THROW(runtime.set_memory_limit(gpus[0], wrong), ValueError) << wrong;
  EXPECT_THROW(runtime.set_memory_limit(gpus[0], std::uint64_t{0}), ValueError);
  EXPECT_THROW(runtime.set_memory_limit_fraction(gpus[0], 1.5), ValueError);
  EXPECT_THROW(runtime.set_memory_limit(cpu, kMiB), ValueError);
}

TEST_F(DeviceConfiguration, ThreadsMayAllocateWhileLimitsChange) {
  runtime.set_memory_limit(gpus[0], 256 * kMiB);
  runtime.set_memory_growth(gpus[0], true);
  runtime.initialize();
  std::atomic<int> working{3};
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&, index] {
      const TagScope tag("worker " + std::to_string(index));
      std::vector<void*> held;
      for (std::uint64_t step = 0; step < 3000; ++step) {
        void* const stream = reinterpret_cast<void*>(step % 3);  // 0 to 2: the default streams
        const std::uint64_t size = std::uint64_t{1} << (8 + (step * 7 + static_cast<std::uint64_t>(index)) % 17);
        try {
          held.push_back(runtime.allocate(0, size, stream));
        } catch (const MemoryLimitExceeded&) {
        }
        if (held.size() > 20) {
          std::swap(held[step % held.size()], held.back());
          runtime.deallocate(0, held.back(), stream);
          held.pop_back();
        }
      }
      for (void* address : held) runtime.deallocate(0, address);
      --working;
    });
  }
  while (working > 0) {
    for (const std::uint64_t mib : {64, 256, 16, 200}) runtime.set_memory_limit(gpus[0], mib * kMiB);
    runtime.trim(0);
    (void)runtime.memory_map_json(0);
    (void)runtime.tag_usage(0);
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(runtime.get_memory_info("GPU:0").current, 0U);
  EXPECT_TRUE(runtime.tag_usage(0).empty());
  runtime.trim(0);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").held, 0U);
}

TEST_F(DeviceConfiguration, APointerThatIsNotItsOwnIsNamed) {
  runtime.set_memory_growth(gpus[0], true);
  runtime.set_memory_growth(gpus[1], true);
  void* address = runtime.allocate(0, 1000);
  EXPECT_THROW(runtime.deallocate(1, address), ValueError) << "another device's";
  runtime.deallocate(0, address);
  EXPECT_THROW(runtime.deallocate(0, address), ValueError);
  EXPECT_THROW((void)runtime.allocate(7, 1000), ValueError);
  EXPECT_THROW((void)runtime.allocate(0, 1000, nullptr, 3), ValueError);
  EXPECT_THROW((void)runtime.allocate(0, ~std::size_t{0}), std::exception);
  EXPECT_EQ(runtime.get_memory_info("GPU:0").current, 0U);
}

TEST_F(DeviceConfiguration, TagsTellWhoHoldsWhat) {
  runtime.set_memory_limit(gpus[0], 64 * kMiB);
  runtime.set_memory_growth(gpus[0], true);
  void* untagged = runtime.allocate(0, kMiB);
  void *weights = nullptr, *state = nullptr;
  {
    const TagScope model("model");
    weights = runtime.allocate(0, 10 * kMiB);
    const TagScope optimizer("the \"optimizer\"");
    state = runtime.allocate(0, 20 * kMiB);
  }
  const auto usage = runtime.tag_usage(0);
  ASSERT_EQ(usage.size(), 2U);
  EXPECT_EQ(usage[0].tag, "the \"optimizer\"");
  EXPECT_EQ(usage[0].bytes, 20 * kMiB);
  EXPECT_EQ(usage[1].blocks, 1U);
  EXPECT_NE(runtime.memory_map_json(0).find(R"("tag":"the \"optimizer\"")"), std::string::npos);
  try {
    (void)runtime.allocate(0, 60 * kMiB);
    ADD_FAILURE();
  } catch (const MemoryLimitExceeded& refused) {
    EXPECT_NE(std::string(refused.what()).find("'model' holds 10.0 MiB in 1 blocks"), std::string::npos)
        << refused.what();
  }
  runtime.deallocate(0, state);
  EXPECT_EQ(runtime.tag_usage(0).size(), 1U);
  runtime.deallocate(0, weights);
  runtime.deallocate(0, untagged);
  EXPECT_TRUE(runtime.tag_usage(0).empty());
}

TEST_F(DeviceConfiguration, TheMapTellsWhatStandsWhere) {
  runtime.set_memory_limit(gpus[0], 64 * kMiB);
  runtime.set_memory_growth(gpus[0], true);
  void* kept = runtime.allocate(0, 8 * kMiB);
  const std::string json = runtime.memory_map_json(0);
  EXPECT_NE(json.find(R"("state":"held")"), std::string::npos) << json;
  EXPECT_NE(runtime.memory_map_svg(0).find("<svg"), std::string::npos);
  runtime.deallocate(0, kept);
}

/// Until every other thread of this process sleeps.
void until_the_others_sleep() {
  for (bool all = false; !all;) {
    all = true;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "stat");
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const std::string tid = task.path().filename();
      if (std::stol(tid) != ::syscall(SYS_gettid) && text.substr(text.rfind(')') + 2, 1) != "S") all = false;
    }
  }
}

TEST(Fork, AChildOfARuntimeWithAThreadEndsWhateverTheThreadWasDoing) {
  ::setenv("RATION_IDLE_TRIM", "1h", 1);  // the thread is there for that
  auto runtime = std::make_unique<Runtime>();
  runtime->initialize();
  ::unsetenv("RATION_IDLE_TRIM");
  until_the_others_sleep();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // ends a child that waits for a thread that it does not have
    runtime.reset();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace ration

int main(int argc, char** argv) {
  char folder[] = "/tmp/ration-runtime-test-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  ::setenv("RATION_SIM", "T4:16GiB*2", 1);
  ::setenv("RATION_SIM_DIR", folder, 1);
  if (::dlopen(SIM_FOLDER "/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr ||
      ::dlopen(SIM_FOLDER "/libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return 1;
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  return result;
}
