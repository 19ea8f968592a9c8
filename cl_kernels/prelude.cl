// SPDX-License-Identifier: Apache-2.0
// prelude.cl: comes before every kernel file.
//   Floating-point contraction is off: a*b+c is rounded twice wherever the source says so and once where it says fma(),
//   on every device and in every variant of a kernel. Outputs are bitwise reproducible because of it.
#pragma OPENCL FP_CONTRACT OFF

// -D EXACT_FMA=1: fma() out of additions and multiplications, for drivers that emulate theirs lane by lane with branches, over
// which their compilers take minutes. The product and the sums are exact in pairs of floats; the smaller parts are added with
// rounding to odd, so that the last addition rounds as one fused operation would. Not for products below 2^-100 or factors
// above 2^100. Sources: Dekker 1971 (product), Knuth (sum), Boldo and Melquiond 2008 (rounding to odd).
#if EXACT_FMA
#define DEFINE_FMA(F, I)                                                                                                 \
  static F __attribute__((overloadable)) exact_fma(F a, F b, F c)                                                        \
  {                                                                                                                      \
    const F a4097 = a * (F)(4097.0f), b4097 = b * (F)(4097.0f);                                                          \
    const F ah = a4097 - (a4097 - a), al = a - ah, bh = b4097 - (b4097 - b), bl = b - bh;                                \
    const F p = a * b, pe = (((ah * bh - p) + ah * bl) + al * bh) + al * bl; /* p + pe = a * b */                        \
    const F t = c + pe, tc = t - c, te = (c - (t - tc)) + (pe - tc);         /* t + te = c + pe */                       \
    const F v = p + t, vp = v - p, ve = (p - (v - vp)) + (t - vp);           /* v + ve = p + t */                        \
    const F s = te + ve, st = s - te, se = (te - (s - st)) + (ve - st);      /* s + se = te + ve */                      \
    const I outwards = (I)(1) + (I)(2) * ((as_##I(se) ^ as_##I(s)) >> (I)(31));                                          \
    const I odd = select((I)(0), outwards, (I)(se != (F)(0.0f)) & (I)((as_##I(s) & (I)(1)) == (I)(0)));                  \
    const F plain = p + c; /* of infinity and NaN */                                                                     \
    const I infinite = (as_##I(plain) & (I)(0x7F800000)) == (I)(0x7F800000);                                             \
    return select(v + as_##F(as_##I(s) + odd), plain, infinite);                                                         \
  }
DEFINE_FMA(float, int)
DEFINE_FMA(float2, int2)
DEFINE_FMA(float4, int4)
DEFINE_FMA(float8, int8)
DEFINE_FMA(float16, int16)
#define fma exact_fma
#endif

// What a kernel calls and should not hold itself: PoCL compiles each kernel three times over (by itself, and as loops over a
// work-group of one size and of any), what stands apart from it once.
#ifdef POCL_DEVICE_ADDRESS_BITS
#define OUT_OF_LINE __attribute__((noinline))
#else
#define OUT_OF_LINE
#endif

// Functions for float, float8 and float16 alike: FOR_FLOATS(M) expands M(F, I, SUFFIX) for each.
#define FOR_FLOATS(M) M(float, int, 1) M(float8, int8, 8) M(float16, int16, 16)

// exp(x) for x <= 0 (below -87: exp(-87)): range reduction by n*ln 2, polynomial of degree 6. Relative error below 2e-7,
// exp(0) = 1 exactly. No built-in is used, so that host (src/sample/sampler.cpp) and all devices agree bit for bit.
// Source of the coefficients: Cephes, expf.
#define DEFINE_EXP(F, I, N)                                                             \
  static F exp_nonpositive_##N(F x)                                                     \
  {                                                                                     \
    x = select(x, (F)(-87.0f), x < (F)(-87.0f)); /* NaN stays */                        \
    const F shifted = fma(x, (F)(1.44269504f), (F)(12582912.0f));                       \
    const F n = shifted - (F)(12582912.0f);                                             \
    F r = fma(n, (F)(-0.693359375f), x);                                                \
    r = fma(n, (F)(2.12194440e-4f), r);                                                 \
    F p = (F)(1.9875691500e-4f);                                                        \
    p = fma(p, r, (F)(1.3981999507e-3f));                                               \
    p = fma(p, r, (F)(8.3334519073e-3f));                                               \
    p = fma(p, r, (F)(4.1665795894e-2f));                                               \
    p = fma(p, r, (F)(1.6666665459e-1f));                                               \
    p = fma(p, r, (F)(5.0000001201e-1f));                                               \
    p = fma(p, r * r, r) + (F)(1.0f);                                                   \
    return as_##F(as_##I(p) + ((as_##I(shifted) - (I)(0x4B400000)) << (I)(23)));        \
  }
FOR_FLOATS(DEFINE_EXP)

// 1 / (1 + exp(-z)).
#define DEFINE_SIGMOID(F, I, N)                                                         \
  static F sigmoid_##N(F z)                                                             \
  {                                                                                     \
    const F e = exp_nonpositive_##N(-fabs(z));                                          \
    return select((F)(1.0f), e, z < (F)(0.0f)) / (1.0f + e);                            \
  }
FOR_FLOATS(DEFINE_SIGMOID)

// Gate g and up u of a feed-forward become g / (1 + exp(-z)) * u: z is g (SiLU), or with -D GELU=1
// 2 sqrt(2 / pi) (g + 0.044715 g^3): GELU by its tanh approximation, since (1 + tanh(z / 2)) / 2 = 1 / (1 + exp(-z)). With
// -D CLAMPED_SWIGLU=1 g is 7 at most, z = 1.702 g, and u + 1 takes u's place, u within -7 to 7. With -D RELU_SQUARED=1 they
// become max(g, 0)^2 u. NaN stays. A feed-forward without a gate is one whose up is 1.
#if GELU
#define GATE_EXPONENT(g) (1.5957691216f * (g) * (1.0f + 0.044715f * (g) * (g)))
#elif CLAMPED_SWIGLU
#define GATE_EXPONENT(g) (1.702f * (g))
#else
#define GATE_EXPONENT(g) (g)
#endif
#if CLAMPED_SWIGLU
#define CLAMP_GATE(F, g, u)                                                             \
  g = select(g, (F)(7.0f), g > (F)(7.0f));                                              \
  u = select(u, (F)(7.0f), u > (F)(7.0f));                                              \
  u = select(u, (F)(-7.0f), u < (F)(-7.0f)) + 1.0f;
#else
#define CLAMP_GATE(F, g, u)
#endif
#if RELU_SQUARED
#define DEFINE_GATED(F, I, N)                                                           \
  static F gated_##N(F g, F u)                                                          \
  {                                                                                     \
    const F positive = select(g, (F)(0.0f), g < (F)(0.0f));                             \
    return positive * positive * u;                                                     \
  }
#else
#define DEFINE_GATED(F, I, N)                                                           \
  static F gated_##N(F g, F u)                                                          \
  {                                                                                     \
    CLAMP_GATE(F, g, u)                                                                 \
    const F z = GATE_EXPONENT(g), e = exp_nonpositive_##N(-fabs(z));                    \
    return g * select((F)(1.0f), e, z < (F)(0.0f)) / (1.0f + e) * u;                    \
  }
#endif
FOR_FLOATS(DEFINE_GATED)

// cap * tanh(x / cap).
#define DEFINE_SOFT_CAP(F, I, N)                                                        \
  static F soft_capped_##N(F x, float cap)                                              \
  {                                                                                     \
    const F e = exp_nonpositive_##N(fabs(x) * (-2.0f / cap));                           \
    const F capped = cap * ((1.0f - e) / (1.0f + e));                                   \
    return select(capped, -capped, x < (F)(0.0f));                                      \
  }
FOR_FLOATS(DEFINE_SOFT_CAP)

// x * factor, rounded to the nearest integer, ties to even. |x * factor| < 2^22; of NaN any number.
#define DEFINE_NEAREST(F, I, N)                                                         \
  static I nearest_int_##N(F x, F factor)                                               \
  {                                                                                     \
    return as_##I(fma(x, factor, (F)(12582912.0f))) - (I)(0x4B400000);                  \
  }
FOR_FLOATS(DEFINE_NEAREST)

// Sum and largest of a vector, in a fixed order.
#define DEFINE_REDUCTION(NAME, T, BOTH)                                                 \
  static T NAME##_8(T##8 v)                                                             \
  {                                                                                     \
    const T##4 a = BOTH(v.lo, v.hi);                                                    \
    const T##2 b = BOTH(a.lo, a.hi);                                                    \
    return BOTH(b.x, b.y);                                                              \
  }                                                                                     \
  static T NAME##_16(T##16 v) { return NAME##_8(BOTH(v.lo, v.hi)); }
#define PLUS(a, b) ((a) + (b))
DEFINE_REDUCTION(sum, float, PLUS)
DEFINE_REDUCTION(max, float, fmax)
DEFINE_REDUCTION(sum_int, int, PLUS)
DEFINE_REDUCTION(max_int, int, max)

// Stores to any address of a float as one instruction where there is one (PoCL's vstore16 takes three).
typedef float16 __attribute__((aligned(4))) float16_anywhere;
typedef float8 __attribute__((aligned(4))) float8_anywhere;
#define STORE_16(value, to) (*(__global float16_anywhere*)(to) = (value))
#define STORE_8(value, to) (*(__global float8_anywhere*)(to) = (value))

// 16 halves at any address of a half, as one instruction where there is one (PoCL's vload_half16 takes three).
#if INFLIGHT_X86_LINUX && defined(__AVX512F__)
typedef ushort16 __attribute__((aligned(2))) ushort16_anywhere;
static float16 load_halves_16(__global const half* from)
{
  float16 result;
  __asm__("vcvtph2ps %1, %0" : "=v"(result) : "m"(*(__global const ushort16_anywhere*)from));
  return result;
}
#else
static float16 load_halves_16(__global const half* from) { return vload_half16(0, from); }
#endif

// First word of Philox4x32-10 for counter (position, 0, 0, 0): the twin of src/base/rng.h.
static uint philox_word(uint position, uint seed_low, uint seed_high)
{
  uint c0 = position, c1 = 0, c2 = 0, c3 = 0;
  for (int round = 0; round < 10; round++) {
    const uint high0 = mul_hi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint high1 = mul_hi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ seed_low;
    c1 = low1;
    c2 = high0 ^ c3 ^ seed_high;
    c3 = low0;
    seed_low += 0x9E3779B9u;
    seed_high += 0xBB67AE85u;
  }
  return c0;
}
