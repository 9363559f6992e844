//! Node names that concurrent writers have glued together. `node-anode-b:41:57 [3] NCCL INFO …` is a message of `node-b`
//! after a torn message of `node-a`.

use std::collections::{BTreeSet, HashMap};

use super::{Carrier, Log, Tally, Worker};

impl Log {
    /// Assigns messages of glued names to the last node of the name. Counts each as lost, because a part of the torn
    /// message is missing.
    pub(super) fn split_glued_names(&mut self) {
        // A node reports the setup of its ranks.
        let is_real = |one: &Worker| one.complete || one.started.is_some();
        let real: BTreeSet<usize> =
            self.workers.iter().filter(|one| is_real(one)).map(|one| one.host).collect();
        let glued: HashMap<usize, usize> = (0..self.hosts.len())
            .filter(|at| !real.contains(at))
            .filter_map(|at| Some((at, self.last_name_of(&self.hosts[at])?)))
            .collect();
        for at in 0..self.workers.len() {
            let Some(host) = glued.get(&self.workers[at].host) else { continue };
            Tally::count(&mut self.lost, self.host_places[self.workers[at].host]);
            let key = (*host, self.workers[at].pid, self.workers[at].device);
            if let Some(own) = self.known.get(&key).copied() {
                let from = std::mem::take(&mut self.workers[at]);
                self.workers[own].absorb(&from);
            }
            self.workers[at].host = *host;
        }
    }

    /// Returns the node whose name ends a glued name.
    fn last_name_of(&self, name: &str) -> Option<usize> {
        let node = |part: &str| self.host_index.get(part.as_bytes()).copied();
        let cuts = name.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
        let mut parts = cuts.filter_map(|at| name.split_at_checked(at));
        parts.find_map(|(first, rest)| node(first).and(node(rest)))
    }
}

impl Worker {
    /// Adds the connections of another entry of the same GPU.
    fn absorb(&mut self, other: &Worker) {
        for carrier in Carrier::ALL.map(|carrier| carrier as usize) {
            let Some(more) = other.carriers[carrier] else { continue };
            match &mut self.carriers[carrier] {
                Some(seen) => seen.count += more.count,
                none => *none = Some(more),
            }
        }
        for (nic, count) in &other.nics {
            *self.nics.entry(*nic).or_default() += count;
        }
        self.sends += other.sends;
        self.receives += other.receives;
    }
}
