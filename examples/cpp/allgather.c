/* Gathers rows whose number differs between ranks. Built against an installed hora: docs/guides/cpp.md. */

#include <hora.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int status) {
  if (status == HORA_OK) return;
  fprintf(stderr, "%s\n", hora_last_error());
  exit(1); /* leaves the job, so that the other ranks do not wait */
}

int main(void) {
  check(hora_init());
  const int rank = hora_rank();

  const int64_t shape[] = {rank + 1}; /* rank 0 has one row, rank 1 two */
  int32_t* const rows = calloc((size_t)rank + 1, sizeof *rows);
  if (rows == NULL) return 1;
  for (int row = 0; row <= rank; ++row) rows[row] = 10 * rank + row;
  const hora_tensor tensor = {.input = rows, .shape = shape, .ndim = 1, .dtype = HORA_INT32};

  hora_handle* handle;
  check(hora_allgather_async(&tensor, 1, "rows", HORA_GLOBAL_SET, &handle)); /* returns at once */
  check(hora_wait(handle, 30.0));
  hora_output all;
  check(hora_get_output(handle, 0, &all));

  const int32_t* const values = all.data;
  const int64_t count = all.shape[0];
  printf("rank %d of %d: %lld rows, the last is %d\n", rank, hora_size(), (long long)count,
         (int)values[count - 1]);
  check(hora_release(handle));
  free(rows);
  check(hora_shutdown());
  return 0;
}
