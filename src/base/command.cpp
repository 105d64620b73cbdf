#include "base/command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.hpp"

namespace ration {
namespace {

// Letters beyond ASCII mean nothing to a shell.
bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         (letter & 0x80) != 0 || std::string_view("-_./:=+,@%").find(letter) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return printable(std::string(word));
  std::string quoted = "'";
  for (const char letter : printable(std::string(word)))
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::string command(std::initializer_list<std::string_view> words) {
  std::string text = "ration";
  for (const std::string_view word : words)
    if (!word.empty()) text += " " + shell_word(word);
  return text;
}

std::string quoted_words(std::string_view command_line) {
  std::string text;
  for (std::size_t at = 0; at < command_line.size();) {
    const std::size_t end = std::min(command_line.find(' ', at), command_line.size());
    if (end > at) text += (text.empty() ? "" : " ") + shell_word(command_line.substr(at, end - at));
    at = end + 1;
  }
  return text;
}

std::string exact_size(Bytes size) {
  if (size >= kUnlimited) return "unlimited";
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;
  const std::uint64_t bytes = size.count();
  if (bytes % kMiB != 0) return fmt::format("{}B", bytes);
  // Quarters have two digits; an eighth is easier to read in MiB.
  if (bytes >= kGiB && bytes % (kGiB / 4) == 0)
    return fmt::format("{:g}GiB", static_cast<double>(bytes / (kGiB / 4)) / 4);
  return fmt::format("{}MiB", bytes / kMiB);
}

}  // namespace ration
