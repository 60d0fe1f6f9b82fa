// SPDX-License-Identifier: Apache-2.0
//! Workloads: programs as distributions of accesses, with the parallelism of their cores.

pub mod knob;
pub mod list;
pub mod order;
pub mod pattern;
pub mod places;
pub mod program;
pub mod replay;

pub use order::Order;
pub use pattern::{Band, Census, Pattern};
pub use program::{Change, Layout, Phase, Placement, Program, Reach};

use list::WorkloadEntry;

/// Declares the modules and the list of workloads, one line each. rustfmt does not follow it, so `./test`
/// formats each file separately.
macro_rules! workloads {
    ($($name:ident: $knobs:ident,)*) => {
        $(pub mod $name;)*

        /// All workloads; the first is the default. Help, documents, scenarios and tests use this list.
        pub const WORKLOADS: &[WorkloadEntry] = &[$(WorkloadEntry {
            name: stringify!($name),
            doc: include_str!(concat!(stringify!($name), ".rs")),
            knobs: <$name::$knobs as knob::ProgramKnobs>::table,
            make: |place, values| knob::make(place, values, $name::$knobs::program),
        },)*];
    };
}

workloads! {
    gups: Gups,
    kv: Kv,
    service: Service,
    scan: Scan,
    xsbench: XsBench,
    graph: Graph,
    pagerank: PageRank,
    liblinear: Liblinear,
    latest: Latest,
    datacenter: Datacenter,
    antagonist: Antagonist,
}
