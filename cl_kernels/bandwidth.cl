// SPDX-License-Identifier: Apache-2.0
// bandwidth.cl: reads memory as fast as the device can.
//   sums[i] = sum of what item i read; only there so that the reads are not dropped.
//   data [items * vectors_per_item] float16. Mapping: a CPU's item reads one contiguous share; a GPU's items read
//   neighbouring vectors.
__kernel void read_bandwidth(__global float* restrict sums, __global const float16* restrict data, int vectors_per_item,
                             int contiguous)
{
  const size_t item = get_global_id(0), items = get_global_size(0);
  const size_t stride = contiguous ? 1 : items;
  __global const float16* from = data + (contiguous ? item * vectors_per_item : item);
  float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
  for (int i = 0; i < vectors_per_item; i += 8) {
    a += from[0] + from[4 * stride];
    b += from[stride] + from[5 * stride];
    c += from[2 * stride] + from[6 * stride];
    d += from[3 * stride] + from[7 * stride];
    from += 8 * stride;
  }
  a = (a + b) + (c + d);
  const float8 e = a.lo + a.hi;
  const float4 f = e.lo + e.hi;
  sums[item] = f.x + f.y + f.z + f.w;
}
