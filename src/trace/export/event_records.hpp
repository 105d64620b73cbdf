// The records of TensorBoard's event files: their content, and their framing (TFRecord). Used by `ration run
// --tensorboard`, which appends them to a file while a program runs. A file that ends within a record is valid up to
// that record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ration::trace {

/// Returns the record with its length, and the masked CRC-32C of the length and of the record.
[[nodiscard]] std::string framed(std::string_view record);

/// Returns the record with which every event file begins.
[[nodiscard]] std::string version_record(double wall_seconds);

/// A value of one chart.
struct Scalar {
  std::string tag;
  float value = 0;  ///< in GiB, because TensorBoard keeps floats, in which bytes would lose their lower digits
};
/// Returns the record with the values of one moment. `step` is the place on the axis of steps.
[[nodiscard]] std::string scalars_record(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars);

/// A chart of several lines on TensorBoard's page *Custom Scalars*.
struct Chart {
  std::string title;
  std::vector<std::string> tags;
};
/// Returns the record that arranges the charts on the page *Custom Scalars*.
[[nodiscard]] std::string layout_record(double wall_seconds, const std::string& category,
                                        const std::vector<Chart>& charts);

/// Returns the CRC-32C (Castagnoli) of the text.
[[nodiscard]] std::uint32_t crc32c(std::string_view text);

}  // namespace ration::trace
