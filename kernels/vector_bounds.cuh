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
//   Cosines: |X·Y - p| <= r(x)‖ŷ‖ + r(y)‖x̂‖ + r(x)r(y) <= g(x) + g(y), where g(x) = CAP r(x) + ½r(x)².
//   With T = UNIT² (1 - bound), in rows alone:
//   u(x) = T - g(x), v(x) = T + g(x) for rows; u(y) = -g(y), v(y) = g(y) for columns.
//   The function itself rounds: E and T have margins for that (as in vector/bounds.rs).
//   Products: below.
//
// The filter computes c, which is p - u'(x) - u'(y): six places of both vectors have, in three halves
// each, -u' of one and ones of the other; u' is u rounded to 2⁻³³ of it or to 2⁻²⁵. A step of 16 products
// adds an error of at most ρ(Σ|products| + |sum so far|) (Preparing::rounding, and below), so
//     |c - (p - u'(x) - u'(y))| <= e(x) + e(y)        e(x) = steps * ρ * (½‖x̂‖² + |u(x)|) * 1.02 + 2⁻²²
// With u' = u - e, c > 0 holds for every pair that may match, and c > w(x) + w(y), w = v - u + 2e, only
// for pairs that do.
//
// Products: each vector has a scale s of its own, a power of two that makes its norm PRODUCT_NORM at most,
// and about as great: what a great one is off is nothing to others. A pair matches where X·Y >= t, with
// t = s(x) s(y) bound. The six places have a(x) * h(y) + w(x) * b(y): a = -s(x) T', w = 1 of a row, h = s(y),
// b > 0 of a column. T' is the bound times 1 - 2γ, or 1 + 2γ where it is negative, γ = steps * ρ * 1.02, so
// that t' = s(x) s(y) T' and the rounding γ|t'| of the sum with it are below t together. A row is off by no
// more than its norm and its coordinates allow, which is the same for all rows: b is g(y) + g, with g for
// any row, and the rest of the rounding, γ(PRODUCT_NORM² + b) + 2⁻⁷, where the parts of a that are subnormal
// are 2⁻¹⁰ at most. So c = p - t' + b > 0 holds for every pair that may match. Where c is that and t > 0, t
// is less than 1.1 PRODUCT_NORM² and so is |t - t'| than 3γ of it; so it is where t < 0 and not every
// pair matches. c > w = 2b + 4γ * 1.1 PRODUCT_NORM² holds only for pairs that match.
// h is a half for norms of 2³⁰ times the reference down to 2⁻⁹ of it: smaller vectors keep the scale of
// those. Of a row whose a is cut to MOST_FACTOR nothing is sure, and where bound < 0 f64 decides its pairs,
// all of which match; so it does with greater columns.
//
// Far vectors (distances): norms ‖X‖ of at least CAP + 1 + E, which is more than E from every vector that has
// products, and of 2E. They are written with a norm of FAR_NORM. With another one a product is
// FAR_NORM * CAP at most, too little for FAR_BIAS; two of them within E of each other have a cosine of 7/8
// at least (by the law of cosines), enough for twice FAR_BIAS: f64 decides.
//
// NaN: see vector/nan.rs. A vector with NaN of one sign, tame but for these, matches no tame vector where
// Preparing::nan_misses says so. NAN_BIAS leaves its pairs with OPEN vectors open.
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

// The norm of scaled vectors of products at most, and what the reference is scaled to.
constexpr double PRODUCT_NORM = 64.5;
constexpr int REFERENCE_EXPONENT = 6;
constexpr double MOST_FACTOR = 60000;

// What is added to products instead of -u: for a vector that f64 decides, one that matches nothing, one
// with NaN, and a far one. Sums with each other and with -u, |u| < 2^15.1, have the sign that they should
// have; a sum of two FAR_BIAS is above -(7/8 - 2⁻⁹) FAR_NORM². Each is three halves.
constexpr double OPEN_BIAS = 190000;
constexpr double NEVER_BIAS = -196000;
constexpr double NAN_BIAS = -150000;
constexpr double FAR_BIAS = -130000;
constexpr double FAR_NORM = 600;
// VectorBounds::reject of a far vector: stages are as sure as their others.
constexpr float FAR_REJECT = 1e38f;
// Of products: rows that f64 decides, and rows that match nothing or have NaN; with the ends of columns below
// their sums have the sign that they should have, for any h from 2⁻²⁴ to 2¹⁵ and b up to 1000.
constexpr double OPEN_FACTOR = 180000;
constexpr double NEVER_FACTOR = -180000;
constexpr double LEAST_WEIGHT = 1.0 / (1 << 17);

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

// The inverse of a power of two.
__device__ __forceinline__ double inverse_of(double scale) {
    return __longlong_as_double((2046LL << 52) - __double_as_longlong(scale));
}

// How the vectors of a launch are scaled, and the bound with them.
struct Frame {
    u32 metric;
    u32 nan_misses;
    double dimensions;
    // steps * ρ * 1.02.
    double gamma;
    double scale;
    // Distances: the bound, scaled.
    double scaled;
    // Cosines: T. Products: T'.
    double least;

    __device__ __forceinline__ explicit Frame(const Preparing &preparing)
        : metric(preparing.metric), nan_misses(preparing.nan_misses), dimensions(preparing.dimensions),
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
                least = preparing.bound * (preparing.bound > 0 ? 1 - 2 * gamma - SUMS : 1 + 2 * gamma + SUMS);
            }
        }
        // Greater ones cannot be told apart by such products.
        if (metric == COSINE) {
            least = min(max(least, -2 * CAP * CAP), 2 * CAP * CAP);
        }
    }

    // The scale of a vector of products, from its norm.
    __device__ __forceinline__ double scale_of(double norm) const {
        return norm > 0 ? min(scale_for(norm), scale * (1 << (15 - REFERENCE_EXPONENT))) : scale;
    }
};

// Two factors in three places each: one in halves that add up to it, the other one three times.
struct End {
    double sum;
    double factor;
};

// What a vector adds to its products as a row and as a column, and its bounds.
struct Bias {
    End row;
    End column;
    VectorBounds bounds;

    __device__ __forceinline__ static Bias never(u32 metric) {
        const VectorBounds bounds{infinity<float>(), 0};
        return metric == INNER_PRODUCT ? Bias{{NEVER_FACTOR, -LEAST_WEIGHT}, {NEVER_BIAS, 1}, bounds}
                                       : Bias{{NEVER_BIAS, 1}, {NEVER_BIAS, 1}, bounds};
    }

    __device__ __forceinline__ static Bias open(u32 metric) {
        const VectorBounds bounds{-infinity<float>(), infinity<float>()};
        return metric == INNER_PRODUCT ? Bias{{OPEN_FACTOR, 1}, {OPEN_BIAS, 0}, bounds}
                                       : Bias{{OPEN_BIAS, 1}, {OPEN_BIAS, 1}, bounds};
    }

    // Of a vector that matches none but those that f64 decides.
    __device__ __forceinline__ static Bias nan(u32 metric) {
        const VectorBounds bounds{-infinity<float>(), 0};
        return metric == INNER_PRODUCT ? Bias{{NEVER_FACTOR, LEAST_WEIGHT}, {NAN_BIAS, 2}, bounds}
                                       : Bias{{NAN_BIAS, 1}, {NAN_BIAS, 1}, bounds};
    }

    // Of a vector that is written with a norm of FAR_NORM.
    __device__ __forceinline__ static Bias far() {
        return Bias{{FAR_BIAS, 1}, {FAR_BIAS, 1}, VectorBounds{FAR_REJECT, infinity<float>()}};
    }

    __device__ __forceinline__ static Bias of(double row, double column, double sure) {
        // More than the rounding of the addition of two of them.
        return Bias{{-row, 1}, {-column, 1}, VectorBounds{__double2float_rd(row), __double2float_ru(sure * (1 + 1e-6))}};
    }

    __device__ __forceinline__ bool is_far() const { return bounds.reject == FAR_REJECT; }
};

// Sums over the numbers of a vector.
struct Sums {
    // ‖x‖², ‖X‖², ‖x̂‖², and r(x)².
    double given = 0;
    double exact = 0;
    double square = 0;
    double error = 0;
    // The number of NaN, which are left out above: of positive ones, and NEGATIVE_NAN times that of
    // negative ones.
    double nans = 0;

    __device__ __forceinline__ void add_nan(double nan) { nans += __double_as_longlong(nan) < 0 ? NEGATIVE_NAN : 1; }

    // Whether the vector has NaN and matches none that is tame.
    __device__ __forceinline__ bool misses(u32 nan_misses) const {
        const bool all_positive = nans < NEGATIVE_NAN;
        const bool all_negative = rint(nans / NEGATIVE_NAN) * NEGATIVE_NAN == nans;
        return given <= MOST_SQUARE && ((all_positive && (nan_misses & POSITIVE_MISSES) != 0) ||
                                        (all_negative && (nan_misses & NEGATIVE_MISSES) != 0));
    }

private:
    // More than there are.
    static constexpr double NEGATIVE_NAN = 8.0 * MOST_DIMENSIONS;
};

__device__ __forceinline__ Bias bias_of_distance(const Frame &frame, const Sums &sums, double off) {
    const double relative = (frame.dimensions + 8) * SINGLE / 256;
    const double far = max(frame.scaled, 0.0) * (1 + relative) + 1e-36;
    const double near = frame.scaled * (1 - relative) - 1e-36;
    if (!(far <= CAP * 1.01)) {
        return Bias::open(EUCLIDEAN);
    }
    if (!(sums.square <= CAP * CAP)) {
        const bool is_far = sums.exact <= MOST_SQUARE && sqrt(sums.exact) * (1 - SUMS) > max(CAP + 1 + far, 2 * far);
        return is_far ? Bias::far() : Bias::open(EUCLIDEAN);
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

__device__ __forceinline__ Bias bias_of_cosine(const Frame &frame, const Sums &sums, double off) {
    if (!(sums.square <= CAP * CAP)) {
        return Bias::open(COSINE);
    }
    // The rounding of the function, relative to the product of the norms.
    const double function = (4 * frame.dimensions + 64) * SINGLE / 512;
    const double spread =
        (CAP * off + 0.5 * off * off + function * CAP * CAP) * (1 + SUMS) + fabs(frame.least) * SINGLE;
    const double error = frame.gamma * (0.5 * sums.square + fabs(frame.least) + spread) + 1.0 / (1 << 22);
    return Bias::of(frame.least - spread - error, -spread - error, 2 * spread + 2 * error);
}

// `scale`: that of the vector.
__device__ __forceinline__ Bias bias_of_product(const Frame &frame, const Sums &sums, double off, double scale) {
    constexpr double SQUARE = PRODUCT_NORM * PRODUCT_NORM;
    const double function = (4 * frame.dimensions + 64) * SINGLE / 512;
    // Half a step of a half of each coordinate, or all of those that would be subnormal.
    const double most_off = PRODUCT_NORM * (1.0 / (1 << 11) + SINGLE) * (1 + SUMS) + sqrt(frame.dimensions) * LEAST_HALF;
    if (!(sums.square <= SQUARE && off <= most_off)) {
        return Bias::open(INNER_PRODUCT);
    }
    const double spread =
        (PRODUCT_NORM * (off + most_off) + off * most_off + function * SQUARE) * (1 + 2 * SUMS);
    const double error = frame.gamma * (SQUARE + 2 * spread + 1) + 1.0 / (1 << 7);
    const double column = spread + error;
    // Exact: powers of two.
    const double factor = scale * inverse_of(frame.scale) * (1 << REFERENCE_EXPONENT);
    const double row = -frame.least * (scale * frame.scale / (1 << REFERENCE_EXPONENT));
    const double sure = 2 * column + frame.gamma * 4.4 * SQUARE;
    Bias bias{{min(max(row, -MOST_FACTOR), MOST_FACTOR), 1}, {column, factor},
              VectorBounds{0, __double2float_ru(sure * (1 + 1e-6))}};
    if (!(fabs(row) <= MOST_FACTOR)) {
        bias.bounds.sure = infinity<float>();
        bias.row = row > 0 ? End{OPEN_FACTOR, 1} : bias.row;
    }
    if (!(factor >= 1.0 / (1 << 24)) || !(column <= 1000)) {
        bias.bounds.sure = infinity<float>();
        bias.column = End{OPEN_BIAS, 0};
    }
    return bias;
}

// The bias of a vector of which the sums are known. `divisor`: the norm of cosines, otherwise 1; `scale`: that
// of the vector.
__device__ __forceinline__ Bias bias_of(const Frame &frame, const Sums &sums, double divisor, double scale) {
    if (sums.nans > 0 && frame.dimensions <= MOST_DIMENSIONS) {
        return sums.misses(frame.nan_misses) ? Bias::nan(frame.metric) : Bias::open(frame.metric);
    }
    const bool is_usual = divisor >= 1e-130 && divisor < 1e150 && frame.dimensions <= MOST_DIMENSIONS &&
                          sums.given <= MOST_SQUARE;
    if (!is_usual) {
        return Bias::open(frame.metric);
    }
    double off = sqrt(sums.error) * (1 + SUMS) + 1e-40;
    if (frame.metric == COSINE) {
        // The rounding of the norm.
        off += (frame.dimensions + 8) * SINGLE;
    }
    switch (frame.metric) {
        case EUCLIDEAN:
            return bias_of_distance(frame, sums, off);
        case INNER_PRODUCT:
            return bias_of_product(frame, sums, off, scale);
        default:
            return bias_of_cosine(frame, sums, off);
    }
}
