// The records of TensorBoard's event files: what is in them, and how each is framed (TFRecord). Used by `ration run
// --tensorboard`, which appends them to a file while a program runs. A file that ends within a record is valid up to
// that record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ration::trace {

/// Returns the record with its length and the masked CRC-32C of both.
[[nodiscard]] std::string framed(std::string_view record);

/// Returns the first record of every event file.
[[nodiscard]] std::string version_record(double wall_seconds);

/// A value of one chart.
struct Scalar {
  std::string tag;
  float value = 0;  ///< TensorBoard keeps floats: gibibytes, since bytes would lose their lower digits
};
/// Returns the record with the values of one moment. `step` is the place on the axis of steps.
[[nodiscard]] std::string scalars_record(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars);

/// Charts of several lines on TensorBoard's page *Custom Scalars*.
struct Chart {
  std::string title;
  std::vector<std::string> tags;
};
/// Returns the record that lays out that page.
[[nodiscard]] std::string layout_record(double wall_seconds, const std::string& category,
                                        const std::vector<Chart>& charts);

/// Returns the CRC-32C (Castagnoli) of the text.
[[nodiscard]] std::uint32_t crc32c(std::string_view text);

}  // namespace ration::trace
