// SPDX-License-Identifier: Apache-2.0

use super::*;

/// Settings with windows too long for waiting in place: arming and reading are two steps.
pub fn apart() -> WindowSettings {
    let window = Nanos::from_millis(60);
    WindowSettings { window, shortest: window, ..with_credit() }
}

/// Settings with the credit that is counted with here.
fn with_credit() -> WindowSettings {
    let (credit, kept) = (Nanos::from_millis(1_500), Nanos::from_millis(500));
    WindowSettings { credit, kept, ..WindowSettings::default() }
}

#[test]
fn the_window_follows_the_share_accessed_and_keeps_its_bounds() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let adapt = |pace: &mut WindowPace, present, accessed| {
        let seen = ReadCounts { present, accessed, ..ReadCounts::default() };
        pace.adapt(seen, seen, Bytes::from_base_pages(200));
    };
    adapt(&mut pace, 1000, 300);
    assert_eq!(pace.window(), Nanos::from_millis(10), "more than fits in the fast tier: shorter");
    adapt(&mut pace, 1000, 100);
    assert_eq!(
        pace.window(),
        Nanos::from_millis(10),
        "between a quarter and all of the limit: unchanged"
    );
    adapt(&mut pace, 1000, 20);
    assert_eq!(pace.window(), Nanos::from_millis(50), "in it, at most half of the limit");
    (0..20).for_each(|_| adapt(&mut pace, 1000, 0));
    assert_eq!(pace.window(), Nanos::from_secs(1));
    (0..20).for_each(|_| adapt(&mut pace, 1000, 900));
    assert_eq!(pace.window(), Nanos::from_millis(1));
    adapt(&mut pace, 0, 0);
    assert_eq!(pace.window(), Nanos::from_millis(1), "no pages give no information");
}

/// A shell waits with 400 pages, then its program fills memory, then few pages are accessed.
#[test]
fn windows_are_short_while_memory_is_filled() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut look = |present, accessed| {
        let seen = ReadCounts { present, accessed, ..ReadCounts::default() };
        pace.adapt(seen, seen, Bytes::from_base_pages(100_000));
        pace.pause(Nanos::ZERO, Cost::default(), Nanos::ZERO, present);
        pace.window().0 / 1_000_000
    };
    for _ in 0..10 {
        look(400, 0);
    }
    assert_eq!(look(400, 0), 1_000);
    assert_eq!([look(50_000, 3_000), look(100_000, 3_000), look(150_000, 90_000)], [20, 20, 10]);
    assert_eq!([look(150_000, 100), look(150_000, 100)], [80, 640]);
}

/// Of 100 pages that the last window found, the next finds 40, then 80.
#[test]
fn a_window_becomes_longer_if_the_next_one_finds_other_pages() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut look = |again| {
        let repeated = Repeated { before: 100, again };
        let seen = ReadCounts { present: 1000, accessed: 100, repeated, ..ReadCounts::default() };
        pace.adapt(seen, seen, Bytes::from_base_pages(1000));
        pace.window()
    };
    let millis = Nanos::from_millis;
    assert_eq!([look(80), look(40), look(80)], [millis(20), millis(25), millis(25)]);
}

/// Of 100 pages that each window finds 80 are found again. It becomes longer three windows after the last promotions.
#[test]
fn a_window_does_not_become_longer_while_what_it_finds_is_promoted() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut look = |promoted| {
        let repeated = Repeated { before: 100, again: 80 };
        let seen = ReadCounts { present: 10_000, accessed: 100, repeated, ..ReadCounts::default() };
        pace.record_promotions(promoted);
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.window().0 / 1_000_000
    };
    assert_eq!([look(0), look(0), look(100), look(0), look(0)], [20; 5]);
    assert_eq!([look(0), look(0), look(0)], [160; 3]);
}

/// Adds a window of 10,000 pages, of which four of five that were found before are found again. Whether it shows a pause.
fn shows_pause(pace: &mut WindowPace, before: &mut u64, accessed: u64, fast: u64) -> bool {
    let repeated = Repeated { before: *before, again: accessed.min(*before) * 4 / 5 };
    let seen = ReadCounts { present: 10_000, accessed, repeated, ..ReadCounts::default() };
    *before = accessed;
    let is_pause = pace.shows_pause(seen);
    if !is_pause {
        pace.adapt(seen, seen, Bytes::from_base_pages(fast));
    }
    is_pause
}

/// The program stops for a moment, then for longer: what it finds when it goes on decides.
#[test]
fn a_pause_of_the_program_makes_no_window_longer() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut before = 0;
    let mut look = |accessed| {
        let is_pause = shows_pause(&mut pace, &mut before, accessed, 10_000);
        (is_pause, pace.window().0 / 1_000_000)
    };
    assert_eq!([look(1_000), look(100), look(1_000)], [(false, 20), (true, 20), (false, 20)]);
    assert_eq!([look(60), look(60), look(60)], [(true, 20), (false, 160), (false, 1_000)]);
    assert_eq!(look(1_500), (false, 20), "it goes on");
}

/// Once, nearly all memory is accessed.
#[test]
fn what_is_usual_after_a_burst_is_no_pause() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut before = 0;
    let mut is_pause = |accessed| shows_pause(&mut pace, &mut before, accessed, 100_000);
    assert_eq!([1_000, 1_000, 9_000, 1_000, 1_000].map(&mut is_pause), [false; 5]);
    assert!(is_pause(100));
}

/// The program has the CPU in every other window of 1 ms.
#[test]
fn pauses_of_the_program_keep_no_window_short() {
    let window = Nanos::from_millis(1);
    let mut pace = WindowPace::new(WindowSettings { window, ..WindowSettings::default() });
    for _ in 0..3 {
        let repeated = Repeated { before: 400, again: 2 };
        let paused = ReadCounts { present: 10_000, accessed: 20, repeated, ..Default::default() };
        assert!(pace.shows_pause(paused));
        let repeated = Repeated { before: 20, again: 1 };
        let runs = ReadCounts { accessed: 400, repeated, ..paused };
        pace.adapt(runs, runs, Bytes::from_base_pages(10_000));
    }
    assert!(pace.window() >= window * 3, "{:?}: it finds 4 % of the pages", pace.window());
}

/// Of the pages of a window of 20 ms 80 % are found again, of one of 160 ms 60 to 70 %. An alarm permits another try.
#[test]
fn a_longer_window_that_separates_less_is_given_up_until_something_changes() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let look = |pace: &mut WindowPace, again| {
        let repeated = Repeated { before: 100, again };
        let (accessed, slow_accessed, slow_again) = (100, 100, again);
        let seen = ReadCounts {
            present: 10_000,
            accessed,
            repeated,
            slow_accessed,
            slow_again,
            ..ReadCounts::default()
        };
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.window().0 / 1_000_000
    };
    let windows = |pace: &mut WindowPace, again: &[u64]| -> Vec<u64> {
        again.iter().map(|again| look(pace, *again)).collect()
    };
    assert_eq!(windows(&mut pace, &[80, 80, 80]), [20, 20, 160]);
    assert_eq!(windows(&mut pace, &[90, 70, 62, 70]), [160, 160, 20, 20]);
    assert_eq!(windows(&mut pace, &[80; 9]), [20; 9]);
    pace.set_attention(Attention::Calm);
    pace.set_attention(Attention::Alert);
    assert_eq!(windows(&mut pace, &[80]), [160], "it is tried again");
    pace.set_attention(Attention::Alert);
    assert_eq!(pace.window().0, 20_000_000, "a change is observed with the best window");
}

/// Of 10,000 pages 500 are accessed, and 80 % again, most of them in fast memory; in slow memory 30 or 15 of 100.
#[test]
fn a_window_becomes_longer_for_hot_pages_of_slow_memory() {
    let window = |slow_again, slow_accessed| {
        let mut pace = WindowPace::new(WindowSettings::default());
        let repeated = Repeated { before: 500, again: 400 };
        let (present, accessed) = (10_000, 500);
        let rest = ReadCounts::default();
        let seen = ReadCounts { present, accessed, repeated, slow_accessed, slow_again, ..rest };
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        assert_eq!(pace.window(), WindowSettings::default().window, "one may be by chance");
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.window().0 / 1_000_000
    };
    assert_eq!(window(30, 100), 50, "until an eighth of the pages are accessed");
    assert_eq!(window(15, 100), 20, "three times as often as any page");
    assert_eq!(window(70, 100), 20, "it finds them each time");
    assert_eq!(window(15, 50), 20, "too few to tell");
}

/// Of 10,000 pages 100 are accessed: those of fast memory again and again, in the shortest windows, too.
#[test]
fn a_window_that_shows_no_pages_of_slow_memory_is_not_the_best() {
    let settings = WindowSettings { window: Nanos::from_millis(2), ..WindowSettings::default() };
    let look = |pace: &mut WindowPace, again, slow_accessed| {
        let repeated = Repeated { before: 100, again };
        let (present, accessed, slow_again) = (10_000, 100, slow_accessed);
        let rest = ReadCounts::default();
        let seen = ReadCounts { present, accessed, repeated, slow_accessed, slow_again, ..rest };
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.window().0 / 1_000_000
    };
    let mut pace = WindowPace::new(settings);
    assert_eq!([90, 90, 90].map(|again| look(&mut pace, again, 10)), [2, 2, 16]);
    assert_eq!([70, 70, 70].map(|again| look(&mut pace, again, 80)), [16, 16, 128]);
}

/// Windows of 2 ms separate best while the program has 10,000 pages. Then it has 11,000.
#[test]
fn what_was_best_for_less_memory_is_forgotten() {
    let settings = WindowSettings { window: Nanos::from_millis(2), ..WindowSettings::default() };
    let mut pace = WindowPace::new(settings);
    let mut look = |present| {
        let repeated = Repeated { before: 100, again: 80 };
        let (accessed, slow_accessed, slow_again) = (100, 100, 80);
        let rest = ReadCounts::default();
        let seen = ReadCounts { present, accessed, repeated, slow_accessed, slow_again, ..rest };
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.pause(Nanos::ZERO, Cost::default(), Nanos::ZERO, present);
        pace.best.is_some()
    };
    assert_eq!([look(10_000), look(10_000), look(11_000)], [false, true, false]);
}

/// Windows of 20 ms find 80 % again. When something changes, one of them finds other pages.
#[test]
fn one_window_that_finds_other_pages_does_not_make_it_longer() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let mut look = |again| {
        let repeated = Repeated { before: 100, again };
        let (present, accessed, slow_accessed, slow_again) = (1_000, 100, 100, again);
        let rest = ReadCounts::default();
        let seen = ReadCounts { present, accessed, repeated, slow_accessed, slow_again, ..rest };
        pace.adapt(seen, seen, Bytes::from_base_pages(1_000));
        pace.window().0 / 1_000_000
    };
    assert_eq!([look(80), look(80), look(50), look(80)], [20; 4]);
    assert_eq!([look(50), look(50)], [20, 25], "twice");
}

/// 200,000 pages at 50,000 a second, 0.5 us of CPU time a page. Windows at 1.5 times the memory, and at the latest when
/// the budget has earned the one before: the last three take 100, 67 and 44 ms at most.
#[test]
fn filling_memory_costs_a_small_part_of_the_credit() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let (mut now, mut windows) = (Nanos::ZERO, 0);
    while now < Nanos::from_secs(4) {
        let present = now.0 / 20_000 + 100;
        let cost = Cost { cpu: Nanos(present * 500), wall: Nanos(present * 500) };
        let seen = ReadCounts { present, accessed: 50, ..ReadCounts::default() };
        pace.adapt(seen, seen, Bytes::from_base_pages(100_000));
        let pause = pace.pause(now, cost, Nanos::ZERO, present);
        now += pause.max(Nanos::from_millis(20)) + pace.window() + cost.wall;
        windows += 1;
    }
    assert!((8..20).contains(&windows), "{windows} windows");
    assert!(pace.credit > 2.8, "{} s of credit left", pace.credit);
}

/// A program of 1000 base pages, 3 of them accessed, and 100,000 in huge pages.
#[test]
fn the_window_of_huge_pages_is_their_own_and_never_the_longer_one() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let fast = Bytes::from_base_pages(60_000);
    let seen = |huge_accessed| ReadCounts {
        present: 101_000,
        accessed: 3 + huge_accessed,
        huge_present: 100_000,
        huge_accessed,
        ..ReadCounts::default()
    };
    let huge = |pace: &WindowPace| pace.huge_window().map(|window| window.0 / 1_000);
    assert_eq!(huge(&pace), Some(200));
    assert!(pace.shorten_huge(seen(100_000), fast), "saturated");
    assert_eq!(huge(&pace), Some(25));
    assert!(pace.shorten_huge(seen(30_000), fast), "more than a quarter");
    assert_eq!(huge(&pace), Some(20), "the shortest");
    assert!(!pace.shorten_huge(seen(100_000), fast), "there is no shorter one");
    pace.adapt(seen(100_000), seen(20_000), fast);
    assert_eq!((pace.window(), huge(&pace)), (Nanos::from_millis(10), Some(20)));
    (0..4).for_each(|_| pace.adapt(seen(10_000), seen(1_000), fast));
    assert_eq!((pace.window(), huge(&pace)), (Nanos::from_millis(10), Some(320)));
    (0..20).for_each(|_| pace.adapt(seen(0), seen(0), fast));
    assert_eq!((pace.window(), huge(&pace)), (Nanos::from_secs(1), None), "idle");
}

/// Half of the memory is huge pages, all accessed, and no base page is.
#[test]
fn huge_pages_do_not_shorten_the_window_of_base_pages() {
    let mut pace = WindowPace::new(WindowSettings::default());
    let (present, huge_present) = (2_000, 1_000);
    let [long, own] = [1_000, 200].map(|huge_accessed| {
        let accessed = huge_accessed;
        ReadCounts { present, accessed, huge_present, huge_accessed, ..ReadCounts::default() }
    });
    (0..9).for_each(|_| pace.adapt(long, own, Bytes::from_base_pages(1_000)));
    assert_eq!(pace.window(), WindowSettings::default().window);
}

/// Of 10,000 pages 9 are accessed, then 900.
#[test]
fn an_idle_program_is_worth_a_quarter_of_the_budget_of_calm() {
    let mut pace = WindowPace::new(WindowSettings::default());
    pace.set_attention(Attention::Calm);
    let mut earned = |accessed| {
        let seen = ReadCounts { present: 10_000, accessed, ..ReadCounts::default() };
        pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
        pace.earned(0.1).0 / 1_000_000_000
    };
    assert_eq!([earned(9), earned(900)], [40, 10]);
}

#[test]
fn the_pause_pays_for_the_scan() {
    let mut pace = WindowPace::new(with_credit());
    let cost = |ms| Cost { cpu: Nanos::from_millis(ms), wall: Nanos::ZERO };
    let (now, hold) = (Nanos::from_secs(1), Nanos::from_millis(10));
    pace.present = 1_000;
    let pause = |pace: &mut WindowPace, now, ms, hold| {
        (pace.pause(now, cost(ms), hold, 1_000).as_secs_f64() * 1e3).round()
    };
    assert_eq!(pause(&mut pace, now, 1_400, hold), 0.0, "on credit");
    assert_eq!(pause(&mut pace, now, 200, hold), 2_000.0, "100 ms are owed");
    assert_eq!(pause(&mut pace, now, 0, Nanos::from_millis(100)), 4_000.0);
    let later = Nanos::from_secs(100);
    assert_eq!(pause(&mut pace, later, 1, hold), 0.0, "the elapsed time has paid");
    pace.set_attention(Attention::Calm);
    let calm: Vec<f64> = (0..4).map(|_| pause(&mut pace, later, 100, hold)).collect();
    assert_eq!(calm, [2_000.0, 4_000.0, 8_000.0, 10_000.0], "up to 1 %");
    assert_eq!(pause(&mut pace, later, 1, hold), 100.0);
    assert_eq!(pace.least_pause(), Nanos::from_millis(250));
}

#[test]
fn the_next_pause_pays_for_what_was_done_with_a_report() {
    let mut pace = WindowPace::new(WindowSettings::default());
    pace.present = 1_000;
    pace.set_credit(0.0);
    let cost = Cost { cpu: Nanos::from_millis(10), wall: Nanos::ZERO };
    let mut pause = |processing| {
        pace.record_processing(Nanos::from_millis(processing));
        pace.set_credit(0.0);
        (pace.pause(Nanos::from_secs(1), cost, Nanos::ZERO, 1_000).as_secs_f64() * 1e3).round()
    };
    assert_eq!([0, 15, 0].map(&mut pause), [200.0, 500.0, 200.0], "ms at 5 %, once");
}

/// Windows of 100 ms: after an alarm three are on credit; none because pages wait to be moved.
#[test]
fn a_third_of_the_credit_is_kept_for_the_next_change() {
    let cost = Cost { cpu: Nanos::from_millis(100), wall: Nanos::ZERO };
    let now = Nanos::from_secs(1);
    let mut pace = WindowPace::new(with_credit());
    pace.present = 1_000;
    let until_pause = |pace: &mut WindowPace| {
        (1..100).find(|_| pace.pause(now, cost, Nanos::ZERO, 1_000) > Nanos::ZERO).unwrap_or(0)
    };
    assert_eq!(until_pause(&mut pace), 11, "5 of 15 are left");
    // 200 ms at 5 %: half for the window, half for the credit.
    let next = pace.pause(now, cost, Nanos::ZERO, 1_000).as_secs_f64();
    assert!((next - 4.0).abs() < 1e-6, "{next} s");
    pace.set_attention(Attention::Moving);
    assert_eq!(until_pause(&mut pace), 1, "pages wait");
    pace.set_attention(Attention::Calm);
    pace.set_attention(Attention::Suspicious);
    pace.set_attention(Attention::Alert);
    assert_eq!(until_pause(&mut pace), 3, "three were left: an alarm");
}

/// Windows of 100 ms, of which the second shows what to promote: at 5 %, 2 s apart from the fifth on.
#[test]
fn once_pages_are_promoted_windows_that_show_no_more_are_not_on_credit() {
    let cost = Cost { cpu: Nanos::from_millis(100), wall: Nanos::ZERO };
    let pauses = |promoted: u64, huge_present, settings: WindowSettings| {
        let mut pace = WindowPace::new(settings);
        pace.present = 10_000;
        let mut pause = |promoted| {
            pace.record_promotions(promoted);
            let (present, accessed) = (10_000, 1_000);
            let seen = ReadCounts { present, accessed, huge_present, ..ReadCounts::default() };
            pace.adapt(seen, seen, Bytes::from_base_pages(10_000));
            pace.pause(Nanos::from_secs(1), cost, Nanos::ZERO, 10_000).as_secs_f64()
        };
        [0, promoted, 0, 0, 0, 0].map(&mut pause)
    };
    let settings = WindowSettings::default();
    assert_eq!(pauses(500, 0, settings), [0.0, 0.0, 0.0, 0.0, 2.0, 2.0]);
    assert_eq!(pauses(20, 0, settings), [0.0; 6], "nothing was placed yet");
    assert_eq!(pauses(500, 5_120, settings), [0.0; 6], "huge pages may be split");
    let constant = WindowSettings { kept: Nanos::ZERO, ..settings };
    assert_eq!(
        pauses(500, 0, constant),
        [0.0; 6],
        "a policy that expects windows at a constant rate"
    );
}

#[test]
fn a_suspicion_waits_until_its_window_is_earned_and_a_change_may_owe_what_is_kept() {
    let mut pace = WindowPace::new(with_credit());
    let mut pauses = |credit| {
        pace.set_credit(credit);
        [Attention::Suspicious, Attention::Alert].map(|attention| {
            pace.set_attention(attention);
            (pace.pause_before_alarm().as_secs_f64() * 1e3).round()
        })
    };
    assert_eq!(pauses(0.0), [0.0, 0.0]);
    assert_eq!(pauses(-0.1), [2_000.0, 0.0], "at 5 %");
    assert_eq!(pauses(-0.7), [14_000.0, 4_000.0]);
}

/// Windows of 100 ms at 5 % are 2 s apart.
#[test]
fn if_nothing_is_kept_all_credit_is_spent_and_then_all_that_is_earned() {
    let cost = Cost { cpu: Nanos::from_millis(100), wall: Nanos::ZERO };
    let settings = WindowSettings { kept: Nanos::ZERO, ..with_credit() };
    let mut pace = WindowPace::new(settings);
    pace.present = 1_000;
    let mut now = Nanos::from_secs(1);
    let pauses: Vec<f64> = (0..19)
        .map(|_| {
            let pause = pace.pause(now, cost, Nanos::ZERO, 1_000);
            now += pause;
            (pause.as_secs_f64() * 1e3).round()
        })
        .collect();
    assert_eq!(pauses[..15], [0.0; 15], "fifteen on credit");
    assert_eq!(pauses[15..], [2_000.0; 4]);
}

/// 150 of 300 huge pages are half of the memory.
#[test]
fn windows_on_credit_find_what_is_in_half_of_the_huge_pages_that_were_split() {
    let mut pace = WindowPace::new(WindowSettings::default());
    (pace.present, pace.fruitless) = (300 * BASE_PER_HUGE, 9);
    pace.set_credit(-1.0);
    (0..150).for_each(|_| pace.record_splits(1));
    assert!(pace.credit() < 0.0 && pace.fruitless == 9);
    pace.record_splits(1);
    assert!(pace.credit() > 0.9 && pace.fruitless == 0);
    pace.set_credit(0.0);
    pace.record_splits(149);
    assert!(pace.credit() < 0.1, "once for each half");
}
