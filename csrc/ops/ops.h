#pragma once

#include "ops/table.h"

namespace hora {

// The functions named in the table; each op has a file of its own.

void check_allreduce(const Submission& submission, int size);
void allreduce_on_host(const HostCall& call);

void check_allgather(const Submission& submission, int size);
void allgather_on_host(const HostCall& call);

void check_broadcast(const Submission& submission, int size);
void broadcast_on_host(const HostCall& call);

void check_barrier(const Submission& submission, int size);
void barrier_on_host(const HostCall& call);

}  // namespace hora
