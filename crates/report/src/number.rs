//! Numbers as people read them.
//!
//! Every number in a text of npcov is written here, so that the same kind of number looks the same
//! everywhere. Programs read [JSON](crate::json), which has all digits.

use npcov::criteria::Amount;

/// A count, with a comma between thousands.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What counts are of a whole, in per cent; a dash when there is nothing to be a part of.
pub fn part(part: usize, whole: usize) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{:.2}%", 100.0 * part as f64 / whole as f64),
    }
}

/// A share in per cent, with two digits after the point: suites often cover a few per cent, and
/// differ by less.
pub fn percent(share: f64) -> String {
    percent_to(share, 2)
}

fn percent_to(share: f64, digits: usize) -> String {
    format!("{}%", decimals(share * 100.0, digits))
}

/// A share in per cent, with one digit after the point.
pub fn share(share: f64) -> String {
    // A share of -0.01% is none.
    let tenths = (1000.0 * share).round() / 10.0 + 0.0;
    format!("{tenths:.1}%")
}

/// A share as a whole number of per cent; what is not nothing is not shown as nothing.
pub fn whole_percent(share: f64) -> String {
    match 100.0 * share {
        x if x > 0.0 && x < 0.5 => "<1%".to_owned(),
        x => format!("{x:.0}%"),
    }
}

/// A number with so many digits after the point.
pub fn decimals(x: f64, digits: usize) -> String {
    format!("{x:.digits$}")
}

/// The same with its sign, also if that is a plus.
pub fn signed(x: f64, digits: usize) -> String {
    format!("{x:+.digits$}")
}

/// A number with two digits after the point; one that rounds to nothing has no sign.
pub fn hundredths(x: f64) -> String {
    decimals((100.0 * x).round() / 100.0 + 0.0, 2)
}

/// A number with at most three digits after the point, and none that are zeros at its end.
pub fn short(x: f64) -> String {
    let text = decimals(x, 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with four digits that count.
pub fn four_digits(x: f64) -> String {
    // Rounded first: 0.99999 has its first digit before the point.
    let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e6).contains(&size) => {
            let before = size.log10().floor() as i32;
            decimals(x, usize::try_from(3 - before).unwrap_or(0))
        }
        _ => format!("{x:.3e}"),
    }
}

/// What a suite is worth by a criterion: a share, a count, or another number.
pub fn amount(amount: Amount) -> String {
    match amount.is_share() {
        true => percent(amount.value()),
        false => worth(amount.value()),
    }
}

/// What a criterion is worth that is no share: a count if it is a whole number, else four digits that
/// count, never with an exponent.
pub fn worth(x: f64) -> String {
    if x == x.trunc() && x.abs() < 1e15 {
        let sign = if x < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(x.abs() as usize));
    }
    let digits = 3 - (x.abs().max(1e-9).log10().floor() as i32);
    decimals(x, digits.clamp(0, 9) as usize)
}

/// A change with its sign: points of a share, or of what is [worth](worth()) a number.
pub fn change(change: f64, is_share: bool) -> String {
    let digits = match is_share {
        true => decimals((change * 100.0).abs(), 2),
        false => worth(change.abs()),
    };
    match digits.bytes().all(|b| matches!(b, b'0' | b'.')) {
        true => "0".to_owned(),
        false if change < 0.0 => format!("-{digits}"),
        false => format!("+{digits}"),
    }
}

/// Two values with as many digits as it takes to tell them apart.
pub fn apart(a: f64, b: f64, is_share: bool) -> (String, String) {
    if !is_share {
        return match worth(a) == worth(b) && a != b {
            true => (a.to_string(), b.to_string()),
            false => (worth(a), worth(b)),
        };
    }
    let differ = |digits: &usize| percent_to(a, *digits) != percent_to(b, *digits);
    let digits = (2..=12).find(differ).unwrap_or(2);
    (percent_to(a, digits), percent_to(b, digits))
}

/// Seconds, with so many digits after the point.
pub fn seconds(seconds: f64, digits: usize) -> String {
    format!("{} s", decimals(seconds, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_parts() {
        assert_eq!([count(0), count(999)], ["0", "999"]);
        assert_eq!([count(1000), count(1_234_567)], ["1,000", "1,234,567"]);
        assert_eq!([part(1, 3), part(0, 0)], ["33.33%", "-"]);
    }

    #[test]
    fn shares() {
        assert_eq!([percent(0.123456), percent(1.0)], ["12.35%", "100.00%"]);
        assert_eq!([share(0.12345), share(-0.00001)], ["12.3%", "0.0%"]);
    }

    #[test]
    fn digits_after_the_point() {
        assert_eq!([decimals(7.6, 0), decimals(0.5, 3)], ["8", "0.500"]);
        assert_eq!([signed(0.5, 2), signed(-0.25, 3)], ["+0.50", "-0.250"]);
        assert_eq!([hundredths(-0.001), hundredths(-0.5)], ["0.00", "-0.50"]);
        assert_eq!([short(2.0), short(0.1234)], ["2", "0.123"]);
        assert_eq!(seconds(1.2345, 3), "1.234 s");
    }

    #[test]
    fn four_digits_count() {
        for (x, text) in [
            (12.3456, "12.35"),
            (-0.00123456, "-0.001235"),
            (0.99999, "1.000"),
            (123456.7, "123457"),
            (1e7, "1.000e7"),
            (0.0, "0"),
            (1e-5, "1.000e-5"),
        ] {
            assert_eq!(four_digits(x), text);
        }
    }

    #[test]
    fn worths_are_counts_or_have_four_digits() {
        for (x, text) in [
            (0.012345, "0.01235"),
            (1.5, "1.500"),
            (123456.7, "123457"),
            (1200.0, "1,200"),
            (-7.0, "-7"),
            (-1200.0, "-1,200"),
            (-1.5, "-1.500"),
            (-0.0, "0"),
        ] {
            assert_eq!(worth(x), text);
        }
    }

    #[test]
    fn changes_have_a_sign_unless_they_round_to_nothing() {
        let shown = [
            (0.0123, true),
            (-0.4, true),
            (0.00001, true),
            (3.0, false),
            (-0.5, false),
        ];
        let shown = shown.map(|(number, is_share)| change(number, is_share));
        assert_eq!(shown, ["+1.23", "-40.00", "0", "+3", "-0.5000"]);
    }

    #[test]
    fn values_that_differ_are_shown_as_different() {
        assert_eq!(apart(0.0501, 0.05, true), ("5.01%".into(), "5.00%".into()));
        let close = apart(0.0499999, 0.05, true);
        assert_eq!(close, ("4.99999%".into(), "5.00000%".into()));
        assert_eq!(apart(7.0, 8.0, false), ("7".into(), "8".into()));
        assert_eq!(apart(-7.0, -8.0, false), ("-7".into(), "-8".into()));
    }
}
