//! Vectors of signatures and postings, for each instruction set that the processor may have.
//!
//! One binary serves all machines of an architecture: [`Simd::detect`] looks at the processor once,
//! and a kernel made by `kernels!` calls the instance that was compiled for it. A kernel is written
//! once, over the traits [`Words`] (eight 64-bit lanes), [`Lanes`] (sixteen 32-bit lanes), [`Floats`],
//! [`Bytes`] and [`Bits`]; the types that implement them are the only code that names an instruction. On processors without
//! AVX-512 or AVX2 (Arm's NEON among them) the portable form is compiled to what the target has.
//!
//! Kernels over texts have vectors of their own, and a macro, in [`texts`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod blocks;
mod matrix;
mod nibbles;
mod portable;
pub mod texts;

use std::fmt;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub use bits::{BITS, Bits, Line};
pub use blocks::Blocks;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use matrix::Amx;
#[cfg(test)]
pub use matrix::Emulated;
pub(crate) use matrix::{Matrix, MatrixUnit, TILE};
pub use nibbles::Nibbles;
pub(crate) use portable::Portable;

/// A form of the kernels. A value of this type proves that the processor can run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simd {
    form: Form,
    /// The unit for products of bytes, besides the vectors of the form.
    matrix: Matrix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "x86 forms"))]
pub enum Form {
    /// AVX-512 with VPOPCNTDQ and VNNI.
    Avx512,
    /// AVX2 with FMA.
    Avx2,
    Portable,
}

impl Simd {
    /// The fastest form that this processor runs.
    pub fn detect() -> Self {
        *Self::available().first().unwrap_or(&Self::of(Form::Portable))
    }

    const fn of(form: Form) -> Self {
        Self { form, matrix: Matrix::Absent }
    }

    /// The forms that this processor runs, fastest first. The first call asks the kernel for permission to use a
    /// matrix unit, where there is one.
    pub fn available() -> &'static [Simd] {
        use std::sync::OnceLock;
        static AVAILABLE: OnceLock<Vec<Simd>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            let mut forms = vec![];
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vpopcntdq")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                {
                    #[cfg(target_os = "linux")]
                    if Amx::is_available() {
                        forms.push(Simd { form: Form::Avx512, matrix: Matrix::Amx });
                    }
                    forms.push(Simd::of(Form::Avx512));
                }
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("popcnt")
                {
                    forms.push(Simd::of(Form::Avx2));
                }
            }
            forms.push(Simd::of(Form::Portable));
            forms
        })
    }

    /// The form of this name, if the processor runs it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().iter().copied().find(|simd| simd.to_string() == name)
    }

    /// The form whose comparisons leave their results in vectors: those of AVX-512 go to mask
    /// registers, of which a processor fills one in a cycle.
    pub fn without_masks(self) -> Self {
        let other = |simd: &&Simd| simd.form != Form::Avx512;
        match self.form {
            Form::Avx512 => *Self::available().iter().find(other).unwrap_or(&self),
            _ => self,
        }
    }

    /// Whether products of [`Bytes`] take a fraction of the time of those of [`Floats`].
    pub fn has_quick_bytes(self) -> bool {
        self.form == Form::Avx512 || self.matrix != Matrix::Absent
    }

    #[inline(always)]
    pub fn form(self) -> Form {
        self.form
    }

    #[inline(always)]
    pub fn matrix(self) -> Matrix {
        self.matrix
    }

    /// The fastest form, with a matrix unit that is emulated.
    #[cfg(test)]
    pub fn emulated() -> Self {
        Self { matrix: Matrix::Emulated, ..Self::detect() }
    }

    /// The forms that this processor runs, and the emulation of a matrix unit.
    #[cfg(test)]
    pub fn tested() -> impl Iterator<Item = Self> {
        Self::available().iter().copied().chain([Self::emulated()])
    }
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.matrix, self.form) {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            (Matrix::Amx, _) => "amx",
            #[cfg(test)]
            (Matrix::Emulated, _) => "emulated",
            (Matrix::Absent, Form::Avx512) => "avx512",
            (Matrix::Absent, Form::Avx2) => "avx2",
            (Matrix::Absent, Form::Portable) => "portable",
        })
    }
}

/// Eight 64-bit lanes: one word of the signatures of eight sets.
///
/// # Safety
///
/// Every method needs the instruction set of the implementing type; `kernels!` sees to it.
/// Everything is inlined into the kernel, which carries the target feature.
pub trait Words: Copy {
    type Word: Copy;
    /// Counts on their way: they may be kept in narrower lanes until they are counted.
    type Count: Copy;

    /// Eight words at `from`, which is readable and aligned to 64 bytes.
    unsafe fn load(from: *const u64) -> Self::Word;
    unsafe fn splat(word: u64) -> Self::Word;
    unsafe fn zero() -> Self::Count;
    /// Adds the number of common bits of each lane; at most 31 times to one count.
    unsafe fn add_common(count: Self::Count, a: Self::Word, b: Self::Word) -> Self::Count;
    /// The lanes whose count is at least `least`.
    unsafe fn at_least(count: Self::Count, least: i64) -> u8;
}

/// Sixteen 32-bit lanes: a field of sixteen postings, or sixteen tokens.
///
/// # Safety
///
/// As for [`Words`].
pub trait Lanes: Copy {
    type Vector: Copy;

    /// Sixteen values at `from`, which are readable.
    unsafe fn load(from: *const u32) -> Self::Vector;
    /// `count` (1 to 16) values at `from`, which are readable; the lanes behind them hold anything.
    unsafe fn load_part(from: *const u32, count: usize) -> Self::Vector;
    unsafe fn splat(value: u32) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The number of bits in which each lane differs.
    unsafe fn differing(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `count << SHIFT` in each lane.
    unsafe fn shift_left<const SHIFT: u32>(count: Self::Vector) -> Self::Vector;
    /// The high halves of the lanes.
    unsafe fn high(value: Self::Vector) -> Self::Vector;
    /// The low halves of the lanes.
    unsafe fn low(value: Self::Vector) -> Self::Vector;
    unsafe fn sub(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `low(a) * low(b) + high(a) * high(b)`, the halves read as signed 16-bit numbers.
    unsafe fn dot(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Entry `index % 32` of a table, for each lane.
    unsafe fn look_up(table: &[u32; 32], index: Self::Vector) -> Self::Vector;
    /// The lanes with `a <= b`, read as signed numbers.
    unsafe fn less_or_equal(a: Self::Vector, b: Self::Vector) -> u16;
    /// The lanes with `a < b`, read as unsigned numbers.
    unsafe fn less(a: Self::Vector, b: Self::Vector) -> u16;
    unsafe fn equal(a: Self::Vector, b: Self::Vector) -> u16;
}

/// Sixteen lanes of `f32`: coordinates of sixteen vectors.
///
/// # Safety
///
/// As for [`Words`].
pub trait Floats: Copy {
    type Vector: Copy;

    /// Sixteen values at `from`, which are readable.
    unsafe fn load(from: *const f32) -> Self::Vector;
    /// Writes sixteen values to `to`, which is writable.
    unsafe fn store(to: *mut f32, value: Self::Vector);
    unsafe fn splat(value: f32) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn sub(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The greater ones; `b` where one is NaN.
    unsafe fn max(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `sum + a * b`, rounded once or twice.
    unsafe fn add_product(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The lanes with `a < b`; none where one is NaN.
    unsafe fn less(a: Self::Vector, b: Self::Vector) -> u16;
}

/// Sixteen lanes of `i32`, and sixteen lanes of four bytes each: four coordinates of sixteen vectors.
///
/// # Safety
///
/// As for [`Words`].
pub trait Bytes: Copy {
    type Vector: Copy;

    /// Sixteen lanes at `from`, which are readable.
    unsafe fn load(from: *const i32) -> Self::Vector;
    /// Writes sixteen lanes to `to`, which is writable.
    unsafe fn store(to: *mut i32, value: Self::Vector);
    unsafe fn splat(value: i32) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn and(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `sum + Σ a·b` over the four bytes of each lane, those of `a` unsigned and those of `b` signed.
    unsafe fn add_products(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The lanes below zero.
    unsafe fn negative(value: Self::Vector) -> u16;
}

/// Asks the processor to bring a place into its caches.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Makes a function of a [`Simd`] form and the given arguments that runs the body compiled for
/// that form. The body is written over the type parameter in brackets, which names the form.
macro_rules! kernels {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident [$form:ident : $bound:path, $(const $param:ident : $ptype:ty),* $(; $($kind:ident : $of:path),+)?]
        ($($arg:ident : $type:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name<$($($kind: $of,)+)? $(const $param: $ptype),*>(simd: $crate::simd::Simd, $($arg: $type),*) $(-> $ret)? {
            /// The kernel for any form.
            ///
            /// # Safety
            ///
            /// The processor runs the instructions of the form.
            #[allow(
                clippy::needless_range_loop,
                reason = "arrays of registers: loops of fixed length unroll"
            )]
            #[inline(always)]
            unsafe fn any<$form: $bound, $($($kind: $of,)+)? $(const $param: $ptype),*>($($arg: $type),*) $(-> $ret)? {
                $body
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx512vnni,popcnt,bmi1")]
            fn avx512<$($($kind: $of,)+)? $(const $param: $ptype),*>($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function has the target features that the form needs.
                unsafe { any::<$crate::simd::Avx512, $($($kind,)+)? $($param),*>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,popcnt")]
            fn avx2<$($($kind: $of,)+)? $(const $param: $ptype),*>($($arg: $type),*) $(-> $ret)? {
                // SAFETY: this function has the target features that the form needs.
                unsafe { any::<$crate::simd::Avx2, $($($kind,)+)? $($param),*>($($arg),*) }
            }
            match simd.form() {
                // SAFETY: `Simd` holds a form only if the processor has its target features.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Form::Avx512 => unsafe { avx512::<$($($kind,)+)? $($param),*>($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Form::Avx2 => unsafe { avx2::<$($($kind,)+)? $($param),*>($($arg),*) },
                // SAFETY: the portable form needs nothing.
                _ => unsafe { any::<$crate::simd::Portable, $($($kind,)+)? $($param),*>($($arg),*) },
            }
        }
    };
}
pub(crate) use kernels;

#[cfg(test)]
mod tests;
