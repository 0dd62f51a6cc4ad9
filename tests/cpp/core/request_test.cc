#include "core/request.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Signature unusual_signature() {
  return {.op = OpKind::kBroadcast,
          .device = DeviceKind::kCuda,
          .reduce = ReduceOp::kProduct,
          .root = 32767,
          .prescale = 0.1,
          .postscale = -1e300,
          .tensors = {{DType::kBFloat16, {Signature::kRagged, 0, std::int64_t{1} << 40}},
                      {DType::kInt64, {}},
                      {DType::kBool, {7}}},
          .ranks = {0, 7, 300},
          .wire = DType::kFloat16,
          .refusal = "no such dtype: complex64"};
}

Bytes encoded(const Signature& signature) {
  ByteWriter out;
  signature.write(out);
  return out.take();
}

TEST(Signature, every_field_survives_the_wire) {
  const Bytes bytes = encoded(unusual_signature());
  ByteReader in(bytes);
  EXPECT_EQ(Signature::read(in), unusual_signature());
  EXPECT_TRUE(in.empty());
}

TEST(Signature, of_every_op_survives_the_wire) {
  for (std::size_t op = 0; op < kOpCount; ++op) {
    const Signature sent{.op = static_cast<OpKind>(op)};
    const Bytes bytes = encoded(sent);
    ByteReader in(bytes);
    EXPECT_EQ(Signature::read(in), sent) << kOpNames[op];
  }
}

TEST(Signature, one_cut_short_anywhere_is_an_error) {
  const Bytes bytes = encoded(unusual_signature());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader in(std::span<const std::byte>(bytes).first(length));
    EXPECT_THROW(static_cast<void>(Signature::read(in)), Error) << length;
  }
}

TEST(Signature, a_byte_that_is_no_value_of_its_field_is_an_error) {
  // op, device and reduce op come first; where a dtype stands shows when it changes.
  Signature other = unusual_signature();
  for (TensorType& tensor : other.tensors) tensor.dtype = DType::kUInt8;
  const Bytes usual = encoded(unusual_signature());
  const Bytes changed = encoded(other);
  std::vector<std::size_t> places{0, 1, 2};
  for (std::size_t at = 0; at < usual.size(); ++at) {
    if (usual[at] != changed[at]) places.push_back(at);
  }
  ASSERT_EQ(places.size(), 3 + other.tensors.size());
  for (const std::size_t at : places) {
    Bytes bytes = usual;
    bytes[at] = std::byte{200};
    ByteReader in(bytes);
    EXPECT_THROW(static_cast<void>(Signature::read(in)), Error) << "byte " << at;
  }
}

TEST(Signature, ones_that_differ_in_one_tensor_of_a_group_are_not_equal) {
  Signature other = unusual_signature();
  other.tensors.back().shape = {8};
  EXPECT_NE(other, unusual_signature());
  EXPECT_NE(encoded(other), encoded(unusual_signature()));
  other.tensors.pop_back();
  EXPECT_NE(other, unusual_signature());
}

TEST(Signature, tells_groups_apart_whose_extents_run_together) {
  const Signature one{.tensors = {{DType::kFloat32, {2, 3}}}};
  const Signature two{.tensors = {{DType::kFloat32, {2}}, {DType::kFloat32, {3}}}};
  const Signature scalar_last{.tensors = {{DType::kFloat32, {2, 3}}, {DType::kFloat32, {}}}};
  EXPECT_NE(encoded(one), encoded(two));
  EXPECT_NE(encoded(two), encoded(scalar_last));
}

TEST(Signature, counts_the_bytes_of_all_tensors) {
  EXPECT_EQ(Signature{}.bytes(), 0u);
  EXPECT_EQ((Signature{.tensors = {{DType::kFloat64, {}}}}.bytes()), 8u);
  EXPECT_EQ((Signature{.tensors = {{DType::kFloat64, {2, 3}}, {DType::kInt8, {5}}, {DType::kInt32, {0, 9}}}}
                 .bytes()),
            53u);
}

TEST(Signature, is_uniform_when_its_tensors_have_one_dtype) {
  EXPECT_TRUE(Signature{}.is_uniform());
  EXPECT_TRUE((Signature{.tensors = {{DType::kInt8, {2}}}}.is_uniform()));
  EXPECT_TRUE((Signature{.tensors = {{DType::kInt8, {2}}, {DType::kInt8, {}}}}.is_uniform()));
  EXPECT_FALSE(
      (Signature{.tensors = {{DType::kInt8, {2}}, {DType::kInt8, {}}, {DType::kUInt8, {2}}}}.is_uniform()));
}

TEST(SharedSignature, is_equal_to_another_of_the_same_value) {
  EXPECT_EQ(SharedSignature(unusual_signature()), SharedSignature(unusual_signature()));
  EXPECT_NE(SharedSignature(unusual_signature()), SharedSignature(Signature{}));
}

TEST(Key, tells_named_from_unnamed_calls) {
  EXPECT_EQ((Key{"layer4.weight", 0}).to_string(), "'layer4.weight'");
  EXPECT_EQ((Key{"", 12}).to_string(), "unnamed call 12");
  EXPECT_NE((Key{"", 1}), (Key{"", 2}));
}

TEST(Key, of_one_process_set_is_not_that_of_another) {
  EXPECT_NE((Key{"x", 0, 1}), (Key{"x", 0, 2}));
  EXPECT_NE((Key{"", 1, 0}), (Key{"", 1, 2}));
  EXPECT_NE(std::hash<Key>()({"x", 0, 1}), std::hash<Key>()({"x", 0, 2}));
}

TEST(Key, of_a_join_is_one_for_all_ranks_whatever_they_called_before) {
  EXPECT_TRUE(Key::join().is_unique());
  EXPECT_TRUE((Key{"x", 0}).is_unique());
  EXPECT_FALSE((Key{"", 3}).is_unique());
  EXPECT_EQ(Key::join().process_set, kGlobalSet);
}

/// Of an allreduce of one tensor; of a new process set where ranks are given.
Bytes written(Shape shape, std::vector<int> ranks = {}) {
  ByteWriter out;
  Signature{.tensors = {{DType::kFloat64, std::move(shape)}}, .ranks = std::move(ranks), .refusal = {}}.write(
      out);
  return out.take();
}

void expect_damaged(const Bytes& bytes) {
  ByteReader in(bytes);
  EXPECT_THROW(static_cast<void>(Signature::read(in)), Error);
}

TEST(Signature, a_shape_whose_size_cannot_be_told_is_an_error) {
  expect_damaged(written({std::int64_t{1} << 32, std::int64_t{1} << 31}));
  expect_damaged(written({0, std::int64_t{1} << 62}));
  expect_damaged(written({-2}));
  expect_damaged(written({3, Signature::kRagged}));
}

TEST(Signature, ranks_that_are_not_in_order_are_an_error) {
  expect_damaged(written({1}, {3, 1}));
  expect_damaged(written({1}, {1, 1}));
}

}  // namespace
}  // namespace hora
