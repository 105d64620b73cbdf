#include "config/items.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"

namespace ration::config {
namespace {

class Reader {
 public:
  Reader(const Table& table, const std::string& file, Problems& problems)
      : table_(table), file_(file), problems_(problems) {}

  std::vector<Item> read(const TomlValue& document) {
    std::vector<Item> items;
    for (const TomlValue& node : document.items) {
      const Section* section = find_section(table_, node.name);
      if (node.name == "schema") {
        if (node.kind != TomlValue::Kind::kWhole || node.text != "1")
          wrong(node.place, "schema must be 1", "schema = 1");
      } else if (section == nullptr) {
        std::vector<std::string> names{"schema"};
        for (const Section& known : table_) names.emplace_back(known.name);
        unknown(node, names);
      } else if (!section->several()) {
        if (node.kind == TomlValue::Kind::kTable)
          items.push_back(item(*section, node));
        else
          wrong(node.key, fmt::format("'{}' must be one table", section->name), fmt::format("[{}]", section->name));
      } else {
        read_several(*section, node, items);
      }
    }
    return items;
  }

 private:
  void wrong(const FilePlace& place, std::string what, std::string fix) {
    problems_.push_back({file_, place, std::move(what), std::move(fix)});
  }

  void unknown(const TomlValue& node, const std::vector<std::string>& known) {
    const std::string meant = nearest(node.name, known);
    wrong(
        node.key,
        fmt::format("unknown key '{}'{}", node.name, meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
        fmt::format("Known here: {}", fmt::join(known, ", ")));
  }

  void read_several(const Section& section, const TomlValue& node, std::vector<Item>& items) {
    const bool tables = node.kind == TomlValue::Kind::kList &&
                        std::all_of(node.items.begin(), node.items.end(),
                                    [](const TomlValue& entry) { return entry.kind == TomlValue::Kind::kTable; });
    if (!tables) {
      wrong(node.key, fmt::format("'{}' must be a list of tables", section.name), fmt::format("[[{}]]", section.name));
      return;
    }
    std::map<std::string, std::size_t> lines;
    for (const TomlValue& entry : node.items) {
      Item made = item(section, entry);
      if (section.identity != nullptr) {
        const auto leaf = made.leaves.find(section.identity);
        if (leaf == made.leaves.end()) {
          wrong(entry.place, fmt::format("a {} needs a {}", section.name, section.identity),
                fmt::format("{} = {}", section.identity, find_key(section, section.identity)->example));
          continue;
        }
        made.identity = leaf->second.value.text;
        const auto [first, is_new] = lines.emplace(made.identity, leaf->second.origin.place.line);
        if (!is_new) {
          wrong(leaf->second.origin.place,
                fmt::format("{} '{}' is written twice: also on line {}", section.name, made.identity, first->second),
                "Merge the two.");
        }
      }
      items.push_back(std::move(made));
    }
  }

  Item item(const Section& section, const TomlValue& table) {
    Item made{&section, {}, {file_, table.place}, {}};
    walk(made, "", table);
    return made;
  }

  void walk(Item& item, const std::string& prefix, const TomlValue& table) {
    for (const TomlValue& node : table.items) {
      const std::string name = prefix + node.name;
      const Key* key = find_key(*item.section, name);
      const bool free_name = key != nullptr && key->any_names();
      const auto below = known_below(*item.section, name + ".");
      if (node.name.find('.') != std::string::npos && !free_name) {
        unknown(node, known_below(*item.section, prefix));
      } else if (key != nullptr) {
        Problems found;
        key->field.check(*key, node, found);
        for (FileProblem& problem : found) wrong(problem.place, std::move(problem.what), std::move(problem.fix));
        item.leaves[name] = {key, node, {file_, node.key}};
      } else if (below.empty()) {
        unknown(node, known_below(*item.section, prefix));
      } else if (node.kind != TomlValue::Kind::kTable) {
        wrong(node.key, fmt::format("'{}' must be a table", node.name),
              below.front() == "*" ? fmt::format("{} = {{ NAME = … }}", node.name)
                                   : fmt::format("{} = {{ {} = … }}", node.name, below.front()));
      } else {
        walk(item, name + ".", node);
      }
    }
  }

  const Table& table_;
  const std::string& file_;
  Problems& problems_;
};

void add_rows(const Item& item, const std::string& name, std::vector<Row>& rows) {
  for (const Key& key : item.section->keys) {
    for (const auto& [leaf_name, leaf] : item.leaves) {
      if (leaf.key == &key)
        rows.push_back({item.section->name, name, leaf_name, leaf.value.text, as_toml(leaf.value), leaf.origin});
    }
  }
}

}  // namespace

std::vector<Item> read_items(const Table& table, const TomlValue& document, const std::string& file,
                             Problems& problems) {
  Problems found;
  auto items = Reader(table, file, found).read(document);
  std::stable_sort(found.begin(), found.end(), [](const FileProblem& left, const FileProblem& right) {
    return std::pair{left.place.line, left.place.column} < std::pair{right.place.line, right.place.column};
  });
  problems.insert(problems.end(), found.begin(), found.end());
  return items;
}

void merge(std::vector<Item>& items, std::vector<Item> later) {
  std::vector<Item> added;
  for (Item& item : later) {
    const bool one_of_many = item.section->several() && item.section->identity == nullptr;
    const auto same = std::find_if(items.begin(), items.end(), [&](const Item& there) {
      return !one_of_many && there.section == item.section && there.identity == item.identity;
    });
    if (same == items.end()) {
      added.push_back(std::move(item));
      continue;
    }
    for (auto& [name, leaf] : item.leaves) same->leaves[name] = std::move(leaf);
  }
  items.insert(items.begin(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

void add_defaults(const Table& table, std::vector<Item>& items) {
  for (const Section& section : table) {
    const bool there =
        std::any_of(items.begin(), items.end(), [&](const Item& item) { return item.section == &section; });
    if (!section.several() && !there) items.push_back({&section, {}, {}, {}});
  }
  for (Item& item : items) {
    for (const Key& key : item.section->keys) {
      if (*key.standard == '\0') continue;
      TomlValue value;
      value.kind = key.field.shape->kind;
      value.text = key.standard;
      item.leaves.try_emplace(key.name, Leaf{&key, value, {}});
    }
  }
}

Configuration to_configuration(const Table& table, const std::vector<Item>& items) {
  Configuration all;
  for (const Section& section : table) {
    std::size_t number = 0;
    for (const Item& item : items) {
      if (item.section != &section) continue;
      if (section.several()) section.add(all);
      for (const auto& [name, leaf] : item.leaves) leaf.key->field.store(*leaf.key, leaf.value, leaf.origin, all);
      ++number;
      const bool numbered = section.several() && section.identity == nullptr;
      add_rows(item, numbered ? std::to_string(number) : item.identity, all.rows);
    }
  }
  return all;
}

}  // namespace ration::config
