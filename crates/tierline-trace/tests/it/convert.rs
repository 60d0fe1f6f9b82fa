// SPDX-License-Identifier: Apache-2.0
//! Output of other tools. The samples of damo 1.9.0, perf 6.1 and Valgrind 3.19 come from these tools,
//! shortened. The one of DynamoRIO was written by hand after its view tool, that of libCacheSim is made here.

use tierline_trace::cache::Geometry;
use tierline_trace::convert::{Format, Options};
use tierline_trace::{Epoch, Error};

use super::Plain;

fn convert(from: &str, input: &[u8], options: Options) -> (Plain, Result<(), Error>) {
    let mut out = Vec::new();
    let result = Format::find(from).unwrap().convert(&mut &*input, &options, &mut out);
    let (plain, wrong) = Plain::read(&out);
    assert!(wrong.is_none(), "{wrong:?}");
    (plain, result)
}

fn uncached() -> Options {
    Options { cache: None, ..Options::default() }
}

#[test]
fn damo_regions_become_pages() {
    let text = include_bytes!("../samples/damo.txt");
    let (plain, result) = convert("damo", text, Options::default());
    result.unwrap();
    // monitoring_start 0, end 5.145 s, and so on: one epoch per snapshot.
    let text = str::from_utf8(text).unwrap();
    let snapshots = text.matches("monitoring_start").count();
    let busy = plain.0.iter().filter(|(_, spaces)| !spaces.is_empty()).count();
    assert_eq!(busy, snapshots);
    assert_eq!(plain.0[0].0.ns, 5_145_000_000);
    // Exactly the pages of regions that were accessed.
    let mut expected = 0;
    for line in text.lines().filter(|line| line.contains('(')) {
        let bounds = line.split_once('-').unwrap();
        let hex = |text: &str| u64::from_str_radix(&text[..12], 16).unwrap();
        let accesses: u64 =
            line.split(')').nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        expected += (hex(bounds.1) - hex(bounds.0)) / 4096 * accesses;
    }
    let all = plain.0.iter().flat_map(|(_, spaces)| spaces).flat_map(|(_, records)| records);
    assert_eq!(all.map(|record| u64::from(record.reads)).sum::<u64>(), expected);
    assert!(expected > 0);
}

#[test]
fn damo_with_more_pages_than_memory_could_count_gives_advice() {
    let region = |end: u64| {
        format!(
            "monitoring_start: 0 ns\nmonitoring_end: 1 ms\n0-1000 (4 KiB) 5 1\n100000-{end:x} (x) 5 1\n"
        )
    };
    let last = (1 << 20) + ((1 << 22) << 12);
    let (_, result) = convert("damo", region(last).as_bytes(), Options::default());
    let error = result.expect_err("one page too many").to_string();
    assert!(error.contains("line 4") && error.contains("--page 2M"), "{error}");
}

#[test]
fn damo_with_two_targets_gives_advice() {
    let text = b"base_time_absolute: 0 ns\nbase_time_absolute: 0 ns\n";
    let (_, result) = convert("damo", text, Options::default());
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with("line 2: ") && error.contains("merge"), "{error}");
}

#[test]
fn perf_samples_are_weighted_by_period_and_keep_their_process() {
    let text = include_bytes!("../samples/perf.txt");
    let (plain, result) = convert("perf", text, Options::default());
    result.unwrap();
    assert_eq!(plain.lines(0x55e5_f8e6_a640 >> 12).0, 1);
    let spaces: Vec<u32> =
        plain.0.iter().flat_map(|(_, spaces)| spaces).map(|(space, _)| *space).collect();
    assert!(!spaces.is_empty() && spaces.iter().all(|&space| space == 31359));
    let line = b"app 7/9 1.000000000: 1009 cpu/mem-stores/P: 7f0000001fff 5080\n";
    let (plain, result) = convert("perf", line, Options::default());
    result.unwrap();
    assert_eq!(plain.0[0].1[0].0, 7);
    assert_eq!(plain.lines(0x7_f000_0001), (0, 1009));
}

/// perf prints instructions if no addresses were recorded.
#[test]
fn perf_without_addresses_is_an_error() {
    let line =
        b"sqlite3 31359 23719.235412:  1 page-faults:  7f4ae01a1b70 _start+0x0 (/usr/lib/ld.so)\n";
    let (_, result) = convert("perf", line, Options::default());
    assert!(result.unwrap_err().to_string().contains("-F pid,time,period,event,addr"));
}

#[test]
fn accesses_of_lackey_pass_the_cache() {
    let text = include_bytes!("../samples/lackey.txt");
    let (all, result) = convert("lackey", text, uncached());
    result.unwrap();
    let lines = str::from_utf8(text).unwrap().lines();
    let kinds: Vec<&str> = lines.map(|line| line.get(..2).unwrap_or("")).collect();
    let count = |kind| kinds.iter().filter(|k| **k == kind).count() as u64;
    let accesses: u64 = all.0.iter().map(|(epoch, _)| epoch.accesses).sum();
    assert_eq!(accesses, count(" L") + count(" S") + 2 * count(" M"));
    let sum = |plain: &Plain| {
        let all = plain.0.iter().flat_map(|(_, spaces)| spaces).flat_map(|(_, r)| r);
        all.fold((0, 0), |sum, r| (sum.0 + u64::from(r.reads), sum.1 + u64::from(r.writes)))
    };
    let (cached, result) = convert("lackey", text, Options::default());
    result.unwrap();
    let (before, after) = (sum(&all), sum(&cached));
    // Fewer lines are read than loads and stores were made, and a cache that is never full evicts nothing.
    assert!(after.0 > 0 && after.0 < (before.0 + before.1) / 2, "{before:?} {after:?}");
}

/// Stores to more memory than the cache holds: every line is read once, and all but the last ones are written
/// back.
#[test]
fn a_stream_of_stores_reads_and_writes_every_line() {
    let lines: String = (0..4096).map(|line| format!(" S {:x},8\n", line * 64)).collect();
    let cache = Some(Geometry { bytes: 1 << 16, ways: 4 });
    let options = Options { cache, epoch_ns: 1 << 40, ..Options::default() };
    let (plain, result) = convert("lackey", lines.as_bytes(), options);
    result.unwrap();
    assert_eq!(plain.lines(0), (64, 64));
    assert_eq!(plain.lines(63), (64, 0));
    // 4096 lines of 80 ns.
    assert_eq!(plain.0[0].0, Epoch { ns: 327_680, accesses: 4096 });
}

#[test]
fn an_invalid_line_ends_the_conversion_and_earlier_lines_are_kept() {
    let (plain, result) = convert("lackey", b" L 1000,8\nhello\n L 2000,8\n", uncached());
    assert!(matches!(result, Err(Error::Text { line: 2, .. })), "{result:?}");
    assert_eq!((plain.lines(1), plain.lines(2)), ((1, 0), (0, 0)));
}

#[test]
fn dynamorio_counts_reads_and_writes_but_no_prefetches() {
    let text = include_bytes!("../samples/dynamorio.txt");
    let (plain, result) = convert("dynamorio", text, uncached());
    result.unwrap();
    assert_eq!(plain.lines(0x7_fdf6_4e2a), (1, 1));
    assert_eq!(plain.lines(0x7_fdf6_4e2b), (1, 0));
    assert_eq!(plain.lines(0x7_fdf6_4e2c), (0, 0));
    // Three instructions of 0.3 ns and two lines of 80 ns; a store without a cache takes no time.
    assert_eq!(plain.0[0].0, Epoch { ns: 160, accesses: 3 });
    let (_, result) = convert("dynamorio", b"no trace at all\n", uncached());
    assert!(result.unwrap_err().to_string().contains("view tool"));
}

#[test]
fn requests_become_reads_of_objects_in_slabs() {
    let request = |seconds: u32, object: u64, bytes: u32| {
        let parts: [&[u8]; 4] =
            [&seconds.to_le_bytes(), &object.to_le_bytes(), &bytes.to_le_bytes(), &[0xff; 8]];
        parts.concat()
    };
    let plain = [request(100, 7, 128), request(100, 8, 8192), request(103, 7, 128)].concat();
    let options = Options { epoch_ns: 1_000_000_000, ..uncached() };
    let (trace, result) = convert("oracle-general", &plain, options);
    result.unwrap();
    // Two lines of one object, twice, three seconds apart; 128 lines of the other, in its own slab.
    assert_eq!(trace.lines(0), (4, 0));
    assert_eq!((trace.lines(256), trace.lines(257)), ((64, 0), (64, 0)));
    assert_eq!(trace.0.iter().map(|(epoch, _)| epoch.ns).sum::<u64>(), 3_000_000_000);
    let packed = zstd::encode_all(&plain[..], 1).unwrap();
    assert_eq!(convert("oracle-general", &packed, options).0, trace);
    let (kept, result) = convert("oracle-general", &plain[..50], options);
    assert!(
        result.unwrap_err().to_string().starts_with("at byte 48: expected a request of 24 bytes")
    );
    assert_eq!(kept.lines(0), (2, 0));
}
