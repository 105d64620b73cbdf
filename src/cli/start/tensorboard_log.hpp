// `ration run --tensorboard`: what a workload holds, as TensorBoard's scalars, while its program runs. All values come
// from the workload's book, so the program and its framework need no change. Promises: nothing that happens to the file
// disturbs the program; if a kill or a full disk cuts the file off, it is valid up to the cut.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "book/book_reader.hpp"

namespace ration::cli {

class TensorboardLog {
 public:
  /// Makes the folder if it is missing. Fails with E1405 if no file can be made in it.
  [[nodiscard]] static Result<void> prepare(const std::string& folder);

  /// Makes the event file of the workload whose book is at `book`, as a run of its own (`ration/NAME-RUN`), and writes
  /// the first values. `gpus` are the indices of the devices, in the order of the book's accounts. Fails with E1405.
  [[nodiscard]] static Result<std::unique_ptr<TensorboardLog>> open(const std::string& folder, const std::string& book,
                                                                    std::vector<int> gpus);
  ~TensorboardLog();
  TensorboardLog(const TensorboardLog&) = delete;
  TensorboardLog& operator=(const TensorboardLog&) = delete;

  /// Begins to write the values once a second, in a thread.
  void start();
  /// Writes the last values. Returns what went wrong since open(), for people; empty if nothing did.
  [[nodiscard]] std::string finish();
  /// Removes the file, for a program that could not be started.
  void discard();

 private:
  TensorboardLog() = default;
  void watch();
  void write_values(bool last);
  void write(const std::string& record);

  std::string path_;
  FileDescriptor file_;
  book::BookReader reader_;
  std::vector<int> gpus_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::int64_t step_ = -1;   ///< step of the latest values: seconds since the start
  std::int64_t length_ = 0;  ///< bytes of whole records
  int missing_ = 0;          ///< records that could not be written
  int problem_ = 0;          ///< errno of the first missing record
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ration::cli
