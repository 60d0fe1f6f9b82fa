// SPDX-License-Identifier: Apache-2.0
//! The control group of a unit of systemd, found by its name.

use super::Hierarchy;
use crate::error::{Error, Result};
use crate::process::rule::unit_of;
use crate::root::Root;

/// Slices within slices; systemd names them `a.slice/a-b.slice/a-b-c.slice`.
const DEEPEST: usize = 8;

/// The control group of a service or scope, relative to the mount point; `None` if the unit does not run.
///
/// # Errors
/// `Error::Missing` without cgroup v2; `Error::Input` if it is no name of a service or scope.
pub fn of_unit(root: &Root, unit: &str) -> Result<Option<String>> {
    if unit.contains('/') || unit_of(unit).is_none() {
        let why = "expected a service or a scope, as in redis.service".into();
        return Err(Error::Input { what: "unit", found: unit.into(), why });
    }
    let mount = Hierarchy::find(root)?.mount;
    Ok(find(root, &mount, unit, 0).map(|found| found[mount.len()..].trim_start_matches('/').into()))
}

/// Looks in slices alone: what is below a service was named by the service.
fn find(root: &Root, folder: &str, unit: &str, depth: usize) -> Option<String> {
    let own = format!("{folder}/{unit}");
    if root.exists(format!("{own}/cgroup.procs")) {
        return Some(own);
    }
    let names = if depth < DEEPEST { root.list(folder) } else { Vec::new() };
    let mut slices = names.iter().filter(|name| name.ends_with(".slice"));
    slices.find_map(|slice| find(root, &format!("{folder}/{slice}"), unit, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fake;
    use super::*;

    #[test]
    fn a_unit_is_found_in_slices_and_nowhere_else() {
        let fake = Fake::new();
        fake.group("system.slice/system-db.slice/db@1.service", &[]);
        fake.group("user.slice/user-1.slice/user@1.service/app.slice/redis.service", &[]);
        fake.group("system.slice/x.service/redis.service", &[]);
        let of = |unit: &str| of_unit(&fake.root, unit);
        let db = of("db@1.service").expect("cgroups");
        assert_eq!(db.as_deref(), Some("system.slice/system-db.slice/db@1.service"));
        assert_eq!(of("redis.service").expect("cgroups"), None);
        for wrong in ["redis", "../x.service", ""] {
            assert!(of(wrong).is_err_and(|error| error.to_string().contains("redis.service")));
        }
    }
}
