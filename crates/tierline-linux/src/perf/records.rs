// SPDX-License-Identifier: Apache-2.0
//! The records between a ring's tail and its head.

const SAMPLE: u32 = perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;
const LOST: u32 = perf_event_open_sys::bindings::PERF_RECORD_LOST;
const THROTTLE: u32 = perf_event_open_sys::bindings::PERF_RECORD_THROTTLE;

/// Bytes of a record's header: type (4), misc (2), size of the whole record (2).
const HEADER: usize = 8;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample: the bytes after the header.
    Sample(&'a [u8]),
    /// This many records were lost.
    Lost(u64),
    /// The kernel paused the event.
    Throttled,
    /// Anything else.
    Other,
    /// A record with an invalid size: nothing after it can be found.
    Malformed,
}

/// Iterates over records. They are in two slices if the ring wraps around; a record that crosses the
/// end is copied to `scratch`, all others are returned in place.
pub struct Records<'a> {
    first: &'a [u8],
    second: &'a [u8],
    at: usize,
    scratch: &'a mut Vec<u8>,
}

impl<'a> Records<'a> {
    /// The records in `first`, continued in `second`.
    pub fn new(first: &'a [u8], second: &'a [u8], scratch: &'a mut Vec<u8>) -> Self {
        Self { first, second, at: 0, scratch }
    }

    /// The next record, or `None` at the end.
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        let left = (self.first.len() + self.second.len()).checked_sub(self.at)?;
        if left == 0 {
            return None;
        }
        let Some((kind, size)) = self.header(left) else {
            self.at = self.first.len() + self.second.len();
            return Some(Record::Malformed);
        };
        let start = self.at;
        self.at += size;
        let body = self.bytes(start + HEADER, size - HEADER);
        Some(match kind {
            SAMPLE => Record::Sample(body),
            // The body is an id, then the count.
            LOST => word(body, 8).map_or(Record::Malformed, Record::Lost),
            THROTTLE => Record::Throttled,
            _ => Record::Other,
        })
    }

    fn header(&self, left: usize) -> Option<(u32, usize)> {
        let mut header = [0; HEADER];
        for (to, at) in header.iter_mut().zip(self.at..self.at + HEADER) {
            let second = at.wrapping_sub(self.first.len());
            *to = *self.first.get(at).or_else(|| self.second.get(second))?;
        }
        let [a, b, c, d, _, _, e, f] = header;
        let size = usize::from(u16::from_ne_bytes([e, f]));
        (HEADER..=left).contains(&size).then(|| (u32::from_ne_bytes([a, b, c, d]), size))
    }

    fn bytes(&mut self, start: usize, length: usize) -> &[u8] {
        let cut = self.first.len();
        if start + length <= cut {
            return &self.first[start..start + length];
        }
        if start >= cut {
            return &self.second[start - cut..start - cut + length];
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.first[start..]);
        self.scratch.extend_from_slice(&self.second[..start + length - cut]);
        self.scratch
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Synthetic records for the tests of everything that reads rings.
#[cfg(test)]
pub mod synthetic {
    use super::HEADER;

    /// A record of `kind` with `words` as its body.
    pub fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER + words.len() * 8).expect("a short record");
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::synthetic::record;
    use super::*;

    /// A readable copy of the records.
    fn walk(first: &[u8], second: &[u8]) -> Vec<String> {
        let mut scratch = Vec::new();
        let mut records = Records::new(first, second, &mut scratch);
        let mut texts = Vec::new();
        while let Some(record) = records.next_record() {
            texts.push(match record {
                Record::Sample(body) => format!("sample {:?}", word(body, 0)),
                other => format!("{other:?}"),
            });
            assert!(texts.len() < 100, "it ends");
        }
        texts
    }

    #[test]
    fn records_are_the_same_wherever_the_ring_wraps() {
        let all: Vec<u8> = [
            record(SAMPLE, &[7, 1, 2]),
            record(LOST, &[9, 41]),
            record(THROTTLE, &[0, 0, 0]),
            record(99, &[]),
            record(SAMPLE, &[8]),
        ]
        .concat();
        let expected = ["sample Some(7)", "Lost(41)", "Throttled", "Other", "sample Some(8)"];
        for cut in 0..=all.len() {
            assert_eq!(walk(&all[..cut], &all[cut..]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_invalid_size_ends_the_walk() {
        let mut zero = record(SAMPLE, &[1]);
        zero[6] = 0;
        assert_eq!(walk(&zero, &[]), ["Malformed"]);
        let long = record(SAMPLE, &[1, 2, 3]);
        assert_eq!(walk(&long[..16], &[]), ["Malformed"]);
        assert_eq!(walk(&long[..3], &[]), ["Malformed"]);
        assert_eq!(walk(&record(LOST, &[1]), &[]), ["Malformed"]);
        assert!(walk(&[], &[]).is_empty());
    }
}
