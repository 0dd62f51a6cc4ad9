#pragma once

#include "ops/device.h"
#include "ops/table.h"

namespace hora {

// The functions named in the table; each op has a file of its own.

void check_allreduce(const Submission& submission, const std::vector<int>& members);
void allreduce_on_host(const HostCall& call);
void allreduce_on_device(const DeviceCall& call);

void check_allgather(const Submission& submission, const std::vector<int>& members);
void allgather_on_host(const HostCall& call);
void allgather_on_device(const DeviceCall& call);

void check_broadcast(const Submission& submission, const std::vector<int>& members);
void broadcast_on_host(const HostCall& call);
void broadcast_on_device(const DeviceCall& call);

void check_alltoall(const Submission& submission, const std::vector<int>& members);
void alltoall_on_host(const HostCall& call);
void alltoall_on_device(const DeviceCall& call);

void check_reducescatter(const Submission& submission, const std::vector<int>& members);
void reducescatter_on_host(const HostCall& call);
void reducescatter_on_device(const DeviceCall& call);

void check_process_set(const Submission& submission, const std::vector<int>& members);
void check_nothing(const Submission& submission, const std::vector<int>& members);

}  // namespace hora
