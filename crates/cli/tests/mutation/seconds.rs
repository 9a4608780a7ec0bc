//! How long a process computes, which is not how long it takes: on a busy machine it waits for its turn.

/// Seconds that a process has computed, of its number or of `self`; unknown without Linux' folder of processes.
pub(crate) fn computed(process: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name in parentheses, the 12th and 13th are user and system time in hundredths.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
