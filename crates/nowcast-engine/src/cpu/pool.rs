//! A fork-join thread pool for kernels: tasks are claimed one by one, by the caller as well.
//!
//! A forward pass has dozens of parallel regions of a few microseconds each, so a region must cost well under a
//! microsecond: workers spin for a short while before they sleep, and nothing is allocated per region. The caller
//! claims tasks like any worker and so finishes alone whatever sleeping or preempted workers did not take, which keeps
//! an oversubscribed machine usable.
//!
//! Devices with as many threads share one pool: ten forecasters of a process have no more workers than one. Whoever
//! finds the workers taken does its tasks alone, which is what a machine with more forecasters than cores needs.
//!
//! Which thread runs a task is left to chance; what a task computes must not depend on it.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most threads a pool will start, whatever is asked for.
pub const MAX_THREADS: usize = 512;

/// How long a thread spins for work, or for the last task of a region, before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// Chunks per thread in [`ThreadPool::for_each_chunk`]: a thread held up by others then costs a fraction of its share.
const CHUNKS_PER_THREAD: usize = 4;

thread_local! {
    /// Whether this thread is inside a task; a region opened there runs in line.
    static INSIDE_TASK: Cell<bool> = const { Cell::new(false) };
}

/// One parallel region: the body and the first panic of its tasks.
struct Region<'body> {
    body: &'body (dyn Fn(usize, usize) + Sync),
    tasks: usize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Region<'_> {
    /// Runs the task that was claimed when `unclaimed` tasks were left.
    fn execute(&self, slot: usize, unclaimed: usize) {
        let task = self.tasks - unclaimed;
        INSIDE_TASK.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| (self.body)(slot, task)));
        INSIDE_TASK.set(false);
        if let Err(payload) = result {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }
}

/// Keeps what every thread writes apart from its neighbours in memory.
#[repr(align(128))]
struct CacheLine<T>(T);

/// What the caller and the workers share.
struct Shared {
    /// Tasks of the current region that nobody has claimed yet.
    unclaimed: CacheLine<AtomicUsize>,
    /// Tasks of the current region that are not finished.
    unfinished: CacheLine<AtomicUsize>,
    /// The current region; valid for whoever holds a claimed, unfinished task.
    region: AtomicPtr<Region<'static>>,
    closing: AtomicBool,
    /// Whether the caller sleeps on `finished`.
    caller_sleeps: AtomicBool,
    finished_lock: Mutex<()>,
    finished: Condvar,
}

impl Shared {
    /// Claims one task; returns how many were left including it, or none.
    fn claim(&self) -> Option<usize> {
        self.unclaimed.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).ok()
    }

    /// Counts one finished task, and wakes the caller after the last.
    fn finish(&self) {
        // Sequentially consistent with `wait`: either we see the sleeping caller or it sees the count.
        if self.unfinished.0.fetch_sub(1, Ordering::SeqCst) == 1 && self.caller_sleeps.load(Ordering::SeqCst) {
            let _guard = self.finished_lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.finished.notify_one();
        }
    }

    /// Waits until every task of the region is finished.
    fn wait(&self) {
        let done = || self.unfinished.0.load(Ordering::SeqCst) == 0;
        if spin_until(done) {
            return;
        }
        let mut guard = self.finished_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.caller_sleeps.store(true, Ordering::SeqCst);
        while !done() {
            guard = self.finished.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, Ordering::SeqCst);
    }

    /// The life of a worker.
    fn work(&self, slot: usize) {
        while !self.closing.load(Ordering::Acquire) {
            while let Some(unclaimed) = self.claim() {
                // SAFETY: the pointer was stored before the tasks were published, and the caller keeps the region
                // alive until every claimed task is finished, which `finish` reports below, after the last use.
                unsafe { (*self.region.load(Ordering::Acquire)).execute(slot, unclaimed) };
                self.finish();
            }
            let wanted = || self.unclaimed.0.load(Ordering::Acquire) != 0 || self.closing.load(Ordering::Acquire);
            if !spin_until(wanted) {
                std::thread::park();
            }
        }
    }
}

/// Spins until the condition holds or [`SPIN`] has passed; returns whether it holds.
fn spin_until(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..64 {
            if condition() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= SPIN {
            return condition();
        }
        // Somebody else may need this core to bring about what we wait for.
        std::thread::yield_now();
    }
}

/// Persistent worker threads that, together with the calling thread, run parallel regions.
///
/// The workers serve one region at a time: a second thread that opens one meanwhile runs its tasks itself, and so does a
/// task that opens one. A panic in a task reaches the caller once all tasks of the region have ended.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    regions: Mutex<()>,
}

/// Pools that devices share, by their number of threads.
static POOLS: Mutex<Vec<(usize, Weak<ThreadPool>)>> = Mutex::new(Vec::new());

impl ThreadPool {
    /// The pool of `threads` threads that all who ask for as many share; it ends with the last of them.
    pub fn shared(threads: usize) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|(_, pool)| pool.strong_count() > 0);
        let found = pools.iter().find(|(count, _)| *count == threads).and_then(|(_, pool)| pool.upgrade());
        found.unwrap_or_else(|| {
            let pool = Arc::new(Self::new(threads));
            pools.push((threads, Arc::downgrade(&pool)));
            pool
        })
    }

    /// A pool of `threads` threads including the caller, at least 1 and at most [`MAX_THREADS`].
    ///
    /// Where the system refuses to start a thread the pool makes do with those it has: see [`ThreadPool::threads`].
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            unclaimed: CacheLine(AtomicUsize::new(0)),
            unfinished: CacheLine(AtomicUsize::new(0)),
            region: AtomicPtr::new(std::ptr::null_mut()),
            closing: AtomicBool::new(false),
            caller_sleeps: AtomicBool::new(false),
            finished_lock: Mutex::new(()),
            finished: Condvar::new(),
        });
        let start = |slot: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("nowcast-{slot}")).spawn(move || shared.work(slot)).ok()
        };
        let workers = (1..threads.clamp(1, MAX_THREADS)).map_while(start).collect();
        Self { shared, workers, regions: Mutex::new(()) }
    }

    /// The threads this process may use: cores, affinity mask and cgroup quota taken into account.
    pub fn available_threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Threads that run tasks, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `body(0)` to `body(threads - 1)`, each exactly once, and returns when all have ended.
    pub fn run(&self, body: impl Fn(usize) + Sync) {
        self.for_each_task(self.threads(), |_, task| body(task));
    }

    /// Runs `body(slot, task)` for every `task` in `0..tasks` and returns when all have ended.
    ///
    /// `slot < threads()` names the executing thread: no two tasks of a region that run at the same time share a slot, so
    /// it may select a part of a scratch buffer. Tasks start in ascending order.
    pub fn for_each_task(&self, tasks: usize, body: impl Fn(usize, usize) + Sync) {
        let alone = || (0..tasks).for_each(|task| body(0, task));
        if tasks <= 1 || self.workers.is_empty() || INSIDE_TASK.get() {
            return alone();
        }
        let guard = match self.regions.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The workers are taken. Waiting for them would cost a sleep for each of dozens of regions.
            Err(TryLockError::WouldBlock) => return alone(),
        };
        let region = Region { body: &body, tasks, panic: Mutex::new(None) };
        self.shared.region.store((&raw const region).cast_mut().cast(), Ordering::Release);
        self.shared.unfinished.0.store(tasks, Ordering::SeqCst);
        self.shared.unclaimed.0.store(tasks, Ordering::Release);
        for worker in self.workers.iter().take(tasks - 1) {
            worker.thread().unpark();
        }
        while let Some(unclaimed) = self.shared.claim() {
            region.execute(0, unclaimed);
            self.shared.finish();
        }
        self.shared.wait();
        drop(guard);
        if let Some(payload) = region.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }

    /// Cuts `0..count` into contiguous ranges of at least `grain` (the last may be shorter) and runs `body` on each.
    ///
    /// Where the cuts fall depends on the number of threads: a result must not depend on its range.
    pub fn for_each_chunk(&self, count: usize, grain: usize, body: impl Fn(Range<usize>) + Sync) {
        let chunks = if self.threads() == 1 { 1 } else { self.threads() * CHUNKS_PER_THREAD };
        let size = count.div_ceil(chunks).max(grain).max(1);
        self.for_each_task(count.div_ceil(size), |_, task| body(task * size..count.min((task + 1) * size)));
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of its tasks, so there is nothing left to report.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_runs_exactly_once() {
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPool::new(threads);
            assert_eq!(pool.threads(), threads);
            for tasks in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                pool.for_each_task(tasks, |slot, task| {
                    assert!(slot < threads);
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn slots_are_never_shared() {
        let pool = ThreadPool::new(4);
        let busy: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        for _ in 0..200 {
            pool.for_each_task(16, |slot, _| {
                assert!(!busy[slot].swap(true, Ordering::SeqCst), "slot {slot} is in use twice");
                std::hint::spin_loop();
                busy[slot].store(false, Ordering::SeqCst);
            });
        }
    }

    #[test]
    fn chunks_cover_the_range_without_overlap() {
        let pool = ThreadPool::new(3);
        for (count, grain) in [(0, 1), (1, 0), (5, 8), (100, 1), (1000, 64), (1001, 7)] {
            let counts: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
            pool.for_each_chunk(count, grain, |range| {
                assert!(range.len() >= grain || range.end == count);
                range.for_each(|index| {
                    counts[index].fetch_add(1, Ordering::Relaxed);
                });
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ThreadPool::new(3);
        for bad in 0..6 {
            let finished = AtomicU32::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.for_each_task(6, |_, task| {
                    assert!(task != bad, "task {task} fails");
                    finished.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let message = result.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("task {bad} fails"));
            assert_eq!(finished.load(Ordering::Relaxed), 5);
        }
        let sum = AtomicU32::new(0);
        pool.run(|thread| {
            sum.fetch_add(thread as u32, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn who_asks_for_as_many_threads_shares_a_pool() {
        // Numbers that no other test asks for.
        let [first, second, other] = [5, 5, 6].map(ThreadPool::shared);
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        assert_eq!((first.threads(), other.threads()), (5, 6));
        let ended = Arc::downgrade(&first);
        drop((first, second));
        assert!(ended.upgrade().is_none(), "a pool ends with the last who needs it");
        assert_eq!(ThreadPool::shared(5).threads(), 5);
    }

    #[test]
    fn who_finds_the_workers_taken_works_alone() {
        let pool = ThreadPool::new(2);
        let (taken, done) = (std::sync::Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pool.for_each_task(2, |_, task| {
                    if task == 0 {
                        taken.wait();
                        let patience = Instant::now();
                        while !done.load(Ordering::SeqCst) {
                            assert!(patience.elapsed() < Duration::from_secs(20), "the other caller waits for us");
                            std::thread::yield_now();
                        }
                    }
                });
            });
            taken.wait();
            let (caller, ran) = (std::thread::current().id(), AtomicU32::new(0));
            pool.for_each_task(8, |slot, _| {
                assert_eq!((slot, std::thread::current().id()), (0, caller));
                ran.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(ran.into_inner(), 8);
            done.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn regions_nest_and_callers_share() {
        let pool = ThreadPool::new(2);
        let sum = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.for_each_task(4, |_, _| {
                            pool.for_each_task(4, |_, _| {
                                sum.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3 * 100 * 16);
    }

    #[test]
    fn sleeping_workers_wake() {
        let pool = ThreadPool::new(2);
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(2));
            let started = AtomicU32::new(0);
            pool.for_each_task(2, |_, _| {
                started.fetch_add(1, Ordering::SeqCst);
                // One thread cannot start the second task before it has ended the first.
                let patience = Instant::now();
                while started.load(Ordering::SeqCst) < 2 {
                    assert!(patience.elapsed() < Duration::from_secs(20), "the worker slept through the region");
                    std::thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn more_threads_than_cores_stay_usable() {
        let pool = ThreadPool::new(4 * ThreadPool::available_threads());
        let start = Instant::now();
        for _ in 0..200 {
            pool.run(|_| {});
        }
        // Pure spinning would lose a scheduler slice (milliseconds) per thread and region.
        assert!(start.elapsed() < Duration::from_secs(2), "200 empty regions took {:?}", start.elapsed());
    }
}
