// SPDX-License-Identifier: Apache-2.0
//! Policies: which pages should move, and why. A policy never performs a move. This file is their list, the one place
//! that knows them by name; [`interface`] is what a policy implements.

pub mod alto;
pub mod entry;
pub mod goal;
pub mod interface;
pub mod parts;
pub mod plan;
pub mod tmo;
pub mod view;

use self::alto::Alto;
use self::entry::{PolicyEntry, Role};
use self::goal::balance::Balance;
use self::goal::pack::Pack;
pub use self::interface::{HeatEstimate, MissingCapability, Policy, Wants, check_capabilities};
use self::tmo::Tmo;

/// The head of Colloid's file, for policies with that goal.
const COLLOID: &str = include_str!("goal/balance.rs");
/// The head of Alto's file, for policies below it.
const ALTO: &str = include_str!("alto.rs");
/// The head of TMO's file, for policies below it.
const TMO: &str = include_str!("tmo.rs");

/// Declares the modules and the list of policies: one line for a file, with its policies. Each has a role, a name, what it
/// is combined with, and how it is made. rustfmt does not follow it, so `./test` formats these files separately.
macro_rules! policies {
    (@goal) => { None };
    (@goal $goal:ident) => { Some($goal) };
    ($($file:ident: $($role:ident $name:literal $(+ $goal:ident)? = $make:expr),+;)*) => {
        $(pub mod $file;)*

        /// All policies; the first is the default. Help, documents, tests, the matrix and the tuner use this list.
        pub const POLICIES: &[PolicyEntry] = &[$($(PolicyEntry {
            name: $name,
            doc: include_str!(concat!(stringify!($file), ".rs")),
            goal: policies!(@goal $($goal)?),
            role: Role::$role,
            make: || Box::new($make),
        },)+)*];
    };
}

policies! {
    tierline: Rival "tierline" = tierline::Tierline::default(),
        Other "tierline+tmo" + TMO = Tmo::over("tierline+tmo", Box::<tierline::Tierline>::default());
    hemem: Rival "hemem" = hemem::Hemem::new("hemem", Box::new(Pack)),
        Rival "hemem+colloid" + COLLOID = hemem::Hemem::new("hemem+colloid", Box::<Balance>::default()),
        Other "hemem+alto" + ALTO = Alto::over("hemem+alto", Box::new(hemem::Hemem::new("hemem", Box::new(Pack))));
    memtis: Rival "memtis" = memtis::Memtis::new("memtis", Box::new(Pack)),
        Rival "memtis+colloid" + COLLOID = memtis::Memtis::new("memtis+colloid", Box::<Balance>::default());
    arms: Rival "arms" = arms::Arms::default();
    neomem: Rival "neomem" = neomem::neomem("neomem");
    hybridtier: Rival "hybridtier" = hybridtier::Hybridtier::default();
    pact: Rival "pact" = pact::pact("pact");
    tpp: Rival "tpp" = tpp::tpp("tpp", Box::new(Pack)),
        Rival "tpp+colloid" + COLLOID = tpp::tpp("tpp+colloid", Box::<Balance>::default()),
        Rival "tpp+alto" + ALTO = Alto::over("tpp+alto", Box::new(tpp::tpp("tpp", Box::new(Pack)))),
        Other "tpp+tmo" + TMO = Tmo::over("tpp+tmo", Box::new(tpp::tpp("tpp", Box::new(Pack))));
    linux: Rival "linux" = linux::linux("linux", Box::new(Pack)),
        Rival "linux+colloid" + COLLOID = linux::linux("linux+colloid", Box::<Balance>::default()),
        Other "linux+alto" + ALTO = Alto::over("linux+alto", Box::new(linux::linux("linux", Box::new(Pack)))),
        Other "linux+tmo" + TMO = Tmo::over("linux+tmo", Box::new(linux::linux("linux", Box::new(Pack))));
    autonuma: Rival "autonuma" = autonuma::autonuma("autonuma");
    autotiering: Rival "autotiering" = autotiering::Autotiering::default();
    damon: Rival "damon" = damon::Damon::default();
    bound: Reference "bound" = bound::Bound::of_placement(),
        Reference "bound+moves" = bound::Bound::of_moves();
    oracle: Reference "oracle" = oracle::Oracle::default();
    first_touch: Rival "first-touch" = first_touch::FirstTouch,
        Other "first-touch+tmo" + TMO = Tmo::over("first-touch+tmo", Box::new(first_touch::FirstTouch));
    kernel: Other "kernel" = kernel::KernelKnobs::default();
    paging: Other "paging" = paging::paging(),
        Other "paging+tmo" + TMO = Tmo::over_paging("paging+tmo", Box::new(paging::paging()));
    fixed: Baseline "fixed" = fixed::Fixed::default();
    hold: Baseline "hold" = hold::Hold;
}

impl PolicyEntry {
    /// The policy of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|entry| entry.name == name)
    }
}
