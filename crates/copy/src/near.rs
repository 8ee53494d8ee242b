//! Which queues are near to which worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dsa::sysfs::{self, Queue};

/// For each worker's core the queues of those in use that are nearest to it, which its transmit queues take in turn.
#[derive(Debug)]
pub struct Nearness {
    /// Sets of queues, by their places; the first has all of them.
    sets: Vec<Set>,
    /// The set of a core.
    by_core: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct Set {
    queues: Vec<usize>,
    turn: AtomicUsize,
}

impl Set {
    fn new(queues: Vec<usize>) -> Self {
        Self { queues, turn: AtomicUsize::new(0) }
    }
}

impl Nearness {
    /// Of so many queues none of which is nearer than another.
    #[must_use]
    pub fn unknown(queues: usize) -> Self {
        Self { sets: vec![Set::new((0..queues).collect())], by_core: BTreeMap::new() }
    }

    /// Of these queues, to workers on these cores; `nodes` is [`sysfs::NODES`], or a tree like it.
    #[must_use]
    pub fn of(nodes: &Path, queues: &[Queue], cores: &[usize]) -> Self {
        let mut nearness = Self::unknown(queues.len());
        for core in cores {
            let near = sysfs::nearest(nodes, queues.to_vec(), sysfs::node_of(nodes, *core));
            let places = |(at, queue): (usize, &Queue)| near.contains(queue).then_some(at);
            let near: Vec<usize> = queues.iter().enumerate().filter_map(places).collect();
            let known = nearness.sets.iter().position(|set| set.queues == near);
            let set = known.unwrap_or_else(|| {
                nearness.sets.push(Set::new(near));
                nearness.sets.len() - 1
            });
            nearness.by_core.insert(*core, set);
        }
        nearness
    }

    /// The place of the queue whose turn it is among those near to a core; among all where nothing is known of it, and `None` where
    /// there is none.
    #[must_use]
    pub fn next(&self, core: Option<usize>) -> Option<usize> {
        let set = core.and_then(|core| self.by_core.get(&core)).copied().unwrap_or(0);
        let Set { queues, turn } = self.sets.get(set)?;
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        queues.get(turn.checked_rem(queues.len())?).copied()
    }
}

/// The queues that are nearest to at least one of these cores, each once; all of them where no core is known.
#[must_use]
pub fn wanted(nodes: &Path, queues: Vec<Queue>, cores: &[usize]) -> Vec<Queue> {
    let nearness = Nearness::of(nodes, &queues, cores);
    let sets = nearness.by_core.values().filter_map(|set| nearness.sets.get(*set));
    let near: Vec<usize> = sets.flat_map(|set| set.queues.iter().copied()).collect();
    let is_wanted = |at: &usize| cores.is_empty() || near.contains(at);
    queues.into_iter().enumerate().filter(|(at, _)| is_wanted(at)).map(|(_, queue)| queue).collect()
}
