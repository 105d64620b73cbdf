#include "trace/import/importers.hpp"

#include <array>

namespace ration::trace {
namespace {

bool begins_pickle(std::string_view beginning) {
  return beginning.size() >= 2 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5;
}

/// Returns true if a file begins as a dump does: with field 1 of the message, the name of the allocator.
bool begins_dump(std::string_view beginning) {
  return beginning.size() >= 3 && beginning[0] == '\n' && beginning[1] > 0 && beginning[2] >= 'A';
}

constexpr std::array kImporters{Importer{begins_pickle, read_pytorch_snapshot},
                                Importer{begins_dump, read_tensorflow_dump}};

}  // namespace

const Importer* importer_of(std::string_view beginning) {
  for (const Importer& each : kImporters)
    if (each.begins(beginning)) return &each;
  return nullptr;
}

}  // namespace ration::trace
