//! Sizes in bytes with their units.

/// Reads a size in bytes: `1024`, `64k`, `512m`, `2g`, `1.5G`, `2gb`, `2GiB`; units are powers of
/// 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no size; use a number with k, m, g or t, such as 512m or 2g");
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let power = match unit.trim_start() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(wrong()),
    };
    let bytes = number * 1024f64.powi(power);
    if bytes < 1.0 || bytes > u64::MAX as f64 {
        return Err(format!("{text} is out of range"));
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("100b", 100),
            ("64k", 64 << 10),
            ("512m", 512 << 20),
            ("512 MB", 512 << 20),
            ("2g", 2 << 30),
            ("2GiB", 2 << 30),
            ("1.5G", 3 << 29),
            ("1t", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "g", "0", "-1g", "2x", "1e3", "1..5g", "99999999999999t", "NaN"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
