#include "node/watch/webhook.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include "base/say.hpp"

namespace ration::node {
namespace {

constexpr std::size_t kMaxWaiting = 100;
constexpr int kAttempts = 3;
constexpr std::uint64_t kPauseNs = 10'000'000'000;  // pause after the first attempt; twice as long after the second

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    if (letter != '\n' && letter != '\r') out += letter;
  }
  return out + '"';
}

}  // namespace

std::string request_of(const std::string& url, const std::string& body) {
  return fmt::format(
      "url = {}\nproto = \"=http,https\"\ngloboff\nheader = \"Content-Type: application/json\"\ndata-raw = {}\n"
      "silent\nshow-error\nstderr = \"-\"\noutput = \"/dev/null\"\nconnect-timeout = 5\nmax-time = 20\nwrite-out = "
      "\"%{{http_code}}\"\n",
      quoted(url), quoted(body));
}

void Webhook::send(const std::string& url, std::string body) {
  if (waiting_.size() >= kMaxWaiting) {  // keeps the first, which may be in transfer
    waiting_.erase(waiting_.begin() + 1);
    ++dropped_;
    problem_ = say<"alert.too_slow">();
  }
  waiting_.push_back({url, std::move(body)});
}

void Webhook::drop(const Message& why) {
  ++dropped_;
  problem_ = why;
  waiting_.pop_front();
}

void Webhook::failed(const Message& why, std::uint64_t now_ns) {
  Delivery& delivery = waiting_.front();
  if (++delivery.attempts == kAttempts) return drop(why);
  delivery.not_before_ns = now_ns + kPauseNs * static_cast<std::uint64_t>(delivery.attempts);
}

std::optional<Message> Webhook::step(std::uint64_t now_ns) {
  if (const auto ended = child_ ? child_->poll() : std::nullopt) {
    child_.reset();
    const std::string answer = ended->output.substr(0, ended->output.find('\n'));
    if (!WIFEXITED(ended->status) || WEXITSTATUS(ended->status) != 0)
      failed(answer, now_ns);
    else if (answer[0] == '2')
      waiting_.pop_front();
    else if (answer[0] == '5' || answer == "429")
      failed(say<"alert.answered">("answer"_is(answer)), now_ns);
    else
      drop(say<"alert.answered">("answer"_is(answer)));
  }
  if (!child_ && !waiting_.empty() && now_ns >= waiting_.front().not_before_ns) {
    // Makes curl ignore the user's own configuration (-q).
    auto child =
        Child::start({program_, "-q", "--config", "-"}, request_of(waiting_.front().url, waiting_.front().body));
    if (child)
      child_.emplace(std::move(*child));
    else
      failed(child.error().what, now_ns);
  }
  if (dropped_ == 0) return std::nullopt;
  return say<"alert.unsent">("count"_is(std::exchange(dropped_, 0)), "reason"_is(std::exchange(problem_, {})));
}

}  // namespace ration::node
