#include "trace/export/names.hpp"

#include <fmt/format.h>

#include "base/strings.hpp"
#include "base/utf8.hpp"

namespace ration::trace {
namespace {

/// The names of parts, by Part.
constexpr const char* kPartNames[] = {"memory that the program requested",
                                      "context of the driver",
                                      "unused in pools of the driver",
                                      "graphs of the driver",
                                      "code",
                                      "rounding of the driver, and memory without an address"};

/// Parses `FUNCTION (FILE:LINE)` and `FILE:LINE`; any other text is the function.
Frame frame_of(std::string_view text) {
  std::string_view function = text, place = text;
  if (text.ends_with(')')) {
    const auto open = text.rfind('(');
    if (open == std::string_view::npos) return {cleaned(text), "", 0};
    function = trimmed(text.substr(0, open));
    place = text.substr(open + 1, text.size() - open - 2);
  }
  const auto colon = place.rfind(':');
  const auto line = colon == std::string_view::npos ? std::nullopt : parse_number<int>(place.substr(colon + 1));
  if (!line) return {cleaned(text), "", 0};
  return {cleaned(function), cleaned(place.substr(0, colon)), *line};
}

}  // namespace

std::string cleaned(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    if (character == kNoCharacter)
      clean += "\xef\xbf\xbd";
    else
      clean += to_utf8(character < 0x20 || (character >= 0x7f && character < 0xa0) ? U' ' : character);
  }
  return clean;
}

std::string name_of_place(const Header& header, Place place) {
  if (place >= header.devices.size()) return "pinned host memory";
  const std::string name = cleaned(header.devices[place].name);
  return fmt::format("GPU {}{}{}", place, name.empty() ? "" : " ", name);
}

std::string name_of_process(const Header& header, std::uint32_t process) {
  if (process >= header.processes.size()) return "process";
  const Process& known = header.processes[process];
  const std::string command = known.command.empty() ? "process" : cleaned(known.command);
  return known.pid == 0 ? command : fmt::format("{} ({})", command, known.pid);
}

std::string text_of(const Header& header, std::uint32_t site) {
  return site < header.sites.size() ? cleaned(header.sites[site]) : std::string();
}

const char* name_of(Part part) { return kPartNames[static_cast<std::size_t>(part)]; }

std::vector<Frame> frames_of(const Header& header, const Holding& holding) {
  std::vector<Frame> frames;
  const bool is_known = holding.part == Part::kBlock && holding.site != 0 && holding.site < header.sites.size();
  if (is_known) {
    for (const std::string_view line : split(header.sites[holding.site], '\n'))
      if (!trimmed(line).empty()) frames.push_back(frame_of(trimmed(line)));
  }
  if (frames.empty()) frames.push_back({name_of(holding.part), "", 0});
  frames.push_back({name_of_process(header, holding.process), "", 0});
  return frames;
}

}  // namespace ration::trace
