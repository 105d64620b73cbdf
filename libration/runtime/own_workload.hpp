// The workload of this process: its book, and the way in which a program that was started without `ration run` gets
// one. Used by runtime.cpp, runtime_memory.cpp and the C interface. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "book/book.hpp"

namespace ration::runtime {

/// Puts this process, and the children that it starts from now on, under a limit of its own: `ration activate` makes a
/// book with every GPU, the variables of `ration run` are set, and the guard is loaded under the driver's name, so that
/// code that loads the driver later gets it. Makes no call of the driver and no thread. Does nothing where the process
/// is governed already. RuntimeError: the driver was loaded before. UnknownError: why there can be no book, such as no
/// GPU.
void activate();

/// For a process in which the driver is loaded already and which executes itself again (exec): makes the book and sets
/// the variables, so that the new program is governed. Does nothing in a governed process. UnknownError.
void prepare_restart();

/// Returns the book of this process, from `ration run` or activate(), once it exists and can be opened. Null: none.
[[nodiscard]] book::Book* own_book();

/// Returns the account of GPU `number` as the driver counts under this process's CUDA_VISIBLE_DEVICES, without calling
/// the driver. Absent: it has no account.
[[nodiscard]] std::optional<std::uint32_t> account_of_gpu(const book::Book& book, std::size_t number);

/// Returns the most that the program may use of that device, whatever it sets itself: shares are shares of this.
[[nodiscard]] Bytes whole_of(const book::Book& book, std::uint32_t account);

/// Sets the workload's own limit: at least 2 MiB, at most whole_of(). ValueError otherwise.
void set_own_limit(book::Book& book, std::uint32_t account, Bytes limit);

}  // namespace ration::runtime
