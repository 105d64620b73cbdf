#include "node/http/web_assets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ration::node {
namespace {

const Asset* find(std::string_view path) {
  const auto all = assets();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Asset& asset) { return asset.path == path; });
  return found == all.end() ? nullptr : &*found;
}

/// The last four bytes of a gzip file: how long it is unpacked (RFC 1952).
std::size_t unpacked_size(std::span<const std::uint8_t> gzip) {
  std::size_t size = 0;
  for (std::size_t byte = 0; byte < 4; ++byte) size |= std::size_t{gzip[gzip.size() - 4 + byte]} << (8 * byte);
  return size;
}

TEST(WebAssets, ThePageHasAPlaceForTheNumbersOfTheMoment) {
  const Asset* page = find("/index.html");
  ASSERT_NE(page, nullptr);
  EXPECT_NE(page->text.find("<!--SNAPSHOT-->"), std::string_view::npos);
  EXPECT_EQ(unpacked_size(page->gzip), page->text.size());
  EXPECT_FALSE(page->immutable);
}

TEST(WebAssets, WhatThePageNamesIsThere) {
  const Asset* page = find("/index.html");
  ASSERT_NE(page, nullptr);
  for (std::string_view name : {"href=\"/", "src=\"/"}) {
    for (std::size_t at = page->text.find(name); at != std::string_view::npos; at = page->text.find(name, at + 1)) {
      const std::size_t begin = at + name.size() - 1;
      const std::string_view path = page->text.substr(begin, page->text.find('"', begin) - begin);
      if (path == "/") continue;
      EXPECT_NE(find(path), nullptr) << path;
    }
  }
}

TEST(WebAssets, EachIsGzippedNamedOnceAndFitsTheBudgetTogether) {
  std::size_t together = 0;
  std::string_view before;
  for (const Asset& asset : assets()) {
    ASSERT_GT(asset.gzip.size(), 18U);
    EXPECT_EQ(asset.gzip[0], 0x1f);
    EXPECT_EQ(asset.gzip[1], 0x8b);
    EXPECT_LT(before, asset.path);
    EXPECT_EQ(asset.etag.front(), '"');
    EXPECT_EQ(asset.etag.back(), '"');
    EXPECT_FALSE(asset.content_type.empty());
    before = asset.path;
    together += asset.gzip.size();
  }
  EXPECT_LE(together, 200'000U);
}

TEST(WebAssets, NothingNeedsAnExceptionFromTheContentPolicy) {
  const Asset* page = find("/index.html");
  ASSERT_NE(page, nullptr);
  for (std::string_view forbidden : {" style=", "<style", " onclick=", "http://", "https://"})
    EXPECT_EQ(page->text.find(forbidden), std::string_view::npos) << forbidden;
}

}  // namespace
}  // namespace ration::node
