// SPDX-License-Identifier: Apache-2.0
use std::fs;

use super::*;
use crate::cgroup::tests::Fake;
use crate::process::stat::tests::text;

fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = Root::at(dir.path());
    for (path, text) in files {
        let real = root.path(path);
        fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
        fs::write(real, text).expect("a file");
    }
    (dir, root)
}

const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
const NUMAB: &str = "/proc/sys/kernel/numa_balancing";

#[test]
fn the_original_comes_back_in_reverse_order_and_on_drop() {
    let (dir, root) = fake(&[(DEMOTION, "1\n"), (NUMAB, "0\n")]);
    let journal = Journal::open(dir.path().join("run")).expect("a journal");
    journal.set(&root, NUMAB, "2").expect("set");
    journal.set(&root, NUMAB, "3").expect("set");
    journal.clone().set(&root, DEMOTION, "0").expect("set");
    assert_eq!(journal.changes()[0].original, "0");
    assert_eq!(journal.changes()[1].original, "1");
    drop(journal);
    assert_eq!(root.read(NUMAB).expect("read"), "0");
    assert_eq!(root.read(DEMOTION).expect("read"), "1");
    assert_eq!(root.list("/run"), Vec::<String>::new());
}

#[test]
fn a_value_that_another_program_changed_is_left_and_reported() {
    let (dir, root) = fake(&[(NUMAB, "1\n")]);
    let journal = Journal::open(dir.path().join("run")).expect("a journal");
    journal.set(&root, NUMAB, "0").expect("set");
    fs::write(root.path(NUMAB), "2").expect("another program writes it");
    let errors = journal.restore();
    assert!(matches!(&errors[..], [Error::Changed { found, .. }] if found == "2"), "{errors:?}");
    assert_eq!(root.read(NUMAB).expect("read"), "2");
}

#[test]
fn a_setting_that_holds_the_value_is_not_touched_and_a_missing_one_is_an_error() {
    let (dir, root) = fake(&[(NUMAB, "0\n")]);
    let journal = Journal::open(dir.path().join("run")).expect("a journal");
    journal.set(&root, NUMAB, "0").expect("set");
    let missing = "/proc/sys/vm/watermark_scale_factor";
    assert!(journal.set(&root, missing, "1").is_err(), "there is none");
    assert!(journal.set(&root, NUMAB, "9").is_err(), "not a legal value");
    let other = "/proc/sys/vm/overcommit_memory";
    fs::create_dir_all(root.path("/proc/sys/vm")).expect("a folder");
    fs::write(root.path(other), "0").expect("a file");
    assert!(journal.set(&root, other, "1").is_err(), "it could not be restored");
    assert_eq!(root.read(other).expect("read"), "0");
    assert!(journal.changes().is_empty());
}

#[test]
fn a_change_that_could_not_be_recorded_is_not_made_and_the_one_before_it_is_restored() {
    let (dir, root) = fake(&[(NUMAB, "1\n"), (DEMOTION, "1\n")]);
    let journal = Journal::open(dir.path().join("run")).expect("a journal");
    journal.set(&root, NUMAB, "0").expect("set");
    // Nothing can be written to a folder that has been removed.
    fs::remove_dir_all(dir.path().join("run")).expect("removed");
    assert!(journal.set(&root, NUMAB, "2").is_err());
    assert!(journal.set(&root, DEMOTION, "0").is_err());
    assert_eq!(root.read(NUMAB).expect("read"), "0");
    assert_eq!(root.read(DEMOTION).expect("read"), "1");
    assert_eq!(journal.changes().len(), 1);
    drop(journal);
    assert_eq!(root.read(NUMAB).expect("read"), "1");
}

const RATE: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";

fn change(path: &str, original: &str, current: &str) -> ChangedSetting {
    let [path, original, current] = [path, original, current].map(String::from);
    ChangedSetting { path, original, current, previous: None }
}

/// A state folder with the journal of a dead process.
fn left(changes: Vec<ChangedSetting>) -> tempfile::TempDir {
    let run = tempfile::tempdir().expect("a folder");
    leave(run.path(), DEAD, "", changes);
    run
}

/// No process has this number: it is above the most that the kernel gives (`PID_MAX_LIMIT`).
const DEAD: u32 = 4_194_305;

fn leave(run: &Path, pid: u32, namespace: &str, changes: Vec<ChangedSetting>) {
    let namespace = namespace.into();
    let page = JournalFile { pid, start: 7, boot: String::new(), namespace, changes };
    let dir = StateDir::create(run).expect("a folder");
    page.save(&dir, &format!("journal-{pid}")).expect("saved");
}

fn names(run: &Path) -> Vec<String> {
    let dir = StateDir::open(run).expect("ours");
    dir.map(|dir| dir.names().expect("readable")).unwrap_or_default()
}

fn recover(run: &Path, root: &Root) -> (Vec<String>, Vec<String>) {
    let Recovered { lines, errors } = Journal::recover(run, root).expect("a folder of ours");
    (lines, errors.iter().map(ToString::to_string).collect())
}

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A folder in the place of a file cannot be read.
#[test]
fn where_the_boot_cannot_be_read_nothing_is_recovered_and_nothing_is_lost() {
    let (_dir, root) = fake(&[(NUMAB, "2\n")]);
    let run = left(vec![change(NUMAB, "1", "2")]);
    fs::create_dir_all(root.path(BOOT)).expect("a folder");
    let (lines, errors) = recover(run.path(), &root);
    assert!(lines.is_empty() && errors[0].contains("boot_id"), "{errors:?}");
    assert_eq!(root.read(NUMAB).expect("read"), "2");
    assert!(JournalFile::of_this_process(&root).is_err(), "its journal would be of no boot");
    fs::remove_dir(root.path(BOOT)).expect("removed");
    assert_eq!(recover(run.path(), &root).0.len(), 1);
    assert_eq!(root.read(NUMAB).expect("read"), "1");
}

/// A link to itself can neither be read nor looked at.
#[test]
fn a_setting_that_cannot_be_looked_at_stays_in_the_journal() {
    let (_dir, root) = fake(&[(DEMOTION, "0\n")]);
    let run = left(vec![change(NUMAB, "1", "2"), change(DEMOTION, "1", "0")]);
    fs::create_dir_all(root.path(NUMAB).parent().expect("a parent")).expect("a folder");
    std::os::unix::fs::symlink(root.path(NUMAB), root.path(NUMAB)).expect("a link");
    let (lines, errors) = recover(run.path(), &root);
    assert_eq!((lines.len(), errors.len()), (1, 1), "{lines:?} {errors:?}");
    fs::remove_file(root.path(NUMAB)).expect("removed");
    fs::write(root.path(NUMAB), "2\n").expect("a file");
    assert_eq!(recover(run.path(), &root).0.len(), 1);
    assert_eq!(root.read(NUMAB).expect("read"), "1");
}

#[test]
fn a_process_that_cannot_be_read_is_not_taken_for_ended() {
    let (_dir, root) = fake(&[(NUMAB, "2\n")]);
    let run = left(vec![change(NUMAB, "1", "2")]);
    fs::create_dir_all(root.path(format!("/proc/{DEAD}/stat"))).expect("a folder");
    let (lines, errors) = recover(run.path(), &root);
    assert_eq!((lines.len(), errors.len()), (0, 1), "{errors:?}");
    assert_eq!(root.read(NUMAB).expect("read"), "2");
    assert_eq!(Journal::others(run.path(), &root).len(), 1, "it may run");
}

#[test]
fn a_killed_manager_is_cleaned_up_after() {
    let running = text(77, "it", 1, 9, 1, 1);
    let (_dir, root) = fake(&[(NUMAB, "2\n"), (RATE, "100\n"), ("/proc/77/stat", &running)]);
    let run = left(vec![change(NUMAB, "1", "2"), change(RATE, "16", "64")]);
    let run = run.path();
    assert_eq!(Journal::stale(run, &root).len(), 1);
    let (lines, errors) = recover(run, &root);
    assert_eq!(root.read(NUMAB).expect("read"), "1");
    assert_eq!(root.read(RATE).expect("read"), "100", "not ours any more");
    assert_eq!((lines.len(), errors.len()), (2, 0), "{lines:?} {errors:?}");
    fs::write(run.join(format!("journal-{DEAD}.new")), "{ \"pid\": 40").expect("killed writing");
    fs::write(run.join("journal-77.new"), "").expect("alive");
    assert_eq!(recover(run, &root), (vec![], vec![]));
    assert_eq!(names(run), ["journal-77.new"], "the file of the running writer stays");
}

#[test]
fn a_manager_killed_between_the_write_and_its_record_is_cleaned_up_after() {
    let (_dir, root) = fake(&[(DEMOTION, "false\n")]);
    // The kernel shows "false" for the 0 that was written, and the journal still says 0.
    let run = left(vec![change(DEMOTION, "true", "0")]);
    let (lines, errors) = recover(run.path(), &root);
    assert_eq!((lines, errors), (vec![format!("{DEMOTION} = true")], vec![]));
    assert!(root.read(DEMOTION).expect("read").starts_with("true"));
}

/// A setting during whose second change the manager is killed: the kernel still holds the value of the first.
#[test]
fn a_manager_killed_before_a_second_change_of_a_setting_is_cleaned_up_after() {
    struct Killed<'a>(&'a Root, &'a Path, &'a Path);
    impl Access for Killed<'_> {
        fn read(&self) -> Result<String> {
            FileAt { root: self.0, path: NUMAB }.read()
        }
        fn write(&self, _value: &str) -> Result<()> {
            let [page] = &pages(self.1)[..] else { panic!("one journal") };
            leave(self.2, DEAD, "", page.1.changes.clone());
            Ok(())
        }
    }
    let (dir, root) = fake(&[(NUMAB, "0\n")]);
    let run = dir.path().join("run");
    let journal = Journal::open(&run).expect("a journal");
    journal.set(&root, NUMAB, "2").expect("set");
    let left = tempfile::tempdir().expect("a folder");
    journal.lock().set(&root, NUMAB, "3", &Killed(&root, &run, left.path())).expect("killed");
    assert_eq!(recover(left.path(), &root), (vec![format!("{NUMAB} = 0")], vec![]));
    assert!(root.read(NUMAB).expect("read").starts_with('0'));
    assert_eq!(journal.changes()[0].previous, None, "only while it is written");
}

#[test]
fn a_mode_that_the_kernel_must_not_return_from_is_not_set() {
    let (dir, root) = fake(&[(NUMAB, "1\n")]);
    let run = dir.path().join("run");
    let journal = Journal::open(&run).expect("a journal");
    assert!(matches!(journal.set(&root, NUMAB, "2"), Err(Error::Refused { .. })));
    assert!(root.read(NUMAB).expect("read").starts_with('1') && journal.changes().is_empty());
    journal.set(&root, NUMAB, "0").expect("set");
    assert!(journal.set(&root, NUMAB, "2").is_err(), "1 comes back at the end");
    let second = Journal::open(&run).expect("a journal");
    assert!(second.set(&root, NUMAB, "2").is_err(), "the other manager restores 1");
    assert!(journal.restore().is_empty());
    fs::write(root.path(NUMAB), "0").expect("a user writes it");
    second.set(&root, NUMAB, "2").expect("0 comes back");
}

#[test]
fn what_cannot_be_restored_keeps_nothing_else_from_being_restored() {
    let (_dir, root) = fake(&[(NUMAB, "2\n"), (RATE, "64\n")]);
    // The demotion setting is a folder: it can be neither read nor written.
    fs::create_dir_all(root.path(DEMOTION)).expect("a folder");
    let run = left(vec![change(NUMAB, "1", "2"), change(DEMOTION, "1", "0")]);
    leave(run.path(), DEAD + 1, "", vec![change(RATE, "16", "64")]);
    let (lines, errors) = recover(run.path(), &root);
    assert_eq!(lines, [format!("{NUMAB} = 1"), format!("{RATE} = 16")]);
    assert!(errors.len() == 1 && errors[0].contains(DEMOTION), "{errors:?}");
    assert_eq!(names(run.path()), [format!("journal-{DEAD}.json")], "it is tried again");
    fs::remove_dir(root.path(DEMOTION)).expect("empty");
    fs::write(root.path(DEMOTION), "false\n").expect("a file");
    assert_eq!(recover(run.path(), &root), (vec![format!("{DEMOTION} = 1")], vec![]));
    assert!(names(run.path()).is_empty());
}

#[test]
fn a_setting_that_fails_at_the_end_stays_in_the_journal() {
    let (dir, root) = fake(&[(NUMAB, "1\n"), (DEMOTION, "1\n")]);
    let run = dir.path().join("run");
    let journal = Journal::open(&run).expect("a journal");
    journal.set(&root, NUMAB, "0").expect("set");
    journal.set(&root, DEMOTION, "0").expect("set");
    fs::remove_file(root.path(NUMAB)).expect("there");
    fs::create_dir(root.path(NUMAB)).expect("a folder cannot be read");
    assert_eq!(journal.restore().len(), 1);
    drop(journal);
    assert_eq!(names(&run).len(), 1);
}

#[test]
fn a_torn_journal_is_reported_and_kept_aside() {
    let (_dir, root) = fake(&[(NUMAB, "2\n")]);
    let run = left(vec![change(NUMAB, "1", "2")]);
    let file = run.path().join(format!("journal-{DEAD}.json"));
    let whole = fs::read(&file).expect("it");
    for (cut, aside) in [(whole.len() / 2, ".torn"), (0, ".torn-1")] {
        fs::write(&file, &whole[..cut]).expect("cut off");
        let (lines, errors) = recover(run.path(), &root);
        assert!(lines.is_empty() && errors.len() == 1, "{lines:?} {errors:?}");
        assert!(errors[0].contains("cut off") && errors[0].ends_with(aside), "{errors:?}");
        assert_eq!(recover(run.path(), &root), (vec![], vec![]), "once");
    }
    assert_eq!(root.read(NUMAB).expect("read"), "2");
    assert_eq!(names(run.path()).len(), 2);
}

#[test]
fn a_forged_journal_writes_nothing_but_settings() {
    let (dir, root) = fake(&[(NUMAB, "2\n"), ("/etc/passwd", "root:x")]);
    fs::create_dir_all(root.path("/proc/self")).expect("a folder");
    std::os::unix::fs::symlink(dir.path(), root.path("/proc/self/root")).expect("a link");
    let through = "/proc/self/root/etc/passwd";
    let run = left(vec![
        change(NUMAB, "1", "2"),
        change(NUMAB, "1\n2", "2"),
        change(through, "forged", "root:x"),
        change("/etc/passwd", "forged", "root:x"),
        change("/proc/sys/kernel/core_pattern", "|/tmp/x", ""),
    ]);
    let (lines, errors) = recover(run.path(), &root);
    assert_eq!((lines.len(), errors.len()), (1, 4), "{lines:?} {errors:?}");
    assert_eq!(root.read("/etc/passwd").expect("read"), "root:x");
    assert_eq!(root.read(NUMAB).expect("read"), "1");
    let forged = left(vec![change(NUMAB, "2", "1")]);
    fs::set_permissions(forged.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("ours");
    assert!(Journal::recover(forged.path(), &root).is_err(), "anybody may have written it");
    assert_eq!(root.read(NUMAB).expect("read"), "1");
}

#[test]
fn a_manager_of_another_pid_namespace_is_left_alone_until_its_namespace_has_ended() {
    let first = "pid:[4026531836]";
    let (dir, root) = fake(&[(NUMAB, "2\n")]);
    let within = |process: &str, namespace: &str| {
        let folder = dir.path().join("proc").join(process).join("ns");
        fs::create_dir_all(&folder).expect("a folder");
        std::os::unix::fs::symlink(namespace, folder.join("pid")).expect("a link");
    };
    within("self", first);
    within("1", first);
    within("60", "pid:[5]");
    let run = tempfile::tempdir().expect("a folder");
    leave(run.path(), DEAD, "pid:[5]", vec![change(NUMAB, "1", "2")]);
    let (lines, errors) = recover(run.path(), &root);
    assert!(lines.is_empty() && errors[0].contains("another PID namespace"), "{errors:?}");
    assert_eq!(root.read(NUMAB).expect("read"), "2");
    assert!(Journal::stale(run.path(), &root).is_empty());
    let others = Journal::others(run.path(), &root);
    assert!(others.len() == 1 && others[0].elsewhere, "{others:?}");
    fs::remove_dir_all(dir.path().join("proc/60")).expect("the container ends");
    assert_eq!(recover(run.path(), &root), (vec![format!("{NUMAB} = 1")], vec![]));
}

#[test]
fn a_live_journal_is_not_recovered() {
    let dir = tempfile::tempdir().expect("a folder");
    let _journal = Journal::open(dir.path()).expect("a journal");
    let second = Journal::open(dir.path()).expect("a second one");
    drop(second);
    assert_eq!(recover(dir.path(), &Root::default()), (vec![], vec![]));
    assert_eq!(names(dir.path()).len(), 1);
}

const MAX: &str = "/sys/fs/cgroup/a.service/cpu.max";

/// A group with a limit, its limit lowered to half a core in a journal of a dead process.
fn throttled(original: &str, path: &str) -> (Fake, tempfile::TempDir) {
    let fake = Fake::new();
    fake.group("a.service", &[]);
    fake.put(MAX, "50000 100000\n");
    let run = left(vec![change(path, original, "50000 100000")]);
    (fake, run)
}

#[test]
fn the_cpu_time_of_a_group_is_limited_and_put_back() {
    let fake = Fake::new();
    fake.group("a.service", &[]);
    fake.put(MAX, "80000 100000\n");
    let run = tempfile::tempdir().expect("a folder");
    let journal = Journal::open(run.path()).expect("a journal");
    let group = Cgroup::open(&fake.root, "a.service").expect("a group");
    let set = |max: &str| {
        journal.set_cpu_max(&fake.root, &group, max.parse().expect(max)).expect("set");
        fake.root.read(MAX).expect("readable")
    };
    assert_eq!(set("50000 100000"), "50000 100000");
    assert_eq!(set("20000 100000"), "20000 100000");
    assert_eq!(journal.original(&fake.root, MAX).as_deref(), Some("80000 100000"));
    journal.put_back(&fake.root, MAX).expect("restored");
    assert_eq!(fake.root.read(MAX).expect("readable"), "80000 100000");
    assert!(journal.changes().is_empty());
    set("50000 100000");
    drop(journal);
    assert_eq!(fake.root.read(MAX).expect("readable"), "80000 100000");
}

#[test]
fn a_unit_of_systemd_is_limited_by_its_property() {
    let fake = Fake::new();
    fake.group("a.service", &[]);
    fake.put(MAX, "max 100000\n");
    crate::systemd::tests::install(&fake, "/a.service");
    let run = tempfile::tempdir().expect("a folder");
    let journal = Journal::open(run.path()).expect("a journal");
    let group = Cgroup::open(&fake.root, "a.service").expect("a group");
    journal.set_cpu_max(&fake.root, &group, "50000 100000".parse().expect("legal")).expect("set");
    assert_eq!(fake.root.read(MAX).expect("readable"), "50000 100000");
    drop(journal);
    assert_eq!(fake.root.read(MAX).expect("readable"), "max 100000");
    let words = fake.root.read("/words").expect("called");
    assert_eq!(words.lines().count(), 2, "{words}");
}

#[test]
fn limits_of_cpu_time_are_recovered_and_nothing_else_of_a_cgroup() {
    let (fake, run) = throttled("max 100000", MAX);
    assert_eq!(recover(run.path(), &fake.root).0, [format!("{MAX} = max 100000")]);
    let text = fake.root.read(MAX).expect("readable");
    assert_eq!(text.lines().next(), Some("max 100000"), "a plain file keeps what is longer");
    for (original, path) in [
        ("rubbish", MAX),
        ("max 5", MAX),
        ("max 100000", "/sys/fs/cgroup/a.service/cgroup.procs"),
        ("max 100000", "/sys/fs/cgroup/a.service/../a.service/cpu.max"),
        ("max 100000", "/sys/fs/cgroup/cpu.max"),
    ] {
        let (fake, run) = throttled(original, path);
        let (lines, errors) = recover(run.path(), &fake.root);
        assert_eq!((lines.len(), errors.len()), (0, 1), "{original} {path}");
        assert_eq!(fake.root.read(MAX).expect("readable"), "50000 100000", "{original} {path}");
    }
}
