// SPDX-License-Identifier: Apache-2.0
// groups.cl: what the kernels of GPUs have in common. There an item is the work of a work-group of WORK_GROUP work-items
//   ("threads" below): neighbours read neighbouring words, and what they share lies in local memory. Each number comes from the
//   same operations in the same order as in the function of one work-item, <operation>_item(), so its bits are the same:
//   sums whose order is fixed are done by one thread each, exact ones (integers, maxima) by many.
//   Files: groups_dots.cl, groups_linear.cl, groups_rows.cl, groups_attention.cl, groups_sampling.cl; kernels: run_groups.cl.
//   They come behind the files of the <operation>_item(), from which they take layouts and arithmetic. The arguments of a stage
//   are the kernel's, by value: GPUs have them at hand, where each word out of `step` would be waited for.
// Test: tests/unit/exec/determinism_test.cpp, tests/kernel.

#define WORK_GROUP 256
#define THREAD ((int)get_local_id(0))
#define TOGETHER() barrier(CLK_LOCAL_MEM_FENCE)
#define EACH_THREAD(i, COUNT) for (int i = THREAD; i < (COUNT); i += WORK_GROUP)

// COUNT numbers of local memory, declared as vectors, so that they are aligned for these.
#define LOCAL(TYPE, NAME, COUNT)                      \
  __local TYPE##4 NAME##_vectors[((COUNT) + 3) / 4]; \
  __local TYPE* NAME = (__local TYPE*)NAME##_vectors;

// A tile in local memory: up to 64 rows of 64 numbers; the 4 behind each row keep threads on different banks.
#define TILE_ROWS 64
#define TILE_STRIDE 68

// Writes the first 32 numbers of `count` rows of a tile as blocks of int8 (write_bytes() of linear_item.cl): row i becomes
// block first + i * step of `to`. The tile is lost.
static void write_tile_bytes(__global float* act, const Rows* to, size_t first, size_t step, int count,
                             __local float* tile)
{
  // Magnitudes have the order of their bits: the largest of 8 numbers each, behind the row, then of all.
  TOGETHER();
  EACH_THREAD(i, count * 4) {
    __local float* row = tile + i / 4 * TILE_STRIDE;
    int most = 0;
    for (int j = 0; j < 8; j++) most = max(most, as_int(row[i % 4 * 8 + j]) & 0x7FFFFFFF);
    row[64 + i % 4] = as_float(most);
  }
  TOGETHER();
  EACH_THREAD(i, count * 32) {
    __local float* row = tile + i / 32 * TILE_STRIDE;
    const int column = i % 32;
    const int most = max(max(as_int(row[64]), as_int(row[65])), max(as_int(row[66]), as_int(row[67])));
    const float largest = as_float(most);
    const int number = nearest_int_1(row[column], largest > 0.0f ? 127.0f / largest : 0.0f);
    const size_t block = first + i / 32 * step;
    ((__global char*)(act + to->bytes))[block * 32 + column] = convert_char(number);
    if (column == 0) act[to->scales + block] = largest * (1.0f / 127.0f) + (largest - largest);
    row[32 + column] = as_float(number);
  }
  TOGETHER();
  EACH_THREAD(i, count) {
    __local const float* row = tile + i * TILE_STRIDE + 32;
    int low = 0, high = 0;  // the int8 at depths 4j and 4j+1; at 4j+2 and 4j+3
    for (int j = 0; j < 32; j += 4) {
      low += as_int(row[j]) + as_int(row[j + 1]);
      high += as_int(row[j + 2]) + as_int(row[j + 3]);
    }
    low *= -8;
    high *= -8;
    vstore2((int2)((low & 0xFFFF) | (high << 16), low + high), first + i * step, (__global int*)act + to->sums);
  }
  TOGETHER();
}
