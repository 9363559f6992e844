//! Jobs of a log: GPUs that are connected by communicators.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Log, MOST_WORKERS, Worker};

/// Jobs by communicator ids, found while a log is read (union-find).
#[derive(Debug, Default)]
pub(super) struct JobIndex {
    /// Earlier GPU of the same job, by GPU; its own index if there is none; absent: no communicator id.
    parents: HashMap<usize, usize>,
    /// A GPU of each communicator, by id.
    communicators: HashMap<u64, usize>,
}

impl JobIndex {
    /// Records that a GPU takes part in a communicator.
    pub(super) fn join(&mut self, worker: usize, communicator: u64) {
        self.parents.entry(worker).or_insert(worker);
        match self.communicators.get(&communicator) {
            Some(other) => {
                let (one, other) = (self.root(*other), self.root(worker));
                self.parents.insert(one.max(other), one.min(other));
            }
            // The first communicators join all ranks of a job.
            None if self.communicators.len() >= MOST_WORKERS => {}
            None => _ = self.communicators.insert(communicator, worker),
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
}

impl Job<'_> {
    /// Returns the number of ranks of the largest communicator; `None`: not in the log.
    pub fn ranks(&self) -> Option<u32> {
        let all = self.workers.iter().filter_map(|one| one.rank).map(|(_, ranks)| ranks);
        all.max().filter(|ranks| *ranks > 0)
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
        jobs.into_values().map(|workers| Job { workers }).collect()
    }
}
