//! How many threads the memory of the machine has room for.

/// How many of so many threads have room, where each takes `bytes`: together no more than half of what is free, so that
/// data, results and other programs have the rest. At least one.
pub(crate) fn fitting(threads: usize, bytes: usize) -> usize {
    match threads {
        0 | 1 => 1,
        threads => fitting_into(threads, bytes, free()),
    }
}

fn fitting_into(threads: usize, bytes: usize, free: Option<usize>) -> usize {
    match free {
        Some(free) => threads.min(free / 2 / bytes.max(1)).max(1),
        None => threads,
    }
}

/// Bytes that a program can have without others losing theirs; `None` where the system does not say.
fn free() -> Option<usize> {
    of_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn of_meminfo(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_than_there_is_room_for() {
        let megabytes = |count: usize| count << 20;
        assert_eq!(fitting_into(8, megabytes(500), Some(megabytes(4000))), 4);
        assert_eq!(fitting_into(8, megabytes(100), Some(megabytes(4000))), 8);
        assert_eq!(fitting_into(8, megabytes(9000), Some(megabytes(4000))), 1);
        assert_eq!(fitting_into(8, 0, Some(0)), 1);
        assert_eq!(fitting_into(8, megabytes(9000), None), 8);
        assert_eq!(fitting(0, 1), 1);
    }

    #[test]
    fn free_memory_is_what_the_system_says() {
        let text = "MemTotal:       16384 kB\nMemFree:  12 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(of_meminfo(text), Some(2 << 20));
        assert_eq!(of_meminfo("MemAvailable: much"), None);
        assert_eq!(of_meminfo(""), None);
    }
}
