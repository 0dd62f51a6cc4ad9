#include "backends/nccl/launched.h"

#include <fmt/format.h>

#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"

namespace hora::nccl {

using cuda::DeviceScope;

LaunchedBatch::LaunchedBatch(std::shared_ptr<cuda::Device> device, std::string what)
    : consumer(std::make_shared<std::atomic<std::uintptr_t>>(cuda::kNoStream)),
      device_(std::move(device)),
      what_(std::move(what)),
      begin_(device_->new_event()),
      end_(device_->new_event()) {}

void LaunchedBatch::record_begin() {
  check(device_->driver(), device_->driver().event_record(begin_.get(), device_->stream()), "cuEventRecord");
}

void LaunchedBatch::record_end() {
  check(device_->driver(), device_->driver().event_record(end_.get(), device_->stream()), "cuEventRecord");
  has_end_ = true;
}

/// Before its end is recorded the event tells of an earlier batch.
cuda::Result LaunchedBatch::state() const {
  if (!has_end_) return cuda::Result::kNotReady;
  const DeviceScope scope(*device_);
  return device_->driver().event_query(end_.get());
}

bool LaunchedBatch::has_begun() const {
  const DeviceScope scope(*device_);
  return device_->driver().event_query(begin_.get()) != cuda::Result::kNotReady;
}

/// After a fault of the device nothing of it runs any more.
bool LaunchedBatch::is_complete() {
  if (complete_ || device_->is_of_parent()) return true;
  if (state() == cuda::Result::kNotReady) return false;
  complete_ = true;
  return true;
}

void LaunchedBatch::order_before(std::uintptr_t stream) {
  throw_if_failed();
  device_->require_no_capture(stream);
  const cuda::Result now = state();
  if (now != cuda::Result::kNotReady) check_state(now);
  consumer->store(stream);
  if (now == cuda::Result::kNotReady) hold(cuda::to_stream(stream));
}

void LaunchedBatch::check_state(cuda::Result state) const {
  if (state != cuda::Result::kSuccess)
    raise(ErrorKind::kSessionFailed, "{}: the GPU has failed: {}", what_, describe(device_->driver(), state));
}

void LaunchedBatch::hold(cuda::Stream stream) const {
  const DeviceScope scope(*device_);
  check(device_->driver(), device_->driver().stream_wait_event(stream, end_.get(), 0), "cuStreamWaitEvent");
}

/// In small steps, since a batch that is aborted may never be complete.
void LaunchedBatch::wait() {
  constexpr auto kStep = std::chrono::microseconds(50);
  for (; !is_complete(); std::this_thread::sleep_for(kStep)) throw_if_failed();
  throw_if_failed();
}

void LaunchedBatch::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  const std::string_view reason = error.what();
  failure_ = reason.starts_with(what_) ? error : Error(error.kind(), fmt::format("{}: {}", what_, reason));
}

void LaunchedBatch::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

void LaunchedBatches::add(std::shared_ptr<LaunchedBatch> batch, const Batch& agreed,
                          std::shared_ptr<void> needs) {
  batches_.push_back({std::move(batch), agreed.number, agreed.process_set(), std::move(needs), std::nullopt});
}

std::optional<OnDevice> LaunchedBatches::first() const {
  if (batches_.empty()) return std::nullopt;
  const Entry& first = batches_.front();
  return OnDevice{first.number, first.process_set, first.batch->what(), first.begun};
}

void LaunchedBatches::look(TimePoint now, Duration limit) {
  for (; !batches_.empty(); batches_.pop_front()) {
    const cuda::Result state = batches_.front().batch->state();
    if (state == cuda::Result::kNotReady) break;
    batches_.front().batch->check_state(state);
    finished_.push_back(batches_.front().process_set);
  }
  if (batches_.empty()) return;
  // Only the first can have begun and not be complete.
  Entry& first = batches_.front();
  if (!first.begun && first.batch->has_begun()) first.begun = now;
  if (!first.begun || now - *first.begun < limit) return;
  raise(ErrorKind::kSessionFailed,
        "{}: the GPU has been at it for {:.0f} s without coming to its end; some rank's GPU may not have "
        "begun with it",
        first.batch->what(), std::chrono::duration<double>(now - *first.begun).count());
}

std::shared_ptr<LaunchedBatch> LaunchedBatches::oldest() const {
  return batches_.empty() ? nullptr : batches_.front().batch;
}

std::shared_ptr<void> LaunchedBatches::fail(const Error& error) {
  auto all = std::make_shared<std::deque<Entry>>(std::exchange(batches_, {}));
  for (const Entry& entry : *all) entry.batch->fail(error);
  return all;
}

}  // namespace hora::nccl
