// What the product of two vectors of halves proves.
//
// X is a vector x translated by -c (distances only) and scaled by a power of two s, or, for cosines,
// divided by its norm and multiplied by UNIT. x̂ is X rounded to halves, subnormal ones to zero, and
// r(x) a bound on ‖x̂ - X‖. Norms ‖x̂‖ are at most CAP. p is the exact product x̂·ŷ.
//
//   Distances: D = ‖X - Y‖ lies within r(x) + r(y) of ‖x̂ - ŷ‖, whose square is ‖x̂‖² + ‖ŷ‖² - 2p. With
//   E = s * bound the pair does not match where that exceeds (E + r(x) + r(y))², which is at most
//   E² + 2E(r(x) + r(y)) + 2r(x)² + 2r(y)²; it matches where that is below E² - 2E(r(x) + r(y)). So, with
//       u(x) = ½(‖x̂‖² - E²/2 - 2E r(x) - 2r(x)²)        v(x) = ½(‖x̂‖² - E²/2 + 2E r(x))
//   it does not match where p < u(x) + u(y), and matches where p > v(x) + v(y).
//   Products and cosines: |X·Y - p| <= r(x)‖ŷ‖ + r(y)‖x̂‖ + r(x)r(y) <= g(x) + g(y), where
//   g(x) = CAP r(x) + ½r(x)². With T = s(x) s(y) bound, or UNIT² (1 - bound), in rows alone:
//   u(x) = T - g(x), v(x) = T + g(x) for rows; u(y) = -g(y), v(y) = g(y) for columns.
//   The function itself rounds: E and T have margins for that (as in src/vector/bounds.rs).
//
// The filter computes c, which is p - u'(x) - u'(y): six places of both vectors have, in three halves
// each, -u' of one and ones of the other; u' is u rounded to 2⁻³³ of it or to 2⁻²⁵. A step of 16 products
// adds an error of at most ρ(Σ|products| + |sum so far|) (Preparing::rounding, and below), so
//     |c - (p - u'(x) - u'(y))| <= e(x) + e(y)        e(x) = steps * ρ * (½‖x̂‖² + |u(x)|) * 1.02 + 2⁻²²
// With u' = u - e, c > 0 holds for every pair that may match, and c > w(x) + w(y), w = v - u + 2e, only
// for pairs that do.
//
// ρ: wgmma on compute capability 9.0, as probed, aligns the 16 exact products and the sum so far at the
// largest of them, cuts each towards zero below 2⁻²⁵ of it, and cuts the total to 24 bits:
// 5.25 * 2⁻²³, taken times 1.25. Subnormal operands are aligned as if they were 2⁻¹⁴, so there are none,
// but for parts of u', whose errors are far below 2⁻²². Sums of eight products by fused multiply-add,
// then added up, stay below that. mma on 8.x takes 8 products at a time and keeps a bit less: 11 * 2⁻²³,
// taken as 16.
#pragma once

#include "vector_halves.cuh"

// Norms of vectors of halves are at most this; the greatest norm is scaled to half of it or less.
constexpr double CAP = 128;
constexpr int HEADROOM_EXPONENT = 6;
// The norm of scaled vectors of cosines.
constexpr double UNIT = 127;
// Vectors of more dimensions are compared in f64 alone.
constexpr u32 MOST_DIMENSIONS = 1u << 17;
// Scales lie between 2^-400 and 2^400.
constexpr int MOST_EXPONENT = 400;
// Sums of squares above this may be near the overflow of the function.
constexpr double MOST_SQUARE = 1e300;
// The relative rounding of sums of that many terms in f64, generously, and that of a single f64.
constexpr double SUMS = 1e-9;
constexpr double SINGLE = 1.0 / (u64{1} << 43);

// What is added to products instead of -u: for a vector that f64 decides, one that matches nothing,
// and a row that is farther from all columns that f64 does not decide than the bound. Sums with
// each other and with -u, |u| < 2^15.1, have the sign that they should have.
constexpr double OPEN_BIAS = 40000;
constexpr double NEVER_BIAS = -60000;
constexpr double FAR_BIAS = -20000;

// A power of two that makes `magnitude` at most 2^HEADROOM_EXPONENT and about as large.
__device__ __forceinline__ double scale_for(double magnitude) {
    if (!(magnitude > 0) || magnitude == infinity<double>()) {
        return 1;
    }
    const int exponent = static_cast<int>(__double_as_longlong(magnitude) >> 52) - 1023;
    const int wanted = HEADROOM_EXPONENT - 1 - exponent;
    const int scale = min(max(wanted, -MOST_EXPONENT), MOST_EXPONENT);
    return __longlong_as_double(static_cast<long long>(scale + 1023) << 52);
}

// How the vectors of a launch are scaled, and the bound with them.
struct Frame {
    u32 metric;
    double dimensions;
    // steps * ρ * 1.02.
    double gamma;
    double scale;
    // Distances: the bound, scaled.
    double scaled;
    // Products and cosines: T.
    double least;

    __device__ __forceinline__ explicit Frame(const Preparing &preparing)
        : metric(preparing.metric), dimensions(preparing.dimensions),
          gamma(preparing.steps * preparing.rounding * 1.02), scale(1), scaled(0), least(0) {
        if (metric == COSINE) {
            least = (1 - preparing.bound) * (UNIT * UNIT);
        } else {
            const double greatest = __longlong_as_double(static_cast<long long>(*preparing.greatest));
            if (metric == EUCLIDEAN) {
                const double reach = preparing.bound < infinity<double>() ? 0.5 * preparing.bound : 0.0;
                scale = scale_for(max(greatest, reach));
                scaled = preparing.bound * scale;
            } else {
                scale = scale_for(greatest);
                const u64 *partner = preparing.partner ? preparing.partner : preparing.greatest;
                const double other = __longlong_as_double(static_cast<long long>(*partner));
                least = preparing.bound * scale_for(other) * scale;
            }
        }
        // Greater ones cannot be told apart by such products.
        least = min(max(least, -2 * CAP * CAP), 2 * CAP * CAP);
    }
};

// What a vector adds to its products as a row and as a column, and its bounds.
struct Bias {
    double row;
    double column;
    VectorBounds bounds;

    __device__ __forceinline__ static Bias never() {
        return Bias{NEVER_BIAS, NEVER_BIAS, VectorBounds{infinity<float>(), 0}};
    }

    __device__ __forceinline__ static Bias open() {
        return Bias{OPEN_BIAS, OPEN_BIAS, VectorBounds{-infinity<float>(), infinity<float>()}};
    }

    __device__ __forceinline__ static Bias of(double row, double column, double sure) {
        // More than the rounding of the addition of two of them.
        return Bias{-row, -column, VectorBounds{__double2float_rd(row), __double2float_ru(sure * (1 + 1e-6))}};
    }
};

// Sums over the numbers of a vector.
struct Sums {
    // ‖x‖², ‖X‖², ‖x̂‖², and r(x)².
    double given = 0;
    double exact = 0;
    double square = 0;
    double error = 0;
};

__device__ __forceinline__ Bias bias_of_distance(const Frame &frame, const Sums &sums, double off) {
    const double relative = (frame.dimensions + 8) * SINGLE / 256;
    const double far = max(frame.scaled, 0.0) * (1 + relative) + 1e-36;
    const double near = frame.scaled * (1 - relative) - 1e-36;
    if (!(far <= CAP * 1.01)) {
        return Bias::open();
    }
    if (!(sums.square <= CAP * CAP)) {
        Bias bias = Bias::open();
        if (sums.exact <= MOST_SQUARE && sqrt(sums.exact) * (1 - SUMS) > CAP + 1 + far) {
            bias.row = FAR_BIAS;
        }
        return bias;
    }
    const double reject = 0.5 * (sums.square * (1 - 2 * SUMS) - 0.5 * far * far * (1 + SUMS)) -
                          (far * off + off * off) * (1 + SUMS);
    const double error = frame.gamma * (0.5 * sums.square + fabs(reject)) + 1.0 / (1 << 22);
    double sure = infinity<double>();
    if (near > 0) {
        const double accept = 0.5 * (sums.square * (1 + 2 * SUMS) - 0.5 * near * near * (1 - SUMS)) +
                              near * off * (1 + SUMS);
        sure = accept - reject + 2 * error;
    }
    return Bias::of(reject - error, reject - error, sure);
}

__device__ __forceinline__ Bias bias_of_product(const Frame &frame, const Sums &sums, double off) {
    if (!(sums.square <= CAP * CAP)) {
        return Bias::open();
    }
    // The rounding of the function, relative to the product of the norms.
    const double function = (4 * frame.dimensions + 64) * SINGLE / 512;
    const double spread =
        (CAP * off + 0.5 * off * off + function * CAP * CAP) * (1 + SUMS) + fabs(frame.least) * SINGLE;
    const double error = frame.gamma * (0.5 * sums.square + fabs(frame.least) + spread) + 1.0 / (1 << 22);
    return Bias::of(frame.least - spread - error, -spread - error, 2 * spread + 2 * error);
}

// The bias of a vector of which the sums are known. `divisor`: the norm of cosines, otherwise 1.
__device__ __forceinline__ Bias bias_of(const Frame &frame, const Sums &sums, double divisor) {
    const bool is_usual = divisor >= 1e-130 && divisor < 1e150 && frame.dimensions <= MOST_DIMENSIONS &&
                          sums.given <= MOST_SQUARE;
    if (!is_usual) {
        return Bias::open();
    }
    double off = sqrt(sums.error) * (1 + SUMS) + 1e-40;
    if (frame.metric == COSINE) {
        // The rounding of the norm.
        off += (frame.dimensions + 8) * SINGLE;
    }
    return frame.metric == EUCLIDEAN ? bias_of_distance(frame, sums, off) : bias_of_product(frame, sums, off);
}
