#include "trace/import/plain_data.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace ration::trace {
namespace {

constexpr std::size_t kCostOfContainer = 4;  // in values
constexpr int kBitsOfPlace = 32;

/// The error that ends the reading, with its reason.
struct Failure : std::exception {
  explicit Failure(const char* text) : why(text) {}
  const char* why;
};

}  // namespace

/// The interpreter of a pickle: a stack of values, and a memory for values that are used again.
class PickleReader {
 public:
  using Cell = PlainData::Cell;
  using Type = PlainData::Type;

  explicit PickleReader(PlainData& data) : data_(data), text_(data.pickle_) {}

  [[nodiscard]] std::size_t at() const { return at_; }

  void run() {
    if (text_.size() < 2 || text_[0] != '\x80' || text_[1] < 2 || text_[1] > 5) throw Failure("it is not a pickle");
    at_ = 2;
    while (step()) {
    }
    data_.root_ = pop();
  }

 private:
  /// Handles one instruction. Returns false for the last instruction.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return false;
    const Instruction instruction = instructions()[code];
    if (instruction == nullptr) throw Failure("it needs a class or a function of Python");
    instruction(*this);
    return true;
  }

  using Instruction = void (*)(PickleReader&);
  /// Returns what each instruction does; null for one that needs Python.
  static const std::array<Instruction, 256>& instructions() {
    using Reader = PickleReader;
    static const std::array<Instruction, 256> all = [] {
      std::array<Instruction, 256> table{};
      table[0x95] = [](Reader& r) { r.take(8); };  // FRAME: the length of a piece, for readers that fetch whole pieces
      table['N'] = [](Reader& r) { r.push({}); };
      table[0x88] = [](Reader& r) { r.push({Type::kNumber, 1}); };  // NEWTRUE
      table[0x89] = [](Reader& r) { r.push({Type::kNumber, 0}); };  // NEWFALSE
      table['K'] = [](Reader& r) { r.push_number(1); };
      table['M'] = [](Reader& r) { r.push_number(2); };
      table['J'] = [](Reader& r) {
        const std::int64_t number = static_cast<std::int32_t>(r.unsigned_number(4));
        r.push({Type::kNumber, static_cast<std::uint64_t>(number)});
      };
      table[0x8a] = [](Reader& r) { r.push_long(r.unsigned_number(1)); };  // LONG1
      table[0x8b] = [](Reader& r) { r.push_long(r.unsigned_number(4)); };  // LONG4
      table['G'] = [](Reader& r) {
        r.take(8);
        r.push({Type::kReal, 0});
      };
      table[0x8c] = table['U'] = table['C'] = [](Reader& r) { r.push_text(r.unsigned_number(1)); };  // SHORT_BINUNICODE
      table['X'] = table['T'] = table['B'] = [](Reader& r) { r.push_text(r.unsigned_number(4)); };
      table[0x8d] = table[0x8e] = [](Reader& r) { r.push_text(r.unsigned_number(8)); };  // BINUNICODE8, BINBYTES8
      table['}'] = [](Reader& r) { r.push_container(Type::kDict, {}); };
      table[']'] = table[')'] = table[0x8f] = [](Reader& r) { r.push_container(Type::kList, {}); };  // EMPTY_SET
      table['('] = [](Reader& r) {
        r.marks_.push_back(r.stack_.size());
        r.count(1);
      };
      table['d'] = [](Reader& r) { r.push_container(Type::kDict, r.above_mark()); };
      table['l'] = table['t'] =
          table[0x91] = [](Reader& r) { r.push_container(Type::kList, r.above_mark()); };  // FROZENSET
      table[0x85] = [](Reader& r) { r.push_container(Type::kList, r.top(1)); };            // TUPLE1
      table[0x86] = [](Reader& r) { r.push_container(Type::kList, r.top(2)); };            // TUPLE2
      table[0x87] = [](Reader& r) { r.push_container(Type::kList, r.top(3)); };            // TUPLE3
      table['a'] = [](Reader& r) { r.extend(Type::kList, r.top(1)); };
      table['e'] = table[0x90] = [](Reader& r) { r.extend(Type::kList, r.above_mark()); };  // ADDITEMS
      table['s'] = [](Reader& r) { r.extend(Type::kDict, r.top(2)); };
      table['u'] = [](Reader& r) { r.extend(Type::kDict, r.above_mark()); };
      table['q'] = [](Reader& r) { r.remember(r.unsigned_number(1)); };
      table['r'] = [](Reader& r) { r.remember(r.unsigned_number(4)); };
      table[0x94] = [](Reader& r) { r.remember(r.memory_.size()); };  // MEMOIZE
      table['h'] = [](Reader& r) { r.recall(r.unsigned_number(1)); };
      table['j'] = [](Reader& r) { r.recall(r.unsigned_number(4)); };
      table['0'] = [](Reader& r) { r.pop(); };
      table['1'] = [](Reader& r) { r.above_mark(); };
      table['2'] = [](Reader& r) { r.push(r.last()); };
      return table;
    }();
    return all;
  }

  std::string_view take(std::uint64_t size) {
    if (size > text_.size() - at_) throw Failure("it was cut off");
    const std::string_view taken = text_.substr(at_, size);
    at_ += size;
    return taken;
  }
  std::uint64_t unsigned_number(std::size_t bytes) {
    std::uint64_t number = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t at = bytes; at-- > 0;) number = number << 8 | static_cast<unsigned char>(taken[at]);
    return number;
  }
  void push_number(std::size_t bytes) { push({Type::kNumber, unsigned_number(bytes)}); }
  /// Pushes a number of any length. Keeps 64 bits, because no number about memory has more.
  void push_long(std::uint64_t bytes) {
    const std::string_view taken = take(bytes);
    std::uint64_t number = !taken.empty() && taken.back() < 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t at = std::min<std::size_t>(taken.size(), 8); at-- > 0;)
      number = number << 8 | static_cast<unsigned char>(taken[at]);
    push(taken.size() > 9 ? Cell{Type::kReal, 0} : Cell{Type::kNumber, number});
  }
  void push_text(std::uint64_t size) {
    const std::uint64_t place = at_;
    take(size);
    push({Type::kText, size << kBitsOfPlace | place});
  }
  void push_container(Type type, std::vector<Cell> items) {
    if (type == Type::kDict && items.size() % 2 != 0) throw Failure("a key has no value");
    count(kCostOfContainer);
    data_.containers_.push_back(std::move(items));
    push({type, data_.containers_.size() - 1});
  }
  void extend(Type type, const std::vector<Cell>& items) {
    const Cell container = last();
    if (container.type != type || (type == Type::kDict && items.size() % 2 != 0)) throw Failure("it is damaged");
    auto& all = data_.containers_[container.payload];
    all.insert(all.end(), items.begin(), items.end());
  }
  void push(Cell cell) {
    count(1);
    stack_.push_back(cell);
  }
  void count(std::size_t values) {
    count_ += values;
    if (count_ > PlainData::kMostValues) throw Failure("it has too many values");
  }
  Cell last() const {
    if (stack_.size() <= bottom()) throw Failure("it is damaged");
    return stack_.back();
  }
  Cell pop() {
    const Cell cell = last();
    stack_.pop_back();
    return cell;
  }
  [[nodiscard]] std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Cell> top(std::size_t size) {
    if (stack_.size() - bottom() < size) throw Failure("it is damaged");
    std::vector<Cell> taken(stack_.end() - static_cast<std::ptrdiff_t>(size), stack_.end());
    stack_.resize(stack_.size() - size);
    return taken;
  }
  std::vector<Cell> above_mark() {
    if (marks_.empty()) throw Failure("it is damaged");
    std::vector<Cell> taken = top(stack_.size() - bottom());
    marks_.pop_back();
    return taken;
  }
  void remember(std::uint64_t number) {
    if (number >= PlainData::kMostValues) throw Failure("it has too many values");
    const Cell cell = last();
    if (number >= memory_.size()) memory_.resize(number + 1);
    memory_[number] = cell;
  }
  void recall(std::uint64_t number) {
    if (number >= memory_.size()) throw Failure("it is damaged");
    push(memory_[number]);
  }

  PlainData& data_;
  const std::string_view text_;
  std::size_t at_ = 0, count_ = 0;
  std::vector<Cell> stack_, memory_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack where containers begin
};

tl::expected<PlainData, std::string> PlainData::parse(std::string pickle) {
  if (pickle.size() > std::numeric_limits<std::uint32_t>::max()) return tl::unexpected(std::string("it is too large"));
  PlainData data;
  data.pickle_ = std::move(pickle);
  PickleReader reader(data);
  try {
    reader.run();
  } catch (const Failure& failure) {
    return tl::unexpected(fmt::format("{} (at byte {})", failure.why, reader.at()));
  }
  return data;
}

PlainData::Value PlainData::root() const { return {*this, root_}; }

std::optional<std::int64_t> PlainData::Value::number() const {
  if (cell_.type != Type::kNumber) return std::nullopt;
  return static_cast<std::int64_t>(cell_.payload);
}

std::string_view PlainData::Value::text() const {
  if (cell_.type != Type::kText) return {};
  return std::string_view(data_->pickle_)
      .substr(cell_.payload & std::numeric_limits<std::uint32_t>::max(), cell_.payload >> kBitsOfPlace);
}

std::span<const PlainData::Cell> PlainData::Value::items() const {
  if (cell_.type != Type::kList && cell_.type != Type::kDict) return {};
  return data_->containers_[cell_.payload];
}

PlainData::Value PlainData::Value::operator[](std::size_t index) const {
  const auto all = items();
  return {*data_, cell_.type == Type::kList && index < all.size() ? all[index] : Cell{}};
}

PlainData::Value PlainData::Value::operator[](std::string_view name) const {
  if (cell_.type != Type::kDict) return {*data_, {}};
  const auto all = items();
  for (std::size_t at = all.size(); at >= 2; at -= 2)
    if (const Value key{*data_, all[at - 2]}; key.type() == Type::kText && key.text() == name)
      return {*data_, all[at - 1]};
  return {*data_, {}};
}

}  // namespace ration::trace
