#include "world.h"

#include <algorithm>
#include <span>
#include <string>

#include "api/default_session.h"
#include "attributes.h"
#include "base/error.h"
#include "tensors.h"

namespace hora::tensorflow {
namespace {

struct Number {
  const char* name;
  decltype(WorldAttributes::number) read;
};

constexpr Number kNumbers[] = {
    {"rank", [](const Session& session, std::int32_t) -> std::int64_t { return session.topology().rank(); }},
    {"local_rank",
     [](const Session& session, std::int32_t) -> std::int64_t { return session.topology().local_rank(); }},
    {"local_size",
     [](const Session& session, std::int32_t) -> std::int64_t { return session.topology().local_size(); }},
    {"size",
     [](const Session& session, std::int32_t process_set) {
       return static_cast<std::int64_t>(session.process_set(process_set).size());
     }},
    {"included",
     [](const Session& session, std::int32_t process_set) -> std::int64_t {
       return std::ranges::binary_search(session.process_set(process_set), session.topology().rank()) ? 1 : 0;
     }},
};

}  // namespace

WorldAttributes read_world_attributes(KernelConstruction& construction) {
  const std::string name = read_string(construction, "number");
  const auto* const found = std::ranges::find(kNumbers, name, &Number::name);
  if (found == std::ranges::end(kNumbers))
    raise(ErrorKind::kInvalidArgument, "there is no number '{}'", name);
  return {found->read, static_cast<std::int32_t>(read_integer(construction, "process_set"))};
}

void set_world_number(const WorldAttributes& attributes, KernelContext& context) {
  const std::int64_t value = attributes.number(*default_session(), attributes.process_set);
  set_output(context, 0, {}, std::span(&value, 1));
}

}  // namespace hora::tensorflow
