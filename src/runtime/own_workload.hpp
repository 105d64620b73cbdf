// The workload that this process belongs to: its book, and how a program that was started without `ration run` comes to
// have one. Used by runtime.cpp, runtime_memory.cpp and the C interface. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ledger/book.hpp"

namespace ration::runtime {

/// Puts this process, and the children that it starts from now on, under a limit of its own: `ration activate` makes a
/// book with every GPU, the variables of `ration run` are set, and the shim is loaded under the driver's name, so that
/// whoever loads the driver later gets it. Makes no call of the driver and no thread. Does nothing where the process is
/// governed already. RuntimeError: the driver was loaded before. UnknownError: why there can be no book, such as no
/// GPU.
void activate();

/// For a process in which the driver is loaded already, and which starts anew in its own place (exec): makes the book
/// and sets the variables, and the program that it becomes is governed. Does nothing where it is governed.
/// UnknownError.
void prepare_restart();

/// The book of this process: what `ration run` or activate() set, once it is there and can be opened. Null: none.
[[nodiscard]] ledger::Book* own_book();

/// The account of GPU `number` as the driver counts them under this process's CUDA_VISIBLE_DEVICES, found without the
/// driver. Absent: it has no account.
[[nodiscard]] std::optional<std::uint32_t> account_of_gpu(const ledger::Book& book, std::size_t number);

/// What the program may use of that device at most, whatever it sets itself: shares are shares of this.
[[nodiscard]] Bytes whole_of(const ledger::Book& book, std::uint32_t account);

/// Sets the workload's own limit: at least 2 MiB, at most whole_of(). ValueError otherwise.
void set_own_limit(ledger::Book& book, std::uint32_t account, Bytes limit);

}  // namespace ration::runtime
