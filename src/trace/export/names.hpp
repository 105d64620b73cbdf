// The names of places, processes and call sites in exports. All names are valid UTF-8 without control characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/event.hpp"
#include "trace/export/holdings.hpp"
#include "trace/kinds.hpp"

namespace ration::trace {

/// Returns the text with replacements for control characters, and for bytes that are not part of a valid character.
[[nodiscard]] std::string cleaned(std::string_view text);

/// Returns `GPU 0 Tesla T4`, or `pinned host memory`.
[[nodiscard]] std::string name_of_place(const Header& header, Place place);
/// Returns `python train.py (17)`.
[[nodiscard]] std::string name_of_process(const Header& header, std::uint32_t process);
/// Returns the text of a site, as it was recorded.
[[nodiscard]] std::string text_of(const Header& header, std::uint32_t site);
[[nodiscard]] const char* name_of(Part part);

/// One call of a stack.
struct Frame {
  std::string function;
  std::string file;  ///< empty if unknown
  int line = 0;
};
/// Returns the calls by which a holding was taken, innermost first; the last frame names the process. Without a
/// recorded stack, the first frame names the kind of holding.
[[nodiscard]] std::vector<Frame> frames_of(const Header& header, const Holding& holding);

}  // namespace ration::trace
