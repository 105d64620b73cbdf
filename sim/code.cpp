#include "code.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "driver/code_image.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

/// The granules of the device that a context's code holds.
struct Held {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> granules;
};
auto& held() {
  static auto* map = new std::unordered_map<const Context*, Held>;  // never destroyed: atexit handlers call the driver
  return *map;
}

std::uint64_t granules_of(std::uint64_t bytes) { return round_up(Bytes{bytes}, kGranule).count() / kGranule.count(); }

/// Grows or shrinks the code of a context to `bytes`. Returns false if the device is full.
bool resize(const Context* context, Held& code, std::uint64_t bytes) {
  Node& node = *Node::get();
  const std::uint64_t before = code.granules.size(), after = granules_of(bytes);
  Granules change;
  if (after > before) {
    if (!node.take(context->device, after - before, change)) return false;
    for (std::uint32_t i = 0; i < change.count; ++i) code.granules.push_back(change.at(i));
  } else if (after < before) {
    change.count = static_cast<std::uint32_t>(before - after);
    change.scattered.assign(code.granules.begin() + static_cast<std::ptrdiff_t>(after), code.granules.end());
    code.granules.resize(after);
    node.give(context->device, change);
  }
  code.bytes = bytes;
  return true;
}

/// Returns the address of a block of host memory that stands for code on the device, or 0 if there is no room.
std::uint64_t reserve(std::uint64_t size) {
  void* range = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(range);
}

template <typename Read>
CUresult read_image(Read&& read, std::uint64_t start, std::uint64_t end, bool pointers, int device, SharedCode& out) {
  const Model& model = Node::get()->models()[static_cast<std::size_t>(device)];
  const auto capability = static_cast<driver::Capability>(10 * model.capability_major + model.capability_minor);
  const driver::CodeImage image = driver::code_image(read, start, end, pointers, capability);
  if (image.telling == driver::Telling::kBroken) return CUDA_ERROR_INVALID_IMAGE;
  auto code = std::make_shared<Code>();
  code->size = image.size.count();
  code->capability = image.capability;
  std::vector<Elf64_Shdr> sections;
  std::vector<std::uint64_t> places;
  Bytes size;
  if (image.readable) {
    (void)driver::visit_sections(read, image.start, end, size, [&](const Elf64_Shdr& section, std::uint64_t place) {
      sections.push_back(section);
      places.push_back(place);
    });
  }
  const auto text_at = [&](std::uint64_t at) {
    std::string text;
    for (char each = 0; read(at, &each, 1) && each != '\0'; ++at) text += each;
    return text;
  };
  for (std::size_t index = 0; index < sections.size(); ++index) {
    const Elf64_Shdr& section = sections[index];
    if (section.sh_type == SHT_SYMTAB && section.sh_link < sections.size()) {
      Elf64_Sym symbol;
      for (std::uint64_t at = 0; at + sizeof symbol <= section.sh_size; at += sizeof symbol) {
        if (!read(image.start + section.sh_offset + at, &symbol, sizeof symbol)) return CUDA_ERROR_INVALID_IMAGE;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= sections.size()) continue;
        const std::uint64_t place = places[symbol.st_shndx];
        if (place == driver::image::kNoEnd || symbol.st_value > sections[symbol.st_shndx].sh_size) continue;
        code->globals.emplace(text_at(image.start + sections[section.sh_link].sh_offset + symbol.st_name),
                              Global{place + symbol.st_value, symbol.st_size});
      }
    }
    const bool has_values = section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) == 0 &&
                            places[index] != driver::image::kNoEnd && section.sh_size > 0;
    if (!has_values) continue;
    char last = 0;  // checks the last byte before allocating as many bytes as the image claims to have
    if (!read(image.start + section.sh_offset + section.sh_size - 1, &last, 1)) return CUDA_ERROR_INVALID_IMAGE;
    std::string bytes(section.sh_size, '\0');
    if (!read(image.start + section.sh_offset, bytes.data(), bytes.size())) return CUDA_ERROR_INVALID_IMAGE;
    code->values.emplace_back(places[index], std::move(bytes));
  }
  out = std::move(code);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult read_code(const void* image, int device, SharedCode& out) {
  // Reads the memory by a system call, which returns an error where a direct read would end the process by a signal.
  const auto read = [](std::uint64_t at, void* to, std::size_t size) {
    const iovec target{to, size}, source{reinterpret_cast<void*>(at), size};
    return ::process_vm_readv(::getpid(), &target, 1, &source, 1, 0) == static_cast<ssize_t>(size);
  };
  return read_image(read, reinterpret_cast<std::uint64_t>(image), driver::image::kNoEnd, true, device, out);
}

CUresult read_code(const std::string& file, int device, SharedCode& out) {
  const auto read = [&](std::uint64_t at, void* to, std::size_t size) {
    if (!driver::image::within(at, size, file.size())) return false;
    std::memcpy(to, file.data() + at, size);
    return true;
  };
  return read_image(read, 0, file.size(), false, device, out);
}

bool place_code(Context* context, const SharedCode& code, Placed& out) {
  out = {code, 0};
  if (code->size == 0) return true;
  if (code->size >= kUnlimited.count()) return false;
  Held& all = held()[context];
  if (!resize(context, all, all.bytes + code->size)) return false;
  out.address = reserve(code->size);
  if (out.address == 0) {
    (void)resize(context, all, all.bytes - code->size);
    return false;
  }
  for (const auto& [offset, bytes] : code->values)
    std::memcpy(reinterpret_cast<void*>(out.address + offset), bytes.data(), bytes.size());
  Block block;
  block.device = context->device;
  block.size = block.extent = code->size;
  block.address = out.address;
  block.in_window = false;
  block.is_code = true;
  block.context = context;
  driver().blocks.emplace(block.address, std::move(block));
  return true;
}

void remove_code(Context* context, const Placed& placed) {
  if (placed.address == 0) return;
  auto& blocks = driver().blocks;
  if (const auto block = blocks.find(placed.address); block != blocks.end()) {
    give_block(block->second);
    blocks.erase(block);
  }
  Held& all = held()[context];
  (void)resize(context, all, all.bytes - placed.code->size);
}

void forget_code(const Context* context) {
  const auto all = held().find(context);
  if (all == held().end()) return;
  (void)resize(context, all->second, 0);
  held().erase(all);
}

}  // namespace ration::sim
