// The source of the live view's numbers and answers: the daemon's stream and paths or, if no daemon runs, the books and
// the driver, read once a second. Used by `ration top`. Promises: the drawing thread never waits; news is taken in the
// order in which it came; the feed tries to reach a lost daemon again each second; the feed is destroyed within the
// time of one reading.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.hpp"
#include "cli/session/session.hpp"
#include "top/controls.hpp"

namespace ration::cli {

/// The node at the start, before the stream is followed.
struct TopStart {
  nlohmann::json snapshot;  ///< `data` of the snapshot, from the daemon or the books
  bool daemon = false, is_operator = false;
  std::vector<std::string> notes;  ///< lines of notes_without_daemon(), without a daemon
};
/// Reads the node. Without a GPU and a daemon, text is about the simulated node on which workloads run, if there is one
/// such node; `session` becomes that node's.
[[nodiscard]] Result<TopStart> begin_top(Session& session);

/// The past that the daemon recorded. `series` has answers of GET /series: by workload for all GPUs and for each GPU of
/// a workload that uses several; by tenant and by device for each GPU.
struct Past {
  std::vector<top::Event> events;
  std::vector<nlohmann::json> series;
};
[[nodiscard]] Past look_back(const Session& session, const top::Model& model);

class Feed {
 public:
  struct Lost {
    std::string why;
  };
  struct Found {
    bool is_operator = false;
  };
  struct Answer {
    top::Request request;
    Result<nlohmann::json> answer;
  };
  struct Notes {
    std::vector<std::string> lines;
  };
  using News = std::variant<top::Model, top::Event, Past, Lost, Found, Answer, Notes>;

  /// Follows the node from the state in `first`.
  Feed(const Session& session, const TopStart& first);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Returns a descriptor that is readable while there is news.
  [[nodiscard]] int descriptor() const { return news_ready_.get(); }
  [[nodiscard]] std::vector<News> take();
  void ask(top::Request request);

 private:
  void add(News news);
  void watch(bool daemon);
  /// Follows the stream until it ends, and returns the reason.
  [[nodiscard]] std::string follow();
  void answer_questions();
  [[nodiscard]] bool stopped_within(int milliseconds) const;

  Session session_;
  FileDescriptor news_ready_, stop_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::vector<News> news_;
  std::deque<top::Request> questions_;
  bool stopping_ = false;
  std::int64_t last_event_ = 0;
  std::thread watcher_, answerer_;
};

}  // namespace ration::cli
