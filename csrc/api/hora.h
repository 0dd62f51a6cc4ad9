/// Hora's C interface, in C99: the collectives of this process's one session, which all its languages share.
///
/// Results. A function that returns `int` and does not say otherwise returns a status: HORA_OK, or why it
/// failed, with hora_last_error() for the words. What one rank passes wrongly fails on that rank at once and
/// on the other ranks when they wait; what ranks disagree about fails on all of them when they wait. The job
/// goes on after both. After HORA_SESSION_FAILED it does not.
///
/// Threads. All functions may be called from any thread; a handle may be used by several until it is
/// released. No function calls back, and no C++ exception leaves one.
///
/// Memory. Everything passed in is copied before a function returns, except the elements of tensors: those
/// belong to the operation until it is complete. Neither read an output nor change an input before that.
///
/// Sizes count elements or rows in 64 bits. NULL is an error unless a function says what it means.
#ifndef HORA_H
#define HORA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Changes when a program built with an older header would no longer work. New functions and new values may
/// come without that.
#define HORA_ABI_VERSION 1

/// The version of the library that is loaded, to be compared with HORA_ABI_VERSION.
int hora_abi_version(void);

/// Statuses.
enum {
  HORA_OK = 0,
  HORA_INVALID_ARGUMENT = 1,  ///< this rank passed something wrong; nothing was started
  HORA_MISMATCH = 2,          ///< ranks disagree about one call; only that call fails, on every rank
  HORA_NOT_INITIALIZED = 3,   ///< hora_init() has not been called, or hora_shutdown() has
  HORA_STARTUP_FAILED = 4,    ///< the job cannot be joined
  HORA_SESSION_FAILED = 5,    ///< the session is over: a rank left or was lost, or an internal error
  HORA_TIMEOUT = 6,           ///< not yet complete; wait again
  HORA_INTERNAL_ERROR = 7     ///< such as no memory
};

/// Element types.
enum {
  HORA_BOOL = 0,
  HORA_UINT8 = 1,
  HORA_INT8 = 2,
  HORA_INT16 = 3,
  HORA_INT32 = 4,
  HORA_INT64 = 5,
  HORA_FLOAT16 = 6,
  HORA_BFLOAT16 = 7,
  HORA_FLOAT32 = 8,
  HORA_FLOAT64 = 9
};

/// How contributions combine.
enum {
  HORA_AVERAGE = 0,  ///< over the ranks that contribute; truncated toward zero for integers
  HORA_SUM = 1,
  HORA_ADASUM = 2,
  HORA_MIN = 3,
  HORA_MAX = 4,
  HORA_PRODUCT = 5
};

/// Where the memory of a tensor is.
enum { HORA_HOST = 0 };

/// The process set of all ranks.
enum { HORA_GLOBAL_SET = 0 };

/// A dense tensor of this rank in row-major order.
typedef struct hora_tensor {
  const void* input;     ///< NULL only where there are no elements
  void* output;          ///< the input's memory to work in place; NULL where the operation allocates
                         ///< or there are no elements
  const int64_t* shape;  ///< `ndim` extents of the input; NULL for a scalar, whose ndim is 0
  int32_t ndim;
  int32_t dtype;     ///< HORA_FLOAT32 ...
  int32_t device;    ///< HORA_HOST
  int32_t reserved;  ///< 0
} hora_tensor;

/// A result that the library has allocated; see hora_get_output.
typedef struct hora_output {
  void* data;
  const int64_t* shape;  ///< `ndim` extents
  const int64_t* rows;   ///< how many rows came from each member of the process set, in the order of ranks
  int64_t members;       ///< length of `rows`
  int32_t ndim;
  int32_t dtype;
} hora_output;

/// One operation under way, or complete. Each one that a function hands out has to be released.
typedef struct hora_handle hora_handle;

/// The text of this thread's last failure, "" before the first. It stays as it is until another function
/// fails on this thread; success does not clear it.
const char* hora_last_error(void);

// --- the session

/// Joins the job that a launcher such as mpirun has started, or a job of one rank without a launcher. Reads
/// the settings of the environment. Does nothing when the session runs already.
int hora_init(void);

/// Leaves the job; what is still under way fails. Does nothing when there is no session. Also done by exit().
/// Handles stay valid until they are released.
int hora_shutdown(void);

/// 1 or 0.
int hora_is_initialized(void);

/// Numbers, not statuses; -1 when there is no session. Local ranks are those of one host; cross ranks those
/// with one local rank, one on each host.
int hora_rank(void);
int hora_size(void);
int hora_local_rank(void);
int hora_local_size(void);
int hora_cross_rank(void);
int hora_cross_size(void);

// --- operations
//
// Each starts an operation and stores its handle in `*handle`, which is written on success only. All members
// of the process set make the same call.
//
// tensors   `count` of them, at least one. They become ready together; a mismatch fails all of them.
// name      Says which calls of the ranks belong together. It is in use until its handle has been waited for,
//           polled as complete, or released. NULL or "": unnamed calls belong together by their order.
// members   Ranks of a process set are numbered in ascending order. `root` is a rank of the job.

/// Reduces elements over the ranks; shapes and dtypes are equal on all. Multiplies by `prescale` before and
/// by `postscale` after; 1.0 changes nothing.
int hora_allreduce_async(const hora_tensor* tensors, int64_t count, int32_t reduce_op, double prescale,
                         double postscale, const char* name, int32_t process_set, hora_handle** handle);

/// Concatenates the ranks' tensors along their first dimension, which may differ between ranks. The library
/// allocates the outputs.
int hora_allgather_async(const hora_tensor* tensors, int64_t count, const char* name, int32_t process_set,
                         hora_handle** handle);

/// Copies the root's input to everyone's output, its own too. Inputs of other ranks do not matter.
int hora_broadcast_async(const hora_tensor* tensors, int64_t count, int32_t root, const char* name,
                         int32_t process_set, hora_handle** handle);

/// Sends `splits[m]` rows to member m, the first rows to member 0 and so on, and concatenates what comes from
/// each. There is one split for each member; they add up to the rows of the tensor. The library allocates the
/// output.
int hora_alltoall_async(const hora_tensor* tensor, const int64_t* splits, int64_t split_count,
                        const char* name, int32_t process_set, hora_handle** handle);

/// Reduces like allreduce (HORA_SUM or HORA_AVERAGE), but member m gets only its share of the rows. Of R rows
/// over M members each gets R / M, and the first R % M members one more. Outputs have that many rows and are
/// not NULL unless R is 0.
int hora_reducescatter_async(const hora_tensor* tensors, int64_t count, int32_t reduce_op, double prescale,
                             double postscale, const char* name, int32_t process_set, hora_handle** handle);

/// Complete when all members have called it. Operations under way do not matter.
int hora_barrier_async(int32_t process_set, hora_handle** handle);

/// Complete when all ranks have called it; until then operations of the global set go on without this rank.
/// Its value is the rank that came last.
int hora_join_async(hora_handle** handle);

/// Makes a process set of some ranks, given in ascending order. Every rank of the job calls it, member or
/// not. Its value is the number of the set.
int hora_add_process_set_async(const int32_t* ranks, int64_t count, hora_handle** handle);

/// Forgets a process set; what is under way in it fails. Every rank of the job calls it.
int hora_remove_process_set_async(int32_t process_set, hora_handle** handle);

// --- handles

/// Stores 1 when the operation is complete, well or badly, otherwise 0; does not block.
int hora_poll(hora_handle* handle, int* complete);

/// Blocks until the operation is complete or so many seconds have passed, and returns how it ended, or
/// HORA_TIMEOUT. The thread takes part in the work meanwhile. 0 only looks; INFINITY waits until the
/// operation is complete or the session has failed.
int hora_wait(hora_handle* handle, double timeout_seconds);

/// Describes output `tensor`, from 0 on, of a complete allgather or alltoall. Its memory belongs to the
/// handle and goes with it.
int hora_get_output(const hora_handle* handle, int64_t tensor, hora_output* output);

/// Stores what a complete operation decided; see hora_join_async and hora_add_process_set_async.
int hora_get_value(const hora_handle* handle, int64_t* value);

/// Frees a handle and the outputs it owns; NULL is nothing. Fails with HORA_INVALID_ARGUMENT, and frees
/// nothing, while the operation is under way, because the tensors are then still in use. hora_shutdown()
/// completes everything.
int hora_release(hora_handle* handle);

#ifdef __cplusplus
}
#endif

#endif
