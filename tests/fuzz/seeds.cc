// Writes inputs as they are when nothing is wrong: FOLDER/TARGET/NAME. Fuzzing begins with them.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "backends/cuda/image_cache.h"
#include "backends/nccl/card.h"
#include "base/config.h"
#include "host.h"
#include "negotiation/message.h"
#include "samples.h"
#include "transport/same_settings.h"
#include "transport/shm/invitation.h"
#include "transport/shm/message_ring.h"
#include "transport/wake/greeting.h"

namespace hora::fuzz {
namespace {

class Seeds {
 public:
  explicit Seeds(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, std::span<const std::byte> input) const {
    std::filesystem::create_directories(folder_ / target);
    std::ofstream file(folder_ / target / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  }

 private:
  const std::filesystem::path folder_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
Bytes after(std::uint8_t choice, const T& value) {
  ByteWriter out;
  out.fixed(choice);
  out.fixed(value);
  return out.take();
}

struct NamedMessage {
  std::string name;
  int from;
  Bytes message;
};

Batch batch_of(std::uint32_t tensor, std::uint32_t id) {
  Request request = sample_request(tensor);
  Batch batch;
  batch.entries = {{request.key, std::move(request.signature), id}};
  batch.piece_bytes = 4096;
  batch.contributors = batch.divisor = 5;
  return batch;
}

Plan plan_of(std::vector<Batch> batches) {
  Plan plan;
  plan.batches = std::move(batches);
  return plan;
}

/// Of rank 1 from its parent, rank 0, or its child, rank 3.
std::vector<NamedMessage> messages() {
  const Request first = sample_request(1);
  const Request fourth = sample_request(4);
  const Signature add{.op = OpKind::kAddProcessSet, .ranks = {0, 3, 4}};
  Batch refused = batch_of(2, 0);
  refused.error = "allreduce 't2': ranks differ";
  Batch change = batch_of(1, 0);
  change.entries = {{{"", 1}, add, 0}};
  change.value = kSampleSet;
  Batch joined = batch_of(1, 0);
  joined.entries = {{Key::join(), Signature{.op = OpKind::kJoin}, 0}};
  joined.value = 4;
  Plan last = plan_of({});
  last.departure = Departure{3, "it was shut down"};
  using Announcements = std::vector<Announcement>;
  return {
      {"announce_new", 3, encode(Announcements{{fourth.key, 0, {{fourth.signature, {}}}, {}}})},
      {"announce_known", 3, encode(Announcements{{first.key, 1, {}, {}}})},
      {"announce_some", 3, encode(Announcements{{first.key, 1, {}, RankSet({3})}})},
      {"announce_set", 3, encode(Announcements{{{"", 1}, 0, {{add, {}}}, {}}})},
      {"announce_differing", 3,
       encode(Announcements{
           {first.key, 0, {{first.signature, RankSet({3})}, {fourth.signature, RankSet({4})}}, {}}})},
      {"plan_new", 0, encode(plan_of({batch_of(1, 1), batch_of(2, 2), batch_of(3, 3)}), 1)},
      {"plan_known", 0, encode(plan_of({batch_of(1, 1)}), 4)},
      {"plan_refused", 0, encode(plan_of({refused}), 4)},
      {"plan_set", 0, encode(plan_of({change}), 4)},
      {"plan_joined", 0, encode(plan_of({joined}), 4)},
      {"plan_departure", 0, encode(last, 4)},
      {"join", 3, encode_join(3)},
      {"wait", 3, encode_waits({first.key, {"", 7, kSampleSet}})},
      {"depart", 3, encode(Departure{3, "it was shut down"})},
      {"failure", 0, encode(Failure{2, "the network card is on fire"})},
      {"goodbye", 0, encode_goodbye()},
      {"stalled", 3,
       encode(std::vector<StalledCall>{{first.key, OpKind::kAllreduce, 60, RankSet({3, 4}), {}},
                                       {{"", 7}, OpKind::kBarrier, 1, RankSet({4}), {}}})},
      {"heard", 0, encode_heard()},
      {"question", 0, encode(Question{5, RankSet({1, 3})})},
      {"answer", 3, encode(Answer{5, 3, 17, true, "File \"train.py\", line 3 in evaluate"})},
      {"lasting", 3, encode(LastingBatch{16, kSampleSet, 61, "allreduce 'x'"})},
      {"through", 3, encode(Through{kSampleSet, 9})},
      {"caller_question", 0, encode(CallerQuestion{1, first.key, RankSet({1, 3})})},
      {"caller_answer", 3, encode(CallerAnswer{1, 3, "train.py:41"})},
  };
}

void write_step(ByteWriter& out, Step step) {
  out.fixed(step);
}

void write_tensor_step(ByteWriter& out, Step step, std::uint32_t tensor) {
  write_step(out, step);
  out.varint(tensor - 1);
}

void write_message(ByteWriter& out, int from, std::span<const std::byte> message) {
  write_step(out, Step::kMessage);
  out.varint(static_cast<std::uint64_t>(from));
  out.text(text_of(message));
}

/// Rank 1 has learnt the ids and calls a tensor when the message comes.
Bytes story_of(const NamedMessage& chapter, std::span<const std::byte> ids) {
  ByteWriter out;
  out.varint(1);
  for (std::uint32_t tensor = 1; tensor <= kSampleTensors; ++tensor)
    write_tensor_step(out, Step::kSubmit, tensor);
  write_message(out, 0, ids);
  write_tensor_step(out, Step::kSubmit, 1);
  write_message(out, chapter.from, chapter.message);
  return out.take();
}

/// The root agrees on what all call, then one of them joins and another leaves.
Bytes story_of_root(const std::vector<Announcement>& announced) {
  ByteWriter out;
  out.varint(0);
  write_tensor_step(out, Step::kSubmit, 4);
  for (const int child : {1, 2}) write_message(out, child, encode(announced));
  write_step(out, Step::kCut);
  write_message(out, 1, encode_join(3));
  write_message(out, 2, encode(Departure{2, "it was shut down"}));
  write_step(out, Step::kCut);
  return out.take();
}

void add_agreement(const Seeds& seeds) {
  const std::vector<NamedMessage> all = messages();
  const Bytes ids = encode(plan_of({batch_of(1, 1), batch_of(2, 2), batch_of(3, 3)}), 1);
  for (const NamedMessage& each : all) {
    seeds.add("message", each.name, each.message);
    seeds.add("negotiator", each.name, story_of(each, ids));
  }
  const Request fourth = sample_request(4);
  seeds.add("negotiator", "root", story_of_root({{fourth.key, 0, {{fourth.signature, {}}}, {}}}));
}

void add_wake(const Seeds& seeds) {
  constexpr std::uint8_t kKnock = 0;
  constexpr std::uint8_t kSpeak = 1;
  constexpr std::uint8_t kInvite = 2;
  constexpr std::uint8_t kAnswer = 3;
  Invitation invitation;
  invitation.address_count = 1;
  seeds.add("wake", "greeting", after(kKnock, Greeting{{}, 1}));
  seeds.add("wake", "asleep", after(kSpeak, std::uint64_t{0} << 1));
  seeds.add("wake", "awake", after(kSpeak, std::uint64_t{5} << 1 | 1));
  seeds.add("wake", "invitation", after(kInvite, invitation));
  seeds.add("wake", "answer", after(kAnswer, Secret{}));
}

/// Rank `rank` hears that the digests differ, and what the other one's values are.
Bytes heard_of_values(std::uint64_t rank, std::span<const std::byte> values) {
  ByteWriter out;
  out.varint(1 + rank);
  out.fixed(std::int64_t{5});
  out.fixed(std::int64_t{-7});
  out.fixed(std::uint64_t{values.size()});
  out.text(text_of(values));
  return out.take();
}

void add_values(const Seeds& seeds) {
  const Bytes one = encode_values({{"HORA_CACHE_CAPACITY", "7"}, {"version of hora", "1.2.3"}});
  const Bytes other = encode_values({{"HORA_CACHE_CAPACITY", ""}, {"version of hora", "1.2.3"}});
  ByteWriter both;
  both.varint(0);
  both.text(text_of(one));
  both.text(text_of(other));
  seeds.add("values", "lists", both.take());
  for (const std::uint64_t rank : {0, 1})
    seeds.add("values", "of_rank_" + std::to_string(1 - rank), heard_of_values(rank, one));
}

struct HostAct {
  HostStep step;
  std::uint64_t count;
};

/// To say a number of bytes is to say nothing but zeros, with which a rank says that it lacks nothing.
Bytes script_of(HostPart part, std::initializer_list<HostAct> acts) {
  ByteWriter out;
  out.fixed(part);
  for (const auto& [step, count] : acts) {
    out.fixed(step);
    step == HostStep::kSay ? out.text(std::string(count, '\0')) : out.varint(count);
  }
  return out.take();
}

void add_host(const Seeds& seeds) {
  using enum HostStep;
  HostInvitation invitation{.layout = {2, 2 * kPage, 8 * kPage}};
  invitation.name_listener("hora-0123456789");
  seeds.add("host", "invitation", after(static_cast<std::uint8_t>(HostPart::kInvitation), invitation));
  invitation.refusal = Refusal("it is switched off");
  seeds.add("host", "refusal", after(static_cast<std::uint8_t>(HostPart::kInvitation), invitation));
  constexpr std::size_t kRefusal = sizeof(Refusal);
  seeds.add("host", "leader",
            script_of(HostPart::kLeader, {{kHear, sizeof(HostGreeting)},
                                          {kHandFiles, 1},
                                          {kHear, kRefusal + 2},
                                          {kHandEvents, 2},
                                          {kHandProcesses, 2},
                                          {kHear, kRefusal},
                                          {kSay, kRefusal}}));
  seeds.add("host", "member",
            script_of(HostPart::kMember, {{kHear, 1},
                                          {kSay, kRefusal},
                                          {kHandEvents, 1},
                                          {kHandProcesses, 1},
                                          {kHear, 2},
                                          {kSay, kRefusal},
                                          {kHear, kRefusal}}));
  ByteWriter offset;
  offset.fixed(HostPart::kOffset);
  offset.varint(1);
  offset.fixed(static_cast<std::int64_t>(HostLayout{2, kPage, kPage}.heap(1)));
  offset.fixed(std::uint64_t{100});
  seeds.add("host", "offset", offset.take());
}

void add_ring(const Seeds& seeds) {
  const auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  writer.post(encode_goodbye());
  writer.post(Bytes(150, std::byte{7}));
  seeds.add("ring", "two_messages", std::as_bytes(std::span(ring.get(), 1)));
}

void add_cards(const Seeds& seeds) {
  std::array<nccl::Card, 2> cards{};
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    cards[rank].version = 22809;
    cards[rank].job_rank = static_cast<int>(rank);
    nccl::copy_text(cards[rank].host, "host boot");
    nccl::copy_text(cards[rank].bus_id, "0000:0" + std::to_string(rank) + ":00.0");
  }
  seeds.add("cards", "two", std::as_bytes(std::span(cards)));
  nccl::copy_text(cards[0].problem, "unhandled system error");
  seeds.add("cards", "no_id", std::as_bytes(std::span(cards)));
}

void add_texts(const Seeds& seeds) {
  std::string defaults;
  for (const SettingInfo& setting : setting_table()) {
    const std::string line = std::string(setting.name) + "=" + std::string(setting.fallback) + "\n";
    defaults += line;
    seeds.add("settings", std::string(setting.name), bytes_of(line));
  }
  seeds.add("settings", "all", bytes_of(defaults));
  seeds.add("settings", "split",
            bytes_of("HORA_HOST_SPLIT=3,2\nHOROVOD_FUSION_THRESHOLD=0\nHOROVOD_RANK=1\n"));
  seeds.add("settings", "faults",
            bytes_of("HORA_FAULTS=in_batch:1:20:kill,before_message:2:5:delay=0.3,in_allocation:0:1:fail\n"));
  seeds.add("image", "sealed", cuda::seal(bytes_of("machine code")));
  ByteWriter values;
  values.varint(300);
  values.signed_varint(-300);
  values.text("text");
  std::string reads{char(0), char(1), char(2)};
  const Bytes written = values.take();
  reads.resize(written.size(), char(5));
  ByteWriter both;
  for (const char read : reads) both.fixed(read);
  for (const std::byte byte : written) both.fixed(byte);
  seeds.add("bytes", "three_values", both.take());
}

void add_all(const Seeds& seeds) {
  add_agreement(seeds);
  add_wake(seeds);
  add_values(seeds);
  add_host(seeds);
  add_ring(seeds);
  add_cards(seeds);
  add_texts(seeds);
}

}  // namespace
}  // namespace hora::fuzz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: hora_fuzz_seeds FOLDER\n";
    return 2;
  }
  hora::fuzz::add_all(hora::fuzz::Seeds(arguments[1]));
  return 0;
}
