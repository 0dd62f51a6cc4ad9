#include "negotiation/cache.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hora {
namespace {

Signature shaped(Shape shape) {
  Signature signature;
  signature.tensors = {{DType::kFloat32, std::move(shape)}};
  return signature;
}

Request named(const std::string& name, Shape shape) {
  return {{name, 0}, shaped(std::move(shape)), 0};
}

Request unnamed(std::uint64_t number, Shape shape) {
  return {{"", number}, shaped(std::move(shape)), 0};
}

Signature grouped(std::vector<TensorType> tensors) {
  return {.tensors = std::move(tensors)};
}

TEST(Cache, finds_nothing_it_has_not_learned) {
  const Cache cache(10);
  EXPECT_EQ(cache.find(named("x", {2})), 0u);
  EXPECT_EQ(cache.find(unnamed(1, {2})), 0u);
}

TEST(Cache, finds_a_name_again_with_the_same_signature_only) {
  Cache cache(10);
  cache.learn(1, {"x"}, shaped({2}));
  EXPECT_EQ(cache.find(named("x", {2})), 1u);
  EXPECT_EQ(cache.find(named("x", {3})), 0u);
  EXPECT_EQ(cache.find(named("y", {2})), 0u);
}

TEST(Cache, a_tensor_that_alternates_between_shapes_keeps_an_id_for_each) {
  Cache cache(10);
  cache.learn(1, {"x"}, shaped({2}));
  cache.learn(2, {"x"}, shaped({3}));
  EXPECT_EQ(cache.find(named("x", {2})), 1u);
  EXPECT_EQ(cache.find(named("x", {3})), 2u);
}

TEST(Cache, unnamed_calls_of_one_signature_share_an_id) {
  Cache cache(10);
  cache.learn(1, {""}, shaped({2}));
  EXPECT_EQ(cache.find(unnamed(1, {2})), 1u);
  EXPECT_EQ(cache.find(unnamed(9, {2})), 1u);
  EXPECT_EQ(cache.find(unnamed(1, {3})), 0u);
  EXPECT_EQ(cache.find(named("x", {2})), 0u);
}

TEST(Cache, finds_a_group_again_with_the_same_tensors_in_the_same_order_only) {
  const TensorType matrix{DType::kFloat32, {2, 3}};
  const TensorType number{DType::kInt64, {}};
  Cache cache(10);
  cache.learn(1, {"x"}, grouped({matrix, number}));
  EXPECT_EQ(cache.find({{"x"}, grouped({matrix, number})}), 1u);
  const std::vector<std::vector<TensorType>> others{{},
                                                    {matrix},
                                                    {number},
                                                    {number, matrix},
                                                    {matrix, number, number},
                                                    {matrix, {DType::kInt32, {}}},
                                                    {matrix, {DType::kInt64, {1}}},
                                                    {{DType::kFloat32, {3, 2}}, number},
                                                    {{DType::kFloat32, {2}}, {DType::kFloat32, {3}}, number}};
  for (const std::vector<TensorType>& other : others) EXPECT_EQ(cache.find({{"x"}, grouped(other)}), 0u);
  EXPECT_EQ(cache.get(1).signature, grouped({matrix, number}));
}

TEST(Cache, a_name_keeps_an_id_for_each_of_its_groups) {
  const TensorType tensor{DType::kFloat16, {4}};
  Cache cache(10);
  for (std::uint32_t id = 1; id <= 5; ++id)
    cache.learn(id, {"x"}, grouped(std::vector<TensorType>(id - 1, tensor)));
  for (std::uint32_t id = 1; id <= 5; ++id)
    EXPECT_EQ(cache.find({{"x"}, grouped(std::vector<TensorType>(id - 1, tensor))}), id);
}

TEST(Cache, unnamed_calls_of_one_group_share_an_id) {
  const Signature group = grouped({{DType::kFloat32, {2}}, {DType::kBool, {3}}});
  Cache cache(10);
  cache.learn(1, {""}, group);
  EXPECT_EQ(cache.find({{"", 1}, group}), 1u);
  EXPECT_EQ(cache.find({{"", 9}, group}), 1u);
  EXPECT_EQ(cache.find({{"x"}, group}), 0u);
}

TEST(Cache, a_refused_call_never_has_an_id) {
  Cache cache(10);
  cache.learn(1, {"x"}, shaped({2}));
  Request refused = named("x", {2});
  refused.signature.refusal = "no";
  EXPECT_EQ(cache.find(refused), 0u);
}

TEST(Cache, ids_run_out_at_the_capacity) {
  for (const std::uint64_t capacity : {0, 1, 2}) {
    Cache cache(capacity);
    for (std::uint64_t number = 1; number <= capacity; ++number)
      ASSERT_EQ(cache.give({"t" + std::to_string(number)}, shaped({2})), number);
    EXPECT_EQ(cache.give({"one more"}, shaped({2})), 0u);
    EXPECT_EQ(cache.last_id(), capacity);
    EXPECT_EQ(cache.find(named("one more", {2})), 0u);
  }
}

TEST(Cache, a_name_has_an_id_for_each_process_set) {
  Cache cache(10);
  cache.learn(1, {"x", 0, 1}, shaped({2}));
  cache.learn(2, {"x", 0, 2}, shaped({2}));
  EXPECT_EQ(cache.find(named("x", {2})), 0u);
  EXPECT_EQ(cache.find({{"x", 0, 1}, shaped({2}), 0}), 1u);
  EXPECT_EQ(cache.find({{"x", 0, 2}, shaped({2}), 0}), 2u);
  EXPECT_EQ(cache.get(2).process_set, 2);
}

TEST(Cache, ids_that_only_others_learn_leave_gaps) {
  Cache cache(10);
  cache.learn(3, {"x"}, shaped({2}));
  cache.learn(7, {"y"}, shaped({2}));
  EXPECT_EQ(cache.last_id(), 7u);
  EXPECT_EQ(cache.get(3).name, "x");
  EXPECT_THROW(static_cast<void>(cache.get(5)), Error);
}

TEST(Cache, an_id_that_was_never_given_is_an_error) {
  Cache cache(10);
  cache.learn(1, {"x"}, shaped({2}));
  EXPECT_EQ(cache.get(1).name, "x");
  EXPECT_THROW(static_cast<void>(cache.get(0)), Error);
  EXPECT_THROW(static_cast<void>(cache.get(2)), Error);
}

TEST(Cache, an_id_out_of_order_is_an_error_unless_it_is_known) {
  Cache cache(10);
  cache.learn(2, {"x"}, shaped({2}));
  EXPECT_THROW(cache.learn(1, {"y"}, shaped({2})), Error);
  cache.learn(2, {"x"}, shaped({2}));
  cache.learn(3, {"y"}, shaped({2}));
  cache.learn(2, {"x"}, shaped({2}));
  EXPECT_EQ(cache.last_id(), 3u);
}

}  // namespace
}  // namespace hora
