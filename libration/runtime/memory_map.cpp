#include "runtime/memory_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace ration::runtime {
namespace {

using Piece = pool::Allocator::Piece;

const char* word(Piece::State state) {
  switch (state) {
    case Piece::State::kHeld:
      return "held";
    case Piece::State::kFree:
      return "free";
    case Piece::State::kSmallBlocks:
      return "small blocks";
  }
  return "";
}

std::uint64_t in_use(const Piece& piece) {
  if (piece.state == Piece::State::kHeld) return piece.size;
  return piece.state == Piece::State::kSmallBlocks ? piece.in_use : 0;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (static_cast<unsigned char>(letter) < 0x20)
      result += fmt::format("\\u{:04x}", static_cast<int>(letter));
    else
      result += letter;
  }
  return result;
}

std::uint64_t total_of(const std::vector<Piece>& pieces) {
  std::uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.size;
  return total;
}

}  // namespace

std::string map_as_json(const pool::Statistics& statistics, const std::vector<Piece>& pieces,
                        const std::vector<TagUsage>& tags) {
  std::string text = fmt::format(
      R"({{"bytes_in_use":{},"peak_bytes_in_use":{},"bytes_reserved":{},"bytes_limit":{},"num_allocs":{},"largest_free_block_bytes":{},"fragmentation":{:.4f},"tags":[)",
      statistics.bytes_in_use, statistics.peak_bytes_in_use, statistics.bytes_reserved, statistics.bytes_limit,
      statistics.num_allocs, statistics.largest_free_block_bytes, statistics.fragmentation());
  const char* separator = "";
  for (const TagUsage& each : tags) {
    text += fmt::format(R"({}{{"tag":"{}","bytes":{},"blocks":{}}})", separator, escaped(each.tag), each.bytes,
                        each.blocks);
    separator = ",";
  }
  text += R"(],"pieces":[)";
  separator = "";
  for (const Piece& piece : pieces) {
    text += fmt::format(R"({}{{"address":{},"bytes":{},"state":"{}","in_use":{}}})", separator, piece.address,
                        piece.size, word(piece.state), in_use(piece));
    separator = ",";
  }
  return text + "]}";
}

std::string map_as_svg(const pool::Statistics& statistics, const std::vector<Piece>& pieces) {
  constexpr double kWidth = 1000;
  const auto total = static_cast<double>(std::max<std::uint64_t>(total_of(pieces), 1));
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} 70" font-family="sans-serif" font-size="13"><text x="0" y="16">{} in use of {} taken, limit {}</text>)",
      kWidth, format_size(Bytes{statistics.bytes_in_use}), format_size(Bytes{statistics.bytes_reserved}),
      format_size(Bytes{statistics.bytes_limit}));
  double x = 0;
  for (const Piece& piece : pieces) {
    const double width = kWidth * static_cast<double>(piece.size) / total;
    const char* colour = piece.state == Piece::State::kFree   ? "#e5e7eb"
                         : piece.state == Piece::State::kHeld ? "#2563eb"
                                                              : "#0d9488";
    text += fmt::format(
        R"(<rect x="{:.2f}" y="26" width="{:.2f}" height="40" fill="{}" stroke="#fff" stroke-width="0.3"><title>{} {}</title></rect>)",
        x, width, colour, word(piece.state), format_size(Bytes{piece.size}));
    x += width;
  }
  return text + "</svg>\n";
}

std::string map_as_line(const std::vector<Piece>& pieces) {
  constexpr std::size_t kCharacters = 100;
  const std::uint64_t total = total_of(pieces);
  if (total == 0) return {};
  double used[kCharacters] = {}, there[kCharacters] = {};
  const double step = static_cast<double>(total) / kCharacters;
  double begin = 0;
  for (const Piece& piece : pieces) {
    const double end = begin + static_cast<double>(piece.size);
    const double share = static_cast<double>(in_use(piece)) / static_cast<double>(piece.size);
    for (auto i = static_cast<std::size_t>(begin / step); i < kCharacters && static_cast<double>(i) * step < end; ++i) {
      const double overlap =
          std::min(end, static_cast<double>(i + 1) * step) - std::max(begin, static_cast<double>(i) * step);
      there[i] += overlap;
      used[i] += overlap * share;
    }
    begin = end;
  }
  std::string line(kCharacters, '_');
  for (std::size_t i = 0; i < kCharacters; ++i) {
    if (used[i] >= 0.999 * there[i])
      line[i] = '*';
    else if (used[i] > 0.001 * there[i])
      line[i] = 'x';
  }
  return line;
}

}  // namespace ration::runtime
