//! Work that is split among threads.

use std::ops::Range;

/// Splits so many things among threads, and gives their results in order.
pub fn in_parallel<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let each = count.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..count)
            .step_by(each)
            .map(|start| scope.spawn(move || work(start..(start + each).min(count))))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, R>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}
