// What a profiler hears of the simulated device through the stand-ins for CUPTI, of both versions. The places of fields
// in records are those of NVIDIA's headers for CUDA 12.9 and 13.2.
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "simulated.hpp"

namespace ration::testing {
namespace {

// CUpti_ActivityKind
constexpr std::uint32_t kCopy = 1, kFill = 2, kDriver = 4, kKernel = 10, kExternal = 39, kMemory = 45, kMemory2 = 49;
// CUptiResult
constexpr int kMaxReached = 12, kNotSupported = 27, kSubscribed = 39;

struct Record {
  std::vector<std::uint8_t> bytes;
  template <typename Value>
  [[nodiscard]] Value at(std::size_t place) const {
    Value value{};
    std::memcpy(&value, bytes.data() + place, sizeof value);
    return value;
  }
  [[nodiscard]] std::uint32_t word(std::size_t place) const { return at<std::uint32_t>(place); }
  [[nodiscard]] std::uint64_t wide(std::size_t place) const { return at<std::uint64_t>(place); }
  [[nodiscard]] unsigned byte(std::size_t place) const { return bytes[place]; }
  [[nodiscard]] std::uint32_t kind() const { return word(0); }
};

// What the program's functions keep: CUPTI calls them without a word of whose they are.
std::size_t buffer_size;
std::vector<std::unique_ptr<std::uint64_t[]>> given;
std::vector<Record> records;
int completed;
int (*next_record)(std::uint8_t*, std::size_t, std::uint8_t**);

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  given.push_back(std::make_unique<std::uint64_t[]>(buffer_size / 8));
  *buffer = reinterpret_cast<std::uint8_t*>(given.back().get());
  *size = buffer_size;
  *most = 0;
}
void take_buffer(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t used) {
  std::uint8_t *record = nullptr, *before = nullptr;
  ++completed;
  while (next_record(buffer, used, &record) == 0) {
    if (before != nullptr) records.push_back({{before, record}});
    before = record;
  }
  EXPECT_EQ(next_record(buffer, used, &record), kMaxReached);
  if (before != nullptr) records.push_back({{before, buffer + used}});
}

class ProfilerTest : public Simulated, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    const std::string path = std::string(SIM_FOLDER "/cuda") + GetParam() + "/libcupti.so." + GetParam();
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    next_record = reinterpret_cast<decltype(next_record)>(::dlsym(library_, "cuptiActivityGetNextRecord"));
    records.clear(), given.clear();
    completed = 0;
    buffer_size = 1 << 20;
    ASSERT_EQ(ask("cuptiActivityRegisterCallbacks", give_buffer, take_buffer), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ask("cuptiFinalize"), 0);
    Simulated::TearDown();
  }

  template <typename... Arguments>
  int ask(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function == nullptr ? -1 : function(arguments...);
  }
  void want(std::initializer_list<std::uint32_t> kinds) {
    for (const std::uint32_t kind : kinds) ASSERT_EQ(ask("cuptiActivityEnable", kind), 0);
  }
  /// Those of a kind, in their order.
  std::vector<Record> told(std::uint32_t kind) {
    EXPECT_EQ(ask("cuptiActivityFlushAll", 0U), 0);
    std::vector<Record> found;
    for (const Record& record : records)
      if (record.kind() == kind) found.push_back(record);
    return found;
  }
  CUdeviceptr take(std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&address, size), CUDA_SUCCESS);
    return address;
  }
  void drop(CUdeviceptr address) { EXPECT_EQ(CU(cuMemFree_v2)(address), CUDA_SUCCESS); }

  void* library_ = nullptr;
};

TEST_P(ProfilerTest, EveryAllocationAndFreeIsToldWithItsBytesAndAddress) {
  const CUdeviceptr before = take(3 * kMiB);
  want({kMemory2, kMemory, kDriver});
  std::map<std::uint64_t, std::uint64_t> taken;
  for (const std::size_t size : {std::size_t{1000}, 5 * kMiB + 1, std::size_t{7}}) taken[take(size)] = size;
  CUdeviceptr pooled = 0;
  ASSERT_EQ(CU(cuMemAllocAsync)(&pooled, 300, nullptr), CUDA_SUCCESS);
  CUdeviceptr too_much = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&too_much, 2048 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  for (const auto& [address, size] : taken) drop(address);
  drop(before);
  ASSERT_EQ(CU(cuMemFreeAsync)(pooled, nullptr), CUDA_SUCCESS);

  constexpr std::uint32_t kAllocation = 1, kRelease = 2, kDevice = 3, kNoStream = 0xFFFFFFFF;
  std::map<std::uint64_t, std::uint64_t> allocated, released;
  for (const Record& record : told(kMemory2)) {
    ASSERT_EQ(record.bytes.size(), 128u);
    auto& side = record.word(4) == kAllocation ? allocated : released;
    EXPECT_TRUE(record.word(4) == kAllocation || record.word(4) == kRelease);
    EXPECT_EQ(record.word(8), kDevice);
    EXPECT_TRUE(side.emplace(record.wide(16), record.wide(24)).second);
    const bool is_of_pool = record.wide(16) == pooled;
    EXPECT_EQ(record.word(72), is_of_pool);
    EXPECT_EQ(record.word(60) == kNoStream, !is_of_pool);
    EXPECT_EQ(record.word(80), is_of_pool);
    if (is_of_pool && record.word(4) == kAllocation) {
      EXPECT_EQ(record.wide(104), 32 * kMiB) << "the pool's size";
    }
  }
  taken[pooled] = 300;
  EXPECT_EQ(allocated, taken);
  taken[before] = 3 * kMiB;
  EXPECT_EQ(released, taken);

  const auto both = told(kMemory);
  ASSERT_EQ(both.size(), 4u) << "those whose allocation was seen";
  for (const Record& record : both) {
    EXPECT_EQ(record.wide(16), taken.at(record.wide(8)));
    EXPECT_LT(record.wide(24), record.wide(32)) << "freed later";
  }
  const auto calls = told(kDriver);
  constexpr std::uint32_t kMemAlloc = 243;
  ASSERT_EQ(calls.size(), 10u);
  EXPECT_EQ(calls[4].word(4), kMemAlloc);
  EXPECT_EQ(calls[4].word(36), CUDA_ERROR_OUT_OF_MEMORY) << "what failed is a call, and no memory";
  ASSERT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
}

TEST_P(ProfilerTest, CopiesAndFillsAreToldWithTheirKindsBytesAndStream) {
  const CUdeviceptr one = take(kMiB), two = take(kMiB);
  void* pinned = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(CU(cuMemHostAlloc)(&pinned, 4096, 0), CUDA_SUCCESS);
  ASSERT_EQ((driver_function<CUresult(CUstream*, unsigned)>("cuStreamCreate")(&stream, 1)), CUDA_SUCCESS);
  std::uint32_t own = 0;
  ASSERT_EQ(ask("cuptiGetStreamIdEx", static_cast<void*>(nullptr), stream, std::uint8_t{0}, &own), 0);
  want({kCopy, kFill, kDriver, kExternal});
  std::vector<unsigned char> host(100);
  ASSERT_EQ(ask("cuptiActivityPushExternalCorrelationId", 3U, std::uint64_t{77}), 0);
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(one, host.data(), 100), CUDA_SUCCESS);
  std::uint64_t last = 0;
  ASSERT_EQ(ask("cuptiActivityPopExternalCorrelationId", 3U, &last), 0);
  EXPECT_EQ(last, 77u);
  EXPECT_NE(ask("cuptiActivityPopExternalCorrelationId", 3U, &last), 0) << "there is none left";
  ASSERT_EQ(CU(cuMemcpyDtoDAsync_v2)(two + 8, one, 300, stream), CUDA_SUCCESS);
  ASSERT_EQ((driver_function<CUresult(void*, CUdeviceptr, std::size_t, CUstream)>("cuMemcpyDtoHAsync_v2")(
                pinned, two, 4096, stream)),
            CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemsetD32_v2)(one, 0xabcd, 25), CUDA_SUCCESS);

  const auto copies = told(kCopy);
  constexpr unsigned kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 8, kPageable = 1, kPinned = 2, kDevice = 3;
  const unsigned expected[3][5] = {{kHostToDevice, kPageable, kDevice, 0, 100},
                                   {kDeviceToDevice, kDevice, kDevice, 1, 300},
                                   {kDeviceToHost, kDevice, kPinned, 1, 4096}};
  ASSERT_EQ(copies.size(), 3u);
  const auto calls = told(kDriver);
  constexpr std::uint32_t kNumbers[] = {276, 281, 279, 251};
  ASSERT_EQ(calls.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(copies[i].bytes.size(), 96u);
    for (std::size_t place = 0; place < 4; ++place) EXPECT_EQ(copies[i].byte(4 + place), expected[i][place]) << i;
    EXPECT_EQ(copies[i].wide(8), expected[i][4]);
    EXPECT_LE(copies[i].wide(16), copies[i].wide(24));
    EXPECT_EQ(copies[i].word(40) == own, i > 0);
    EXPECT_EQ(copies[i].word(44), calls[i].word(32)) << "one number for the call and the work";
    EXPECT_EQ(calls[i].word(4), kNumbers[i]);
  }
  const auto fills = told(kFill);
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].word(4), 0xabcdu);
  EXPECT_EQ(fills[0].wide(8), 100u);
  EXPECT_EQ(fills[0].at<std::uint16_t>(50), kDevice);
  EXPECT_EQ(calls[3].word(4), kNumbers[3]);
  const auto external = told(kExternal);
  ASSERT_EQ(external.size(), 1u);
  EXPECT_EQ(external[0].wide(8), 77u);
  EXPECT_EQ(external[0].word(16), copies[0].word(44));

  drop(one), drop(two);
  EXPECT_EQ(CU(cuMemFreeHost)(pinned), CUDA_SUCCESS);
  EXPECT_EQ(driver_function<CUresult(CUstream)>("cuStreamDestroy_v2")(stream), CUDA_SUCCESS);
}

TEST_P(ProfilerTest, KernelsOnAStreamFollowEachOtherForAsLongAsTheyTake) {
  want({kKernel});
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  ASSERT_EQ(CU(cuModuleLoadData)(&module, "any image"), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuModuleGetFunction)(&spin, module, "spin_kernel"), CUDA_SUCCESS);
  for (std::int64_t cycles : {1'590'000 * 40, 1'590'000 * 20}) {  // milliseconds of a T4
    void* arguments[] = {&cycles};
    ASSERT_EQ(CU(cuLaunchKernel)(spin, 2, 3, 4, 5, 6, 7, 8, nullptr, arguments, nullptr), CUDA_SUCCESS);
  }
  ASSERT_EQ(CU(cuModuleUnload)(module), CUDA_SUCCESS);
  const auto kernels = told(kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].bytes.size(), std::string("13") == GetParam() ? 224u : 208u);
  EXPECT_STREQ(kernels[0].at<const char*>(104), "spin_kernel") << "though its module is gone";
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(kernels[0].word(52 + 4 * i), 2 + i);
  EXPECT_EQ(kernels[0].word(80), 8u);
  const auto duration = [&](int i) { return static_cast<double>(kernels[i].wide(24) - kernels[i].wide(16)) * 1e-6; };
  EXPECT_NEAR(duration(0), 40, 1);
  EXPECT_NEAR(duration(1), 20, 1);
  EXPECT_NEAR(static_cast<double>(kernels[1].wide(16)), static_cast<double>(kernels[0].wide(24)), 1e6);
  ASSERT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
}

TEST_P(ProfilerTest, SmallBuffersAreFilledOneAfterTheOtherAndNothingIsLost) {
  buffer_size = 400;  // four records of 96 bytes
  want({kCopy});
  const CUdeviceptr at = take(64);
  for (unsigned i = 1; i <= 9; ++i) ASSERT_EQ(CU(cuMemsetD32_v2)(at, i, 1), CUDA_SUCCESS);
  char host[32] = {};
  for (std::size_t size = 1; size <= 10; ++size) ASSERT_EQ(CU(cuMemcpyHtoD_v2)(at, host, size), CUDA_SUCCESS);
  const auto copies = told(kCopy);
  ASSERT_EQ(copies.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(copies[i].wide(8), i + 1);
  EXPECT_EQ(completed, 3);
  buffer_size = 8;
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(at, host, 1), CUDA_SUCCESS);
  std::size_t lost = 0;
  ASSERT_EQ(ask("cuptiActivityGetNumDroppedRecords", static_cast<void*>(nullptr), 0U, &lost), 0);
  EXPECT_EQ(lost, 1u) << "one that no buffer has room for";
  drop(at);
}

struct Heard {
  std::uint32_t number;
  bool is_exit;
  std::uint64_t first, second;
};
std::vector<Heard> heard;
void hear(void* user, std::uint32_t domain, std::uint32_t number, const void* data) {
  EXPECT_EQ(user, &heard);
  EXPECT_EQ(domain, 1u);
  const auto* place = static_cast<const std::uint8_t*>(data);  // CUpti_CallbackData
  int is_exit = 0;
  const std::uint64_t* parameters = nullptr;
  std::uint64_t* kept = nullptr;
  std::memcpy(&is_exit, place, sizeof is_exit);
  std::memcpy(&parameters, place + 16, sizeof parameters);
  std::memcpy(&kept, place + 56, sizeof kept);
  if (is_exit == 0) *kept = 4711 + number;
  EXPECT_EQ(*kept, 4711 + number) << "kept from the beginning to the end";
  heard.push_back({number, is_exit != 0, parameters[0], parameters[1]});
}

TEST_P(ProfilerTest, ASubscriberHearsOfCallsAsTheyBeginAndEnd) {
  heard.clear();
  void *subscriber = nullptr, *second = nullptr;
  ASSERT_EQ(ask("cuptiSubscribe", &subscriber, hear, static_cast<void*>(&heard)), 0);
  EXPECT_EQ(ask("cuptiSubscribe", &second, hear, static_cast<void*>(nullptr)), kSubscribed);
  constexpr std::uint32_t kDriverApi = 1, kMemAlloc = 243;
  ASSERT_EQ(ask("cuptiEnableCallback", 1U, subscriber, kDriverApi, kMemAlloc), 0);
  CUdeviceptr address = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&address, 12345), CUDA_SUCCESS);
  drop(address);
  ASSERT_EQ(heard.size(), 2u) << "only of what it wants to hear";
  EXPECT_FALSE(heard[0].is_exit);
  EXPECT_TRUE(heard[1].is_exit);
  for (const Heard& one : heard) {
    EXPECT_EQ(one.number, kMemAlloc);
    EXPECT_EQ(one.first, reinterpret_cast<std::uint64_t>(&address));
    EXPECT_EQ(one.second, 12345u);
  }
  const char* name = nullptr;
  ASSERT_EQ(ask("cuptiGetCallbackName", kDriverApi, kMemAlloc, &name), 0);
  EXPECT_STREQ(name, "cuMemAlloc_v2");
  ASSERT_EQ(ask("cuptiUnsubscribe", subscriber), 0);
  drop(take(1));
  EXPECT_EQ(heard.size(), 2u);
}

TEST_P(ProfilerTest, WhoNoLongerWantsRecordsGetsNone) {
  want({kMemory2});
  drop(take(100));
  ASSERT_EQ(ask("cuptiActivityDisable", kMemory2), 0);
  drop(take(100));
  EXPECT_EQ(told(kMemory2).size(), 2u);
}

TEST_P(ProfilerTest, RecordsHaveTheProgramsClock) {
  static std::uint64_t ticks;
  ticks = 1'000;
  want({kFill});
  ASSERT_EQ(ask(
                "cuptiActivityRegisterTimestampCallback", +[]() -> std::uint64_t { return ++ticks; }),
            0);
  const CUdeviceptr at = take(64);
  ASSERT_EQ(CU(cuMemsetD32_v2)(at, 1, 1), CUDA_SUCCESS);
  const auto fills = told(kFill);
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_GT(fills[0].wide(16), 1'000u);
  EXPECT_LE(fills[0].wide(24), ticks);
  drop(at);
  ASSERT_EQ(ask("cuptiActivityRegisterTimestampCallback", static_cast<std::uint64_t (*)()>(nullptr)), 0);
}

TEST_P(ProfilerTest, WhatIsNotSimulatedSaysSo) {
  const int result = ask("cuptiPCSamplingEnable", static_cast<void*>(nullptr));
  EXPECT_EQ(result, kNotSupported);
  const char* text = nullptr;
  ASSERT_EQ(ask("cuptiGetResultString", result, &text), 0);
  EXPECT_NE(std::strstr(text, "cuptiPCSamplingEnable"), nullptr) << text;
}

INSTANTIATE_TEST_SUITE_P(Cuda, ProfilerTest, ::testing::Values("12", "13"));

}  // namespace
}  // namespace ration::testing
