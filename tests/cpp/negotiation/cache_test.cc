#include "negotiation/cache.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hora {
namespace {

Signature shaped(Shape shape) {
  Signature signature;
  signature.shape = std::move(shape);
  return signature;
}

Request named(const std::string& name, Shape shape) {
  return {{name, 0}, shaped(std::move(shape)), 0};
}

Request unnamed(std::uint64_t number, Shape shape) {
  return {{"", number}, shaped(std::move(shape)), 0};
}

TEST(Cache, finds_nothing_it_has_not_learned) {
  const Cache cache(10);
  EXPECT_EQ(cache.find(named("x", {2})), 0u);
  EXPECT_EQ(cache.find(unnamed(1, {2})), 0u);
}

TEST(Cache, finds_a_name_again_with_the_same_signature_only) {
  Cache cache(10);
  cache.learn(1, "x", shaped({2}));
  EXPECT_EQ(cache.find(named("x", {2})), 1u);
  EXPECT_EQ(cache.find(named("x", {3})), 0u);
  EXPECT_EQ(cache.find(named("y", {2})), 0u);
}

TEST(Cache, a_tensor_that_alternates_between_shapes_keeps_an_id_for_each) {
  Cache cache(10);
  cache.learn(1, "x", shaped({2}));
  cache.learn(2, "x", shaped({3}));
  EXPECT_EQ(cache.find(named("x", {2})), 1u);
  EXPECT_EQ(cache.find(named("x", {3})), 2u);
}

TEST(Cache, unnamed_calls_of_one_signature_share_an_id) {
  Cache cache(10);
  cache.learn(1, "", shaped({2}));
  EXPECT_EQ(cache.find(unnamed(1, {2})), 1u);
  EXPECT_EQ(cache.find(unnamed(9, {2})), 1u);
  EXPECT_EQ(cache.find(unnamed(1, {3})), 0u);
  EXPECT_EQ(cache.find(named("x", {2})), 0u);
}

TEST(Cache, a_refused_call_never_has_an_id) {
  Cache cache(10);
  cache.learn(1, "x", shaped({2}));
  Request refused = named("x", {2});
  refused.signature.refusal = "no";
  EXPECT_EQ(cache.find(refused), 0u);
}

TEST(Cache, ids_run_out_at_the_capacity) {
  for (const std::uint64_t capacity : {0, 1, 2}) {
    Cache cache(capacity);
    for (std::uint64_t number = 1; number <= capacity; ++number) {
      ASSERT_EQ(cache.next_id(), number);
      cache.learn(cache.next_id(), "t" + std::to_string(number), shaped({2}));
    }
    EXPECT_EQ(cache.next_id(), 0u);
    EXPECT_EQ(cache.size(), capacity);
  }
}

TEST(Cache, an_id_that_was_never_given_is_an_error) {
  Cache cache(10);
  cache.learn(1, "x", shaped({2}));
  EXPECT_EQ(cache.get(1).name, "x");
  EXPECT_THROW(static_cast<void>(cache.get(0)), Error);
  EXPECT_THROW(static_cast<void>(cache.get(2)), Error);
}

TEST(Cache, an_id_out_of_order_is_an_error) {
  Cache cache(10);
  EXPECT_THROW(cache.learn(2, "x", shaped({2})), Error);
  cache.learn(1, "x", shaped({2}));
  EXPECT_THROW(cache.learn(1, "y", shaped({2})), Error);
}

}  // namespace
}  // namespace hora
