// SPDX-License-Identifier: Apache-2.0
// peak_int8.cl: the most exact products of two signed or biased int8 that an x86 processor adds up, from registers alone:
//   with PEAK_AMX six tdpbssd of 16 rows, 16 outputs and 64 depths a step; else twelve vpdpbusd of PEAK_VNNI bits (512 or 256),
//   or (0) six times the four instructions that AVX2 needs for 32 products.
//   Mapping: one work-item a processor. Nothing but time comes out. Test: tests/cli/kernels_test.py.

#if PEAK_AMX
#define PEAK_STEP ".irp j,0,1,2,3,4,5\ntdpbssd %%tmm6, %%tmm7, %%tmm\\j\n.endr\n"
#define PEAK_CLOBBERS "memory"
#elif PEAK_VNNI == 512
#define PEAK_STEP ".irp j,0,1,2,3,4,5,6,7,8,9,10,11\nvpdpbusd %%zmm12, %%zmm13, %%zmm\\j\n.endr\n"
#define PEAK_CLOBBERS "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11"
#elif PEAK_VNNI == 256
#define PEAK_STEP ".irp j,0,1,2,3,4,5,6,7,8,9,10,11\n%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm\\j\n.endr\n"
#define PEAK_CLOBBERS "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11"
#else
#define PEAK_STEP                                \
  ".irp j,0,1,2,3,4,5\n"                         \
  "vpsignb %%ymm12, %%ymm13, %%ymm14\n"          \
  "vpmaddubsw %%ymm14, %%ymm13, %%ymm14\n"       \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm14\n"         \
  "vpaddd %%ymm14, %%ymm\\j, %%ymm\\j\n.endr\n"
#define PEAK_CLOBBERS "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm14"
#endif

__kernel void peak_int8(__global float* out, int steps)
{
  long n = steps;
#if PEAK_AMX
  const uint tiles[16] __attribute__((aligned(64))) = {
      1, 0, 0, 0, 64 | 64 << 16, 64 | 64 << 16, 64 | 64 << 16, 64 | 64 << 16, 0, 0, 0, 0, 0x10101010, 0x10101010};
  __asm__ volatile("ldtilecfg %0" : : "m"(tiles));
#endif
  __asm__ volatile("1:\n" PEAK_STEP "dec %0\njnz 1b\n" : "+r"(n) : : "cc", PEAK_CLOBBERS);
#if PEAK_AMX
  __asm__ volatile("tilerelease");
#endif
  out[get_global_id(0)] = (float)n;
}
