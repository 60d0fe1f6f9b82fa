// SPDX-License-Identifier: Apache-2.0
//! Finds the page tables of a process through the kernel's list of processes.
//!
//! Nothing is locked. A process may exit while the list is read, and its memory may be reused. Therefore
//! every pointer must be a kernel address, the walk is bounded, and the result must have the right process
//! id. A process is remembered by its task, its start time and its memory descriptor, and checked by one
//! small read before each use: exec changes the descriptor, and a reused task has another start time.

use crate::btf::Btf;
use crate::error::{Error, Result};
use crate::kcore::notes::Notes;
use crate::kcore::{Kcore, is_kernel_address, word};
use crate::process::namespace;
use crate::root::Root;

/// The most processes that Linux can have.
const MAX_TASKS: u32 = 1 << 22;
/// The most attempts to read a list that changes meanwhile.
const TRIES: u32 = 3;

/// Offsets of members, in bytes from the start of their structure.
#[derive(Clone, Copy, Debug)]
struct Layout {
    tasks: u64,
    pid: u64,
    mm: u64,
    start: u64,
    pgd: u64,
    leader: u64,
}

/// The layout of the kernel's structures and the start of its list of processes.
#[derive(Clone, Copy, Debug)]
pub struct TaskList {
    /// A task that stays on the list while this process runs: our own.
    own_task: u64,
    layout: Layout,
    /// Levels of page tables: 4, or 5 if the processor and the kernel use LA57.
    pub levels: u32,
    /// Bits of a page-table entry's address that mean "encrypted" (AMD); zero on other machines.
    pub encrypted: u64,
}

/// A process in the kernel's data structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id in the first pid namespace.
    pub pid: u32,
    task: u64,
    start: u64,
    mm: u64,
    /// The physical address of its top page table.
    pub top_table: u64,
}

#[cfg(test)]
impl Process {
    /// A process with these page tables.
    pub(crate) fn of(pid: u32, top_table: u64) -> Self {
        Self { pid, task: 0, start: 0, mm: 0, top_table }
    }
}

/// The content of one read of a task.
struct Task {
    next: u64,
    pid: u32,
    mm: u64,
    start: u64,
}

impl TaskList {
    /// Reads the layout (BTF) and the kernel's notes ([`Notes`]), and frees both.
    ///
    /// # Errors
    /// [`Error::Missing`] if this kernel has no BTF, provides no task note, or has unknown structures.
    pub fn open(root: &Root, kcore: &Kcore) -> Result<Self> {
        if !namespace::is_first(root) {
            return Err(Error::Missing {
                what: "the kernel's list of processes".into(),
                why:
                    "this is another PID namespace (a container): numbers here are not the kernel's"
                        .into(),
                hint: "use another tracker; `tierline trackers` lists them; or run on the host"
                    .into(),
            });
        }
        let (notes, layout) = (Notes::read(kcore), Layout::read(&Btf::open(root)?)?);
        // Only the first thread of a process is on the list.
        let own_task = word(&notes.task, usize::try_from(layout.leader).unwrap_or(usize::MAX - 8));
        if !is_kernel_address(own_task) {
            return Err(Error::Missing {
                what: "the kernel's list of processes".into(),
                why: "/proc/kcore has no note with our task".into(),
                hint: "use another tracker; `tierline trackers` lists them".into(),
            });
        }
        Ok(Self {
            own_task,
            layout,
            levels: if notes.vmcoreinfo_number("pgtable_l5_enabled") == Some(1) { 5 } else { 4 },
            encrypted: notes.vmcoreinfo_number("sme_mask").unwrap_or(0),
        })
    }

    /// The process `pid`; `None` if there is none, or it has no memory (a kernel thread, a zombie).
    pub fn find(&self, kcore: &Kcore, pid: u32) -> Option<Process> {
        (0..TRIES).find_map(|_| self.search(kcore, pid)).flatten()
    }

    /// True while `process` runs with the same memory descriptor.
    pub fn is_current(&self, kcore: &Kcore, process: &Process) -> bool {
        self.layout.task(kcore, process.task).is_some_and(|task| {
            task.pid == process.pid && task.mm == process.mm && task.start == process.start
        })
    }

    /// `None` if the list was inconsistent; `Some(None)` if it ended without the process.
    fn search(&self, kcore: &Kcore, pid: u32) -> Option<Option<Process>> {
        let mut address = self.own_task;
        for _ in 0..MAX_TASKS {
            let task = self.layout.task(kcore, address)?;
            if task.pid == pid {
                return Some(self.process(kcore, address, &task));
            }
            address = task.next.wrapping_sub(self.layout.tasks);
            if address == self.own_task {
                return Some(None);
            }
        }
        None
    }

    fn process(&self, kcore: &Kcore, address: u64, task: &Task) -> Option<Process> {
        if !is_kernel_address(task.mm) {
            return None;
        }
        let pgd = kcore.virt_word(task.mm + self.layout.pgd)?;
        let table = kcore.phys_of(pgd).filter(|table| table % 4096 == 0)?;
        let (pid, start, mm) = (task.pid, task.start, task.mm);
        let process = Process { pid, task: address, start, mm, top_table: table };
        self.is_current(kcore, &process).then_some(process)
    }
}

impl Layout {
    fn read(btf: &Btf) -> Result<Self> {
        let members = ["tasks", "pid", "mm", "start_boottime", "group_leader"];
        let [tasks, pid, mm, start, leader] = btf.offsets("task_struct", members)?;
        let [pgd] = btf.offsets("mm_struct", ["pgd"])?;
        Ok(Self { tasks, pid, mm, start, pgd, leader })
    }

    /// One read that covers all members: they are within one or two kilobytes.
    fn task(&self, kcore: &Kcore, address: u64) -> Option<Task> {
        if !is_kernel_address(address) {
            return None;
        }
        let all = [self.tasks, self.pid, self.mm, self.start];
        let first = all.into_iter().min()?;
        let last = all.into_iter().max()? + 8;
        let mut buf = [0; 8192];
        let buf = buf.get_mut(..usize::try_from(last - first).ok()?)?;
        if !kcore.read_virt(address + first, buf) {
            return None;
        }
        let get =
            |member: u64| word(buf, usize::try_from(member - first).unwrap_or(usize::MAX - 8));
        let next = get(self.tasks);
        let pid = u32::try_from(get(self.pid) & 0xffff_ffff).ok()?;
        is_kernel_address(next).then(|| Task {
            next,
            pid,
            mm: get(self.mm),
            start: get(self.start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcore::tests::{DIRECT, fake};

    const LAYOUT: Layout = Layout { tasks: 16, pid: 32, mm: 40, start: 48, pgd: 8, leader: 0 };

    /// Three tasks of 256 bytes; the memory descriptor of the last is at 0x800, its table at 0x1000.
    fn ram() -> Vec<u8> {
        let mut ram = vec![0; 8192];
        let mut put = |at: u64, value: u64| {
            let at = usize::try_from(at).unwrap_or(0);
            ram[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        };
        for (i, pid) in [0, 7, 9].into_iter().enumerate() {
            let task = 0x100 * i as u64;
            put(task + 16, DIRECT + (task + 0x100) % 0x300 + 16);
            put(task + 32, pid);
            put(task + 48, 1000 + pid);
        }
        put(0x200 + 40, DIRECT + 0x800);
        put(0x800 + 8, DIRECT + 0x1000);
        ram
    }

    fn kernel() -> TaskList {
        TaskList { own_task: DIRECT, layout: LAYOUT, levels: 4, encrypted: 0 }
    }

    #[test]
    fn a_process_is_found_by_its_id() {
        let (_folder, root) = fake(&ram());
        let kcore = Kcore::open(&root).expect("a good core");
        let found = kernel().find(&kcore, 9).expect("it is there");
        assert_eq!((found.pid, found.top_table, found.start), (9, 0x1000, 1009));
        assert!(kernel().is_current(&kcore, &found));
        assert!(!kernel().is_current(&kcore, &Process { start: 1, ..found }));
        assert_eq!(kernel().find(&kcore, 7), None, "a kernel thread has no memory");
        assert_eq!(kernel().find(&kcore, 8), None);
    }

    #[test]
    fn in_another_pid_namespace_numbers_are_not_looked_up() {
        let (folder, root) = fake(&ram());
        let ns = folder.path().join("proc/self/ns");
        std::fs::create_dir_all(&ns).expect("a folder");
        std::os::unix::fs::symlink("pid:[5]", ns.join("pid")).expect("a link");
        let kcore = Kcore::open(&root).expect("a good core");
        let error = TaskList::open(&root, &kcore).map(drop).expect_err("refused");
        assert!(error.to_string().contains("another PID namespace"), "{error}");
    }

    #[test]
    fn a_broken_or_endless_list_ends() {
        let mut broken = ram();
        broken[0x110..0x118].copy_from_slice(&0x41_u64.to_ne_bytes());
        let (_folder, root) = fake(&broken);
        let kcore = Kcore::open(&root).expect("a good core");
        assert_eq!(kernel().find(&kcore, 9), None);
    }
}
