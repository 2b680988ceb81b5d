//! One memory limit for several forecasters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::memory::in_words;
use crate::{Error, Result};

/// A memory limit that several forecasters share: weights, plans and paths of all of them together.
///
/// Whoever needs room takes it from the one that has rested longest: its plans first, then its weights, which the next
/// forecast brings back by itself. A forecaster at work gives nothing up.
///
/// ```
/// use nowcast::{CandleForecaster, Forecaster, MemoryBudget};
///
/// # fn main() -> nowcast::Result<()> {
/// let budget = MemoryBudget::new(256 << 20);
/// let metrics = Forecaster::load("nano")?.with_budget(&budget)?;
/// let candles = CandleForecaster::load("kronos-nano")?.with_budget(&budget)?;
/// assert!(budget.held() >= metrics.weight_bytes() + candles.weight_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryBudget(Arc<Ledger>);

struct Ledger {
    limit: usize,
    clock: AtomicU64,
    entries: Mutex<Vec<Entry>>,
}

/// Someone who holds memory and can do without.
pub(super) trait Tenant {
    /// Frees the plans.
    fn give_up_plans(&mut self);

    /// Frees plans and weights.
    fn give_up_weights(&mut self);
}

/// What is given up first, and what then.
const WAYS: [fn(&mut (dyn Tenant + Send)); 2] = [|tenant| tenant.give_up_plans(), |tenant| tenant.give_up_weights()];

struct Entry {
    id: usize,
    tenant: Weak<Mutex<dyn Tenant + Send>>,
    /// Bytes held now.
    held: Arc<AtomicUsize>,
    /// When it last asked for room.
    used: u64,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Ledger { limit, clock: AtomicU64::new(0), entries: Mutex::new(Vec::new()) }))
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes of weights and plans that all forecasters hold between forecasts.
    pub fn held(&self) -> usize {
        self.entries().iter().map(|entry| entry.held.load(Ordering::Relaxed)).sum()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, id: usize, tenant: Weak<Mutex<dyn Tenant + Send>>, held: Arc<AtomicUsize>) {
        let used = self.0.clock.fetch_add(1, Ordering::Relaxed);
        self.entries().push(Entry { id, tenant, held, used });
    }

    pub(super) fn leave(&self, id: usize) {
        self.entries().retain(|entry| entry.id != id);
    }

    /// Refuses what could never fit.
    pub(super) fn check_alone(&self, weights: usize) -> Result<()> {
        if weights <= self.0.limit {
            return Ok(());
        }
        let (weights, limit) = (in_words(weights), in_words(self.0.limit));
        Err(Error::Memory(format!("the weights alone take {weights}, above the memory budget of {limit}: raise it")))
    }

    /// Frees what others hold until one of them can hold this many bytes itself.
    pub(super) fn make_room(&self, id: usize, mine: usize) -> Result<()> {
        let mut entries = self.entries();
        let now = self.0.clock.fetch_add(1, Ordering::Relaxed);
        entries.iter_mut().filter(|entry| entry.id == id).for_each(|entry| entry.used = now);
        entries.sort_by_key(|entry| entry.used);
        let others = |entries: &[Entry]| -> usize {
            let of_others = entries.iter().filter(|entry| entry.id != id);
            of_others.map(|entry| entry.held.load(Ordering::Relaxed)).sum()
        };
        let fits = |entries: &[Entry]| mine.saturating_add(others(entries)) <= self.0.limit;
        for give_up in WAYS {
            for entry in entries.iter().filter(|entry| entry.id != id) {
                if fits(&entries) {
                    return Ok(());
                }
                let Some(tenant) = entry.tenant.upgrade() else { continue };
                // Whoever is at work keeps what it has.
                if let Ok(mut tenant) = tenant.try_lock() {
                    give_up(&mut *tenant);
                }
            }
        }
        if fits(&entries) {
            return Ok(());
        }
        Err(Error::Memory(format!(
            "{} are needed and other forecasters at work hold {} of the memory budget of {}: raise it or wait for them",
            in_words(mine),
            in_words(others(&entries)),
            in_words(self.0.limit)
        )))
    }

    /// Lets the one that has rested longest give something up, its plans or else its weights; whether anyone could.
    pub(super) fn free_one(&self, id: usize) -> bool {
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.used);
        WAYS.iter().any(|give_up| {
            entries.iter().filter(|entry| entry.id != id).any(|entry| {
                let before = entry.held.load(Ordering::Relaxed);
                let Some(tenant) = entry.tenant.upgrade() else { return false };
                if let Ok(mut tenant) = tenant.try_lock() {
                    give_up(&mut *tenant);
                }
                entry.held.load(Ordering::Relaxed) < before
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Holder {
        plans: usize,
        weights: usize,
        held: Arc<AtomicUsize>,
    }

    impl Tenant for Holder {
        fn give_up_plans(&mut self) {
            self.plans = 0;
            self.held.store(self.weights, Ordering::Relaxed);
        }

        fn give_up_weights(&mut self) {
            (self.plans, self.weights) = (0, 0);
            self.held.store(0, Ordering::Relaxed);
        }
    }

    fn enter(budget: &MemoryBudget, id: usize, plans: usize, weights: usize) -> Arc<Mutex<Holder>> {
        let held = Arc::new(AtomicUsize::new(plans + weights));
        let holder = Arc::new(Mutex::new(Holder { plans, weights, held: Arc::clone(&held) }));
        budget.enter(id, Arc::downgrade(&holder) as _, held);
        holder
    }

    fn holds(holder: &Mutex<Holder>) -> (usize, usize) {
        let holder = holder.lock().unwrap();
        (holder.plans, holder.weights)
    }

    #[test]
    fn the_longest_rested_gives_up_its_plans_before_anyone_its_weights() {
        let budget = MemoryBudget::new(100);
        let [a, b] = [(1, 20, 10), (2, 20, 10)].map(|(id, plans, weights)| enter(&budget, id, plans, weights));
        budget.make_room(3, 40).unwrap();
        assert_eq!((holds(&a), holds(&b)), ((20, 10), (20, 10)));
        budget.make_room(3, 60).unwrap();
        assert_eq!((holds(&a), holds(&b)), ((0, 10), (20, 10)));
        budget.make_room(3, 85).unwrap();
        assert_eq!((holds(&a), holds(&b)), ((0, 0), (0, 10)));
    }

    #[test]
    fn who_asked_lately_keeps_what_it_has() {
        let budget = MemoryBudget::new(100);
        let [a, b] = [(1, 20, 10), (2, 20, 10)].map(|(id, plans, weights)| enter(&budget, id, plans, weights));
        budget.make_room(1, 30).unwrap();
        budget.make_room(3, 60).unwrap();
        assert_eq!((holds(&a), holds(&b)), ((20, 10), (0, 10)));
    }

    #[test]
    fn whoever_is_at_work_gives_nothing_up() {
        let budget = MemoryBudget::new(100);
        let holder = enter(&budget, 1, 50, 10);
        let at_work = holder.lock().unwrap();
        let error = budget.make_room(2, 70).unwrap_err().to_string();
        assert!(error.contains("60 bytes") && error.contains("70 bytes"), "{error}");
        drop(at_work);
        budget.make_room(2, 70).unwrap();
        assert_eq!((holds(&holder), budget.held()), ((0, 10), 10));
    }

    #[test]
    fn what_is_freed_piece_by_piece_is_plans_first_and_then_weights() {
        let budget = MemoryBudget::new(100);
        let [a, b] = [(1, 20, 10), (2, 20, 10)].map(|(id, plans, weights)| enter(&budget, id, plans, weights));
        let mut seen = Vec::new();
        while budget.free_one(2) {
            seen.push((holds(&a), holds(&b)));
        }
        assert_eq!(seen, [((0, 10), (20, 10)), ((0, 0), (20, 10))], "never one's own");
    }

    #[test]
    fn those_who_left_hold_nothing() {
        let budget = MemoryBudget::new(100);
        let _holder = enter(&budget, 1, 50, 10);
        budget.leave(1);
        assert_eq!(budget.held(), 0);
        assert!(budget.make_room(2, 101).is_err());
        assert!(budget.check_alone(101).is_err() && budget.check_alone(100).is_ok());
    }
}
