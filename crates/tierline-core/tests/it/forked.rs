// SPDX-License-Identifier: Apache-2.0
//! A parent and its forked child under every policy: they share all pages, and each accesses its own half of them.

use tierline_core::engine::Engine;
use tierline_core::policy::entry::PolicyEntry;
use tierline_core::port::{
    Observations, Order, Outcome, Question, Region, Sample, SpaceEvent, SpaceId, Telemetry,
    TrueRate, World,
};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use crate::contract::{self, RATE, policies, skewed};
use crate::toy::{SPACE, Toy, machine, pass_on_to_toy};

const CHILD: SpaceId = SpaceId(SPACE.0 + 1);

/// What is known of the child.
#[derive(Clone, Copy, PartialEq)]
enum Child {
    Unmanaged,
    Managed,
    /// Its pages are reported as its parent's.
    Represented,
}

/// The toy's pages in two spaces. Accesses to pages at even addresses are the child's.
struct Forked {
    toy: Toy,
    child: Child,
}

impl Forked {
    /// The space whose accesses to this page these are, if that is managed.
    fn accessor(&self, vpn: u64) -> Option<SpaceId> {
        match self.child {
            Child::Managed if vpn.is_multiple_of(2) => Some(CHILD),
            Child::Unmanaged if vpn.is_multiple_of(2) => None,
            _ => Some(SPACE),
        }
    }

    fn fast_share_of(&self, remainder: usize) -> f64 {
        let pages = || self.toy.rates.iter().zip(&self.toy.place).skip(remainder).step_by(2);
        let fast = pages().filter(|(_, place)| **place == Some(TierId::FAST));
        fast.map(|(rate, _)| rate).sum::<f64>() / pages().map(|(rate, _)| rate).sum::<f64>()
    }
}

impl World for Forked {
    pass_on_to_toy!();

    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        self.toy.observe(now, out);
        if self.child != Child::Unmanaged {
            let mapped = out.space_events.clone().into_iter().filter_map(|event| match event {
                SpaceEvent::Mapped(region) => {
                    Some(SpaceEvent::Mapped(Region { space: CHILD, ..region }))
                }
                _ => None,
            });
            out.space_events.extend(mapped.collect::<Vec<_>>());
        }
        if self.child == Child::Represented {
            out.space_events.push(SpaceEvent::Represents(SPACE, true));
        }
        if self.child == Child::Managed {
            let found = out.residence.clone().into_iter();
            out.residence.extend(found.map(|mut at| {
                at.space = CHILD;
                at
            }));
        }
        let found = std::mem::take(&mut out.samples).into_iter();
        let of = |sample: Sample| Some(Sample { space: self.accessor(sample.vpn.0)?, ..sample });
        out.samples.extend(found.filter_map(of));
        let rates = std::mem::take(&mut out.true_rates).into_iter();
        let of = |rate: TrueRate| Some(TrueRate { space: self.accessor(rate.vpn.0)?, ..rate });
        out.true_rates.extend(rates.filter_map(of));
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        self.toy.measure(now)
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent = Nanos::ZERO;
        for order in orders {
            match *order {
                Order::Move(_) => out.push(Outcome::Shared),
                Order::MoveShared(mut m) => {
                    m.space = SPACE;
                    spent += self.toy.act(now, &[Order::MoveShared(m)], out);
                }
                Order::PageOut(_) | Order::Split(_) => out.push(Outcome::Refused),
            }
        }
        spent
    }

    fn check_accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        for question in questions {
            let is_own = self.accessor(question.vpn.0) == Some(question.space);
            let inner = Question { space: SPACE, ..*question };
            self.toy.check_accessed(now, &[inner], out);
            if let Some(last) = out.last_mut() {
                *last &= is_own;
            }
        }
    }
}

/// Fast memory is full of pages that happen to be first.
fn toy() -> Toy {
    let mut toy = Toy::new(machine(&[600, 8_000]), skewed(4_000, 100.0, 1.0, 3), 3);
    toy.place[..600].fill(Some(TierId::FAST));
    toy
}

fn run(entry: &PolicyEntry, world: &mut dyn World) -> Engine {
    let policy = (entry.make)();
    if let Some(tracking) = policy.wants().tracking {
        world.configure_tracking(tracking);
    }
    let mut engine = Engine::new(machine(&[600, 8_000]), Limits::default(), policy, RATE);
    contract::run(&mut engine, world, 0, 200);
    engine
}

/// Each needs the room of what the other never accesses, and the child's pages look cold in the parent.
#[test]
fn shared_pages_are_placed_by_what_all_processes_access() {
    for entry in policies() {
        let (mut one, mut world) = (toy(), Forked { toy: toy(), child: Child::Managed });
        run(entry, &mut one);
        let engine = run(entry, &mut world);
        let (one, two) = (one.fast_share(), world.toy.fast_share());
        assert!(two >= 0.5 * one, "{}: {two}, as one process {one}", entry.name);
        if entry.name == "tierline" {
            let of_each = [0, 1].map(|half| world.fast_share_of(half));
            assert!(of_each.iter().all(|share| *share > 0.9 * one), "{of_each:?}, {one}");
            assert_eq!(engine.migrator().counts.ping_pong_pages, 0);
        }
    }
}

#[test]
fn pages_shared_with_a_process_that_is_not_managed_stay() {
    for entry in policies() {
        let mut world = Forked { toy: toy(), child: Child::Unmanaged };
        run(entry, &mut world);
        assert_eq!(world.toy.asked, [], "{}", entry.name);
    }
}

/// Then they are placed as those of one process, and no order fails first.
#[test]
fn pages_reported_for_all_processes_move_for_all_at_once() {
    for entry in policies() {
        let mut one = toy();
        run(entry, &mut one);
        let mut world = Forked { toy: toy(), child: Child::Represented };
        let engine = run(entry, &mut world);
        assert_eq!(world.toy.fast_share(), one.fast_share(), "{}", entry.name);
        assert_eq!(engine.migrator().counts.failed.get("shared"), None, "{}", entry.name);
    }
}
