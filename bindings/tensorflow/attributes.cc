#include "attributes.h"

#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "base/error.h"
#include "status.h"

namespace hora::tensorflow {
namespace {

bool read_bool(KernelConstruction& construction, const char* attribute) {
  unsigned char value = 0;
  checked(api().construction_get_attr_bool, &construction, attribute, &value);
  return value != 0;
}

/// Attributes of TensorFlow have no double; such numbers are written out.
double read_number(KernelConstruction& construction, const char* attribute) {
  const std::string text = read_string(construction, attribute);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    raise(ErrorKind::kInvalidArgument, "{} is '{}', not a number", attribute, text);
  return number;
}

}  // namespace

std::string read_string(KernelConstruction& construction, const char* attribute) {
  std::int32_t list_size = 0;
  std::int32_t length = 0;
  checked(api().construction_get_attr_size, &construction, attribute, &list_size, &length);
  std::string text(static_cast<std::size_t>(length), '\0');
  checked(api().construction_get_attr_string, &construction, attribute, text.data(), text.size());
  return text;
}

std::int64_t read_integer(KernelConstruction& construction, const char* attribute) {
  std::int64_t value = 0;
  checked(api().construction_get_attr_int64, &construction, attribute, &value);
  return value;
}

Attributes read_attributes(OpKind op, KernelConstruction& construction) {
  Attributes attributes;
  attributes.op = op;
  attributes.waits = read_bool(construction, "waits");
  if (op == OpKind::kJoin) return attributes;
  attributes.name = read_string(construction, "tensor_name");
  attributes.is_node = read_bool(construction, "adds_node_name");
  if (attributes.is_node) {
    const StringView node = api().construction_get_name(&construction);
    attributes.name.append("/").append(node.data, node.length);
  }
  if (std::string caller = read_string(construction, "caller"); !caller.empty())
    attributes.caller = std::make_shared<const std::string>(std::move(caller));
  attributes.process_set = static_cast<std::int32_t>(read_integer(construction, "process_set"));
  if (op == OpKind::kBroadcast) attributes.root = read_integer(construction, "root_rank");
  if (!reduces(op)) return attributes;
  const std::int64_t reduce = read_integer(construction, "reduce_op");
  if (reduce < 0 || reduce >= std::ssize(kReduceOpNames))
    raise(ErrorKind::kInvalidArgument, "reduce_op is {}, which is unknown", reduce);
  attributes.reduce = static_cast<ReduceOp>(reduce);
  attributes.prescale = read_number(construction, "prescale");
  attributes.postscale = read_number(construction, "postscale");
  if (op == OpKind::kAllreduce)
    attributes.patience = std::chrono::microseconds(read_integer(construction, "patience_us"));
  return attributes;
}

}  // namespace hora::tensorflow
