//! Jobs of a log: GPUs that are connected by communicators.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Log, MOST_WORKERS, Worker};

/// Maximum number of ranks of all communicators tracked.
const MOST_RANKS: usize = 1 << 20;

/// Jobs by communicator ids, found while a log is read (union-find).
#[derive(Debug, Default)]
pub(super) struct JobIndex {
    /// Earlier GPU of the same job, by GPU; its own index if there is none; absent: no communicator id.
    parents: HashMap<usize, usize>,
    /// Communicators by id.
    communicators: HashMap<u64, Communicator>,
    /// Ranks seen, with the id of their communicator.
    ranks: HashSet<(u64, u32)>,
    /// Whether communicators or ranks were dropped at a limit.
    is_cut: bool,
}

/// A communicator with an id.
#[derive(Debug)]
struct Communicator {
    /// One of its GPUs.
    worker: usize,
    /// Ranks that it announces.
    announced: u32,
    /// Ranks in the log.
    seen: u32,
}

impl JobIndex {
    /// Records that a GPU takes part in a communicator, with its rank and the number of ranks.
    pub(super) fn join(&mut self, worker: usize, id: u64, own: Option<(u32, u32)>) {
        self.parents.entry(worker).or_insert(worker);
        match self.communicators.get(&id).map(|known| known.worker) {
            Some(other) => {
                let (one, other) = (self.root(other), self.root(worker));
                self.parents.insert(one.max(other), one.min(other));
            }
            None if self.communicators.len() >= MOST_WORKERS => self.is_cut = true,
            None => {
                let announced = own.map_or(0, |(_, ranks)| ranks);
                self.communicators.insert(id, Communicator { worker, announced, seen: 0 });
            }
        }
        let (Some((rank, _)), Some(known)) = (own, self.communicators.get_mut(&id)) else { return };
        if self.ranks.len() >= MOST_RANKS {
            self.is_cut = true;
        } else if self.ranks.insert((id, rank)) {
            known.seen += 1;
        }
    }

    /// Returns the first GPU of the job of a GPU, and shortens the path to it.
    fn root(&mut self, worker: usize) -> usize {
        let parent = |parents: &HashMap<usize, usize>, at| parents.get(&at).copied().unwrap_or(at);
        let mut at = worker;
        loop {
            let above = parent(&self.parents, at);
            if above == at {
                return at;
            }
            let next = parent(&self.parents, above);
            self.parents.insert(at, next);
            at = next;
        }
    }

    /// Returns the first GPU of the job of each GPU that has a communicator id.
    fn roots(&self, workers: usize) -> Vec<Option<usize>> {
        let mut roots: Vec<Option<usize>> = Vec::with_capacity(workers);
        for at in 0..workers {
            // Parents precede their GPUs.
            let parent = self.parents.get(&at).copied();
            let root = parent.map(|parent| roots.get(parent).copied().flatten().unwrap_or(at));
            roots.push(root);
        }
        roots
    }
}

/// A job, or a part of it that shares no communicator with the rest.
#[derive(Debug)]
pub struct Job<'l> {
    /// GPUs, in order of appearance.
    pub workers: Vec<&'l Worker>,
    /// Communicators with fewer ranks in the log than announced: id, ranks in the log, ranks announced.
    pub partial: Vec<(u64, u32, u32)>,
}

impl Job<'_> {
    /// Returns the number of ranks of the largest communicator; `None`: not in the log.
    pub fn ranks(&self) -> Option<u32> {
        let all = self.workers.iter().filter_map(|one| one.rank).map(|(_, ranks)| ranks);
        all.max().filter(|ranks| *ranks > 0)
    }

    /// Whether all its ranks are in the log and on one node, so that it needs no network.
    pub fn is_local(&self) -> bool {
        let all = self.ranks().is_some_and(|ranks| ranks as usize == self.workers.len());
        all && self.nodes().len() == 1
    }

    /// Returns how often the program of the job ran: the processes that had the same rank.
    pub fn executions(&self) -> usize {
        let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
        for (rank, _) in self.workers.iter().filter_map(|one| one.rank) {
            *processes.entry(rank).or_default() += 1;
        }
        processes.into_values().max().unwrap_or_default()
    }

    /// Returns the nodes, as indices into [`Log::hosts`].
    pub fn nodes(&self) -> BTreeSet<usize> {
        self.workers.iter().map(|one| one.host).collect()
    }
}

impl Log {
    /// Returns the jobs. GPUs without a communicator id (NCCL up to 2.15) belong to the job of their process, to the
    /// only job, or to one of their own. A log without GPUs has one empty job.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let parts = self.workers.iter().enumerate().filter(|(_, one)| one.takes_part());
        let roots = self.job_index.roots(self.workers.len());
        let known: BTreeSet<usize> = roots.iter().flatten().copied().collect();
        let by_process: HashMap<(usize, u32), usize> =
            parts.clone().filter_map(|(at, one)| Some(((one.host, one.pid), roots[at]?))).collect();
        let rest = match known.len() {
            1 => known.first().copied().unwrap_or_default(),
            _ => usize::MAX,
        };
        let mut jobs: BTreeMap<usize, Vec<&Worker>> = BTreeMap::new();
        for (at, one) in parts {
            let job = roots[at].or_else(|| by_process.get(&(one.host, one.pid)).copied());
            jobs.entry(job.unwrap_or(rest)).or_default().push(one);
        }
        if jobs.is_empty() {
            jobs.insert(0, Vec::new());
        }
        let mut partial: BTreeMap<usize, Vec<(u64, u32, u32)>> = BTreeMap::new();
        for (id, one) in &self.job_index.communicators {
            if let Some(root) = roots.get(one.worker).copied().flatten()
                && one.seen < one.announced
            {
                partial.entry(root).or_default().push((*id, one.seen, one.announced));
            }
        }
        let with_partial = |(root, workers)| {
            let mut partial = partial.remove(&root).unwrap_or_default();
            partial.sort_unstable();
            Job { workers, partial }
        };
        jobs.into_iter().map(with_partial).collect()
    }

    /// Whether communicators were dropped at a limit, so that ranks may be missing.
    pub(super) fn is_cut_in_communicators(&self) -> bool {
        self.job_index.is_cut
    }
}
