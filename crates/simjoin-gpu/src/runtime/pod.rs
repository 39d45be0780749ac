//! Plain data, which is copied to a device and back as it is.

/// Plain data: without padding, and any bits are a value.
///
/// # Safety
///
/// The type has no padding, any bits are a value of it, and its alignment divides 256.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

// SAFETY: no bytes.
unsafe impl Pod for () {}
// SAFETY: floating-point numbers.
unsafe impl Pod for f32 {}
// SAFETY: as above.
unsafe impl Pod for f64 {}
// SAFETY: integers.
unsafe impl Pod for u8 {}
// SAFETY: as above.
unsafe impl Pod for u32 {}
// SAFETY: as above.
unsafe impl Pod for u64 {}
