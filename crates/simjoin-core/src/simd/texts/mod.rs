//! Vectors of 64 bytes and of eight 64-bit words, for each instruction set: of kernels over texts, which
//! `lanes_kernel!` makes.
//!
//! The types here are the only code that names an instruction of these kernels.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod utf8;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;
pub use utf8::Utf8;

/// A vector of 64 bytes, read as 64 lanes of 8 bits or as 32 of 16 bits.
///
/// # Safety
///
/// Every method needs the instruction set of the implementing type; `lanes_kernel!` sees to it.
/// Everything is inlined into the kernel, which carries the target features.
pub trait Lanes: Copy {
    type V: Copy;
    /// The places of eight words.
    type Offsets: Copy;

    unsafe fn splat8(value: u8) -> Self::V;
    unsafe fn splat16(value: u16) -> Self::V;
    /// The offsets `groups[i] * stride` of eight readable numbers.
    unsafe fn offsets(groups: *const u32, stride: usize) -> Self::Offsets;
    /// Eight bytes at each offset from `base`, which are readable.
    unsafe fn gather(base: *const u8, offsets: Self::Offsets) -> Self::V;
    /// Entry `code % 64` of a readable table of 64 bytes, for each byte.
    unsafe fn look_up(table: *const u8, codes: Self::V) -> Self::V;
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn not(a: Self::V) -> Self::V;
    /// `a | !(b | c)`.
    unsafe fn or_nor(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn add8(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn add16(a: Self::V, b: Self::V) -> Self::V;
    /// Each lane shifted right by one.
    unsafe fn half8(a: Self::V) -> Self::V;
    unsafe fn half16(a: Self::V) -> Self::V;
    /// `a` with the highest bit of byte `code % 64` set.
    unsafe fn set_bit7(a: Self::V, code: u8) -> Self::V;
    /// `left`, less one (but at least 0) in the lanes where `seen & bit` is 0.
    unsafe fn count8(left: Self::V, seen: Self::V, bit: Self::V) -> Self::V;
    unsafe fn count16(left: Self::V, seen: Self::V, bit: Self::V) -> Self::V;
    /// Lanes of 16 bits from their low and high bytes, in an order that [`Self::pack`] undoes.
    unsafe fn unpack(low: Self::V, high: Self::V) -> [Self::V; 2];
    /// The values of 64 lanes of 16 bits, all below 256, as bytes.
    unsafe fn pack(lanes: [Self::V; 2]) -> Self::V;
    /// Whether any bit is set.
    unsafe fn any(a: Self::V) -> bool;
    /// The bytes that are not 0.
    unsafe fn nonzero(a: Self::V) -> u64;
    /// Writes 64 bytes to `to`, which is writable.
    unsafe fn store(to: *mut u8, a: Self::V);
}

/// A vector of 64 bytes as lanes of `W` bits, 16, 32 or 64: one pair of strings of at most `W` bytes
/// each.
///
/// # Safety
///
/// As for [`Lanes`].
pub trait Pairs: Lanes {
    unsafe fn load(from: *const u8) -> Self::V;
    /// Writes to `to`, for each lane, the bytes of its pattern that equal byte `column` of its text. A
    /// pattern and a text take `W` bytes, 512 in all, which are readable; eight words are writable.
    unsafe fn equal<const W: usize>(
        to: *mut u64,
        patterns: *const u8,
        texts: *const u8,
        column: usize,
    );
    unsafe fn add<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    /// The lowest bit of each lane that is set.
    unsafe fn lowest<const W: usize>(a: Self::V) -> Self::V;
    /// `a` in the lanes in which a bit of `seen` is set, 0 in the others.
    unsafe fn where_any<const W: usize>(seen: Self::V, a: Self::V) -> Self::V;
    /// Lanes of 32 bits from their low and high halves, in an order that [`Self::pack32`] undoes.
    unsafe fn unpack32(low: Self::V, high: Self::V) -> [Self::V; 2];
    /// The values of 32 lanes of 32 bits, all below 2^15, as lanes of 16 bits.
    unsafe fn pack32(lanes: [Self::V; 2]) -> Self::V;
    unsafe fn sub<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn splat_lanes<const W: usize>(value: u16) -> Self::V;
    /// The highest bit of each lane as a number.
    unsafe fn sign<const W: usize>(a: Self::V) -> Self::V;
    /// Each lane shifted right by one.
    unsafe fn half<const W: usize>(a: Self::V) -> Self::V;
}

/// Eight words of 64 bits: the unions or the intersections of eight boxes, or eight signatures.
///
/// # Safety
///
/// As for [`Lanes`].
pub trait Words: Copy {
    type W: Copy;

    unsafe fn splat_words(value: u64) -> Self::W;
    /// Eight words at `from`, which are readable.
    unsafe fn load_words(from: *const u64) -> Self::W;
    /// The words in which at most `most` bits of `a` are not in `b`.
    unsafe fn few_beyond(a: Self::W, b: Self::W, most: u32) -> u8;
    /// The words in which every bit of `a` is in `b`.
    unsafe fn none_beyond(a: Self::W, b: Self::W) -> u8;
    /// Writes `first + i` for each bit `i` of `mask` to `to`, where eight numbers can be written.
    unsafe fn compress(to: *mut u32, first: u32, mask: u8);
}

#[cfg(test)]
thread_local! {
    /// Whether tests of this thread do without VBMI.
    pub(crate) static WITHOUT_VBMI: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether the processor looks bytes up in 64 entries, and brings wanted ones together, by one instruction each,
/// which not all with AVX-512 do.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_vbmi() -> bool {
    #[cfg(test)]
    if WITHOUT_VBMI.get() {
        return false;
    }
    is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vbmi2")
}

/// Makes a function of a `Simd` form and the given arguments that runs the body compiled for that
/// form. The body is written over the type parameter in brackets, which names the form, and over the
/// number of vectors that go on in turn.
macro_rules! lanes_kernel {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident [$form:ident, $chains:ident = $many:literal or $few:literal]
        ($($arg:ident : $type:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "a kernel gets plain values")]
        $vis fn $name(simd: $crate::simd::Simd, $($arg: $type),*) $(-> $ret)? {
            /// The kernel for any form.
            ///
            /// # Safety
            ///
            /// The processor runs the instructions of the form.
            #[allow(
                clippy::too_many_arguments,
                clippy::needless_range_loop,
                reason = "arrays of registers: loops of fixed length unroll"
            )]
            #[inline(always)]
            unsafe fn any<$form, const $chains: usize>($($arg: $type),*) $(-> $ret)?
            where
                $form: $crate::simd::texts::Pairs
                    + $crate::simd::texts::Words
                    + $crate::simd::texts::Utf8,
            {
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "a kernel gets plain values")]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx512vbmi,avx512vbmi2,popcnt,bmi1"
            )]
            fn avx512_vbmi($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function has the target features that the form needs.
                unsafe { any::<$crate::simd::texts::Avx512<true>, $many>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "a kernel gets plain values")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt,bmi1")]
            fn avx512($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function has the target features that the form needs.
                unsafe { any::<$crate::simd::texts::Avx512<false>, $many>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "a kernel gets plain values")]
            #[target_feature(enable = "avx2,popcnt")]
            fn avx2($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function has the target features that the form needs.
                unsafe { any::<$crate::simd::texts::Avx2, $few>($($arg),*) }
            }
            match simd.form() {
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Form::Avx512 if $crate::simd::texts::has_vbmi() => {
                    // SAFETY: `Simd` holds a form only if the processor has its target features,
                    // and VBMI was just asked for.
                    unsafe { avx512_vbmi($($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Simd` holds a form only if the processor has its target features.
                $crate::simd::Form::Avx512 => unsafe { avx512($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::simd::Form::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: the portable form needs nothing.
                _ => unsafe { any::<$crate::simd::texts::Portable, $few>($($arg),*) },
            }
        }
    };
}
pub(crate) use lanes_kernel;
