// CUDA arrays: two- and three-dimensional, layered, cube maps, mipmapped. The driver does not report their size, so it
// is computed from the description: bytes (not bits), all layers, all levels, in whole granules. Sparse and deferred
// arrays cost nothing: see array_mappings.cpp.
#include <algorithm>

#include "driver/cuda_array_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/charged_handles.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/written.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

ChargedHandles arrays;  // arrays and mipmapped arrays, whose handles differ

/// Returns the bits of one texel. Formats with numbers above 0x90 are block-compressed or video formats, which never
/// need more than 128 bits a texel.
std::uint64_t bits_per_texel(unsigned format, unsigned channels) noexcept {
  const std::uint64_t count = std::max(1U, channels);
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 8 * count;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 16 * count;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 32 * count;
    default:
      return 32 * std::max<std::uint64_t>(count, 4);
  }
}

std::uint64_t saturating_multiply(std::uint64_t left, std::uint64_t right) noexcept {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? kUnlimited.count() : product;
}

struct Shape {
  std::uint64_t width = 0, height = 0, depth = 0;
  unsigned format = 0, channels = 0, flags = 0, levels = 1;
};

Bytes cost_of(const Shape& shape) noexcept {
  if ((shape.flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return Bytes{0};
  const std::uint64_t texel = (bits_per_texel(shape.format, shape.channels) + 7) / 8;
  std::uint64_t total = 0;
  for (unsigned level = 0; level < std::min(shape.levels, 32U); ++level) {
    const std::uint64_t width = std::max<std::uint64_t>(1, shape.width >> level);
    const std::uint64_t height = std::max<std::uint64_t>(1, shape.height >> level);
    const bool layered = (shape.flags & CUDA_ARRAY3D_LAYERED) != 0;  // all levels have the same number of layers
    const std::uint64_t depth = std::max<std::uint64_t>(1, layered ? shape.depth : shape.depth >> level);
    const std::uint64_t plane = saturating_multiply(saturating_multiply(width, texel), height);
    total = std::min(kUnlimited.count(), total + saturating_multiply(plane, depth));
  }
  return round_up(Bytes{total}, kGranule);
}

/// Charges an array that `call(&handle)` creates. Reads the program's description once and writes the program's handle
/// once, because another thread may change either.
template <typename Handle, typename Call>
CUresult take_array(const Shape& shape, const char* function, Handle* out, Call&& call) noexcept {
  const Bytes cost = cost_of(shape);
  const Place place = current_place();
  Written<Handle> made;
  const auto make = [&] { return call(made.place()); };
  const bool is_free = place.context == 0 || cost == Bytes{0};
  Recorded event(trace::Kind::kAllocate, cost.count());
  const CUresult result = is_free ? make() : charged(place.account, cost, Kind::kHeap, function, make);
  event.failed(result, place.account);
  if (result == CUDA_SUCCESS && place.context != 0) {
    arrays.enter(reinterpret_cast<std::uint64_t>(made.value()), place, cost);
    event.done(reinterpret_cast<std::uint64_t>(made.value()), place.account);
  }
  made.hand_on(out);
  return result;
}

template <typename Handle, typename Call>
CUresult release_array(Handle handle, Call&& call) noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  const std::uint64_t last = last_array_mapping();
  return arrays.release(key, call, [&](Bytes size) {
    if (size == Bytes{0}) array_mappings_are_gone(key, last);
  });
}

template <typename Description>
Shape flat_shape(const Description& description) noexcept {
  Shape shape;
  shape.width = description.Width;
  shape.height = description.Height;
  shape.format = static_cast<unsigned>(description.Format);
  shape.channels = description.NumChannels;
  return shape;
}

template <typename Description>
Shape deep_shape(const Description& description) noexcept {
  Shape shape = flat_shape(description);
  shape.depth = description.Depth;
  shape.flags = description.Flags;
  return shape;
}

}  // namespace

void arrays_of_context_are_gone(std::uint64_t context) noexcept {
  const std::uint64_t last = last_array_mapping();
  arrays.context_is_gone(context, [&](std::uint64_t key, Bytes size) {
    if (size == Bytes{0}) array_mappings_are_gone(key, last);
  });
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { arrays.abandon(); });

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

#define RATION_ARRAY_CREATE(name, description_type, shape_of)                                               \
  RATION_HOOK CUresult name(CUarray* out, const description_type* description) {                            \
    auto* call_real = real<name##_t>(Symbol::name);                                                         \
    if (!governed() || out == nullptr || description == nullptr) return call_real(out, description);        \
    const description_type asked = *description;                                                            \
    return take_array(shape_of(asked), #name, out, [&](CUarray* made) { return call_real(made, &asked); }); \
  }
RATION_ARRAY_CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, flat_shape)
RATION_ARRAY_CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, flat_shape)
RATION_ARRAY_CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, deep_shape)
RATION_ARRAY_CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, deep_shape)
#undef RATION_ARRAY_CREATE

RATION_HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* description,
                                            unsigned int levels) {
  auto* call_real = real<cuMipmappedArrayCreate_t>(Symbol::cuMipmappedArrayCreate);
  if (!governed() || out == nullptr || description == nullptr) return call_real(out, description, levels);
  const CUDA_ARRAY3D_DESCRIPTOR asked = *description;
  Shape shape = deep_shape(asked);
  shape.levels = std::max(1U, levels);
  return take_array(shape, "cuMipmappedArrayCreate", out,
                    [&](CUmipmappedArray* made) { return call_real(made, &asked, levels); });
}

RATION_HOOK CUresult cuArrayDestroy(CUarray array) {
  auto* call_real = real<cuArrayDestroy_t>(Symbol::cuArrayDestroy);
  if (!governed()) return call_real(array);
  return release_array(array, [&] { return call_real(array); });
}

RATION_HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  auto* call_real = real<cuMipmappedArrayDestroy_t>(Symbol::cuMipmappedArrayDestroy);
  if (!governed()) return call_real(array);
  return release_array(array, [&] { return call_real(array); });
}
